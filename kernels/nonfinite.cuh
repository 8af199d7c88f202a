// How kernels count groups that hold a NaN or an infinity, and show their counts to the host.
#pragma once

#include "kernels/device_counters.h"
#include "kernels/host_word.cuh"
#include "kernels/index.h"
#include "kernels/memory.cuh"

namespace sdp4bit {

__device__ __forceinline__ void count_group(std::uint64_t* word) {
  static_assert(sizeof(unsigned long long) == sizeof(std::uint64_t));
  atomicAdd(reinterpret_cast<unsigned long long*>(word), 1ull);
}

/// By the first thread of a group, with the scale that it sends: two instructions where all is well.
__device__ __forceinline__ void count_sent_group(NonFiniteGroups* counters, float scale) {
  if (scale != scale && counters != nullptr) count_group(&counters->sent);
}

/// By every thread that decoded its block of a group; `nan`: some scale was. What else it takes is asked only
/// then. `begin`: the block's first element, of the segment or of its tile, where groups begin too.
__device__ __forceinline__ void count_received_group(NonFiniteGroups* counters, const SegmentLayout& layout,
                                                     std::size_t begin, bool nan) {
  static_assert(kTile % kLargestGroup == 0);
  if (!nan) return;
  counters = kept(counters);
  if (counters != nullptr && begin >> layout.group_shift << layout.group_shift == begin)
    count_group(&counters->received);
}

/// By one thread, when what was counted before on the stream is done.
__device__ __forceinline__ void copy_counters(const CounterMirror& mirror) {
  if (mirror.device == nullptr) return;
  const auto copy = [](const std::uint64_t& from, std::uint64_t& to) {
    show_host(to, *const_cast<const volatile std::uint64_t*>(&from));
  };
  copy(mirror.device->draws, mirror.host->draws);
  copy(mirror.device->gradients.sent, mirror.host->gradients.sent);
  copy(mirror.device->gradients.received, mirror.host->gradients.received);
  copy(mirror.device->weights.sent, mirror.host->weights.sent);
  copy(mirror.device->weights.received, mirror.host->weights.received);
}

}  // namespace sdp4bit
