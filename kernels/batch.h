// Several calls in one launch: what a kernel is given of each, and how a thread block finds its own.
//
// A launch costs some microseconds however little it does, so calls that take their steps together share
// launches. Each call keeps its own tiles: its bits are those of a launch of its own.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include "kernels/host_device.h"
#include "kernels/index.h"

namespace sdp4bit {

/// As many as keep every kernel's parameters below the 4 KB that all drivers take.
inline constexpr std::uint32_t kMostCallsOfLaunch = 8;

/// Which call a thread block works for, and where it stands among that call's blocks along x.
struct BlockPlace {
  std::uint32_t call;
  std::uint32_t block;
  std::uint32_t blocks;
};

/// A kernel's parameter: the calls, one behind the other along the grid's x. What calls of a launch have in
/// common (types, widths, the grid's y and z) is for the launcher to see to.
template <typename Call>
struct Batch {
  std::uint32_t calls = 0;
  std::uint32_t first_block[kMostCallsOfLaunch + 1];
  union {  // so that places without a call cost nothing
    Call call[kMostCallsOfLaunch];
  };

  Batch() { first_block[0] = 0; }

  [[nodiscard]] bool full() const { return calls == kMostCallsOfLaunch; }
  [[nodiscard]] std::uint32_t blocks() const { return first_block[calls]; }
  void clear() { calls = 0; }
  /// describe() makes the call; `tiles` of it, over which its blocks stride.
  template <typename Describe>
  void add(const Describe& describe, std::size_t tiles) {
    constexpr std::size_t kMostBlocks = kLargestGridX / kMostCallsOfLaunch;
    new (&call[calls]) Call(describe());
    first_block[calls + 1] = first_block[calls] + static_cast<std::uint32_t>(std::min(tiles, kMostBlocks));
    ++calls;
  }

  SDP4BIT_HOST_DEVICE BlockPlace place(std::uint32_t block) const {
    std::uint32_t index = 0;
    while (index + 1 < calls && block >= first_block[index + 1]) ++index;
    return {index, block - first_block[index], first_block[index + 1] - first_block[index]};
  }
};

/// Puts calls into batches and gives each to launch(batch, its first call, whether it is the last one). Those
/// of a batch have one type, and share(batch, call) says that the call can join. `describe(call)` makes what
/// the kernel is given of a call, `tiles(call)` says how many it has; calls without any are left out.
template <typename Call, typename Args, typename TypeOf, typename Share, typename Describe, typename Tiles,
          typename Launch>
cudaError_t launch_in_batches(std::span<const Args> calls, const TypeOf& type_of, const Share& share,
                              const Describe& describe, const Tiles& tiles, const Launch& launch) {
  static_assert(sizeof(Batch<Call>) + 64 <= 4096, "a kernel's parameters");
  Batch<Call> batch;
  const Args* first = nullptr;
  unsigned types = 0;  // that occur, a bit for each
  for (const Args& call : calls) types |= 1u << static_cast<unsigned>(type_of(call));
  for (const ElementType type : {ElementType::float32, ElementType::float16, ElementType::bfloat16}) {
    if ((types >> static_cast<unsigned>(type) & 1u) == 0) continue;
    for (const Args& call : calls) {
      if (type_of(call) != type || tiles(call) == 0) continue;
      if (first && (batch.full() || type_of(*first) != type || !share(batch, call))) {
        if (const cudaError_t error = launch(batch, *first, false); error != cudaSuccess) return error;
        first = nullptr;
      }
      if (!first) {
        batch.clear();
        first = &call;
      }
      batch.add([&] { return describe(call); }, tiles(call));
    }
  }
  return first ? launch(batch, *first, true) : cudaSuccess;
}

}  // namespace sdp4bit
