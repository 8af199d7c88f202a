// How a kernel sees the messages of its peers: headers checked once a thread block, blocks added in rank
// order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/block_codec.cuh"
#include "kernels/header.h"
#include "kernels/host_word.cuh"
#include "kernels/launch.h"

namespace sdp4bit {

/// Received messages of which some may have a header that cannot be.
struct ReceivedMessages {
  Messages messages;
  SegmentLayout layout;
  std::size_t segment_offset;  // of the segment in use, from a message's first byte
  const bool* invalid;         // shared memory, one a message
  MessageKind kind;
  std::uint32_t segment;  // the senders' input segment, which keys their noise ...
  std::uint64_t offset;   // ... and the chunk's first element in it

  /// The noise of message `m`'s sender in the block that begins at `begin`.
  __device__ __forceinline__ BlockNoise noise(std::uint32_t m, std::size_t begin) const {
    const auto& header = *reinterpret_cast<const MessageHeader*>(messages.data + m * messages.stride);
    return {header_key(header), header.draw, kind, segment, offset + begin};
  }

  /// Adds message `m`'s block that begins at `begin`; true if it is NaN.
  template <unsigned Bits>
  __device__ __forceinline__ bool add(float (&sum)[kBlock], std::uint32_t m, std::size_t begin) const {
    return add_decoded<Bits>(sum, messages.data + m * messages.stride + segment_offset, layout, begin,
                             invalid[m], [&] { return noise(m, begin)(); });
  }
};

/// Fills invalid[0 .. message_count) for the whole thread block, which reports to `error` where that is
/// given.
__device__ __forceinline__ void check_headers(bool* invalid, const Messages& messages,
                                              std::uint32_t message_count, MessageKind kind,
                                              std::uint32_t chunk, std::uint64_t count,
                                              std::uint32_t* error) {
  for (std::uint32_t m = threadIdx.x; m < message_count; m += kThreads) {
    const auto& header = *reinterpret_cast<const MessageHeader*>(messages.data + m * messages.stride);
    invalid[m] = !gradient_header_is_valid(header, kind, chunk, count);
    if (invalid[m] && error != nullptr) show_host(*error, 1u);
  }
  __syncthreads();
}

/// sum = message 0 + ... + own + ... in rank order; `own` stands at `own_position` among the messages.
/// The sum begins with -0, which changes no first summand. True if some message's block is NaN.
template <unsigned Bits>
__device__ __forceinline__ bool sum_in_rank_order(float (&sum)[kBlock], const float (&own)[kBlock],
                                                  std::uint32_t own_position,
                                                  const ReceivedMessages& received,
                                                  std::uint32_t message_count, std::size_t begin) {
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kBlock; ++i) sum[i] = -0.0f;
  bool nan = false;
  for (std::uint32_t m = 0; m < own_position; ++m) nan |= received.add<Bits>(sum, m, begin);
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kBlock; ++i) sum[i] += own[i];
  for (std::uint32_t m = own_position; m < message_count; ++m) nan |= received.add<Bits>(sum, m, begin);
  return nan;
}

}  // namespace sdp4bit
