// How a kernel sees the messages of its peers: headers checked once a thread
// block, blocks added in rank order.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gradient_block.cuh"
#include "kernels/header.h"
#include "kernels/host_word.cuh"
#include "kernels/launch.h"

namespace sdp4bit {

/// What a receiver draws a sender's noise by, ready-made in shared memory.
struct alignas(16) SenderNoise {
  PhiloxSchedule key;
  std::uint64_t draw;
};
static_assert(sizeof(SenderNoise) == 64);

/// What a kernel knows of its received messages, in dynamic shared memory: `senders` where the coding needs
/// them and kMostSendersKept or fewer send, then a byte for each message.
struct ReceivedState {
  SenderNoise* senders;  // or nullptr: threads read the headers
  bool* invalid;

  __device__ __forceinline__ ReceivedState(const SegmentLayout& layout, std::uint32_t message_count) {
    extern __shared__ SenderNoise received_state[];
    const bool kept_ready = receiver_draws(layout.coding) && message_count <= kMostSendersKept;
    senders = kept_ready ? received_state : nullptr;
    invalid = reinterpret_cast<bool*>(received_state + (kept_ready ? message_count : 0));
  }
  static std::size_t bytes(const Codec& codec, std::uint32_t message_count) {
    return message_count *
           (1 +
            (receiver_draws(codec.coding) && message_count <= kMostSendersKept ? sizeof(SenderNoise) : 0));
  }
};

/// One segment in each of the received messages, of which some may have a header that cannot be.
template <unsigned Bits, bool ExactProducts>
struct ReceivedSegments {
  const std::byte* codes;   // of the thread's block in the first tile, in the first message
  const std::byte* scales;  // of that block's group
  std::size_t stride;
  std::uint32_t message_count;
  const std::byte* messages;
  const SegmentLayout& layout;
  ReceivedState state;
  MessageKind kind;
  std::uint32_t segment;      // the senders' input segment, which keys their noise
  std::uint64_t first_block;  // likewise, the thread's in the chunk's first tile

  __device__ __forceinline__ ReceivedSegments(const Messages& received, std::uint32_t count,
                                              std::size_t offset, const SegmentLayout& segments,
                                              const ReceivedState& shared, MessageKind message_kind,
                                              std::uint32_t input_segment, std::size_t input_offset)
      : codes(kept(received.data + offset + segments.code_offset(own_element()))),
        scales(kept(received.data + offset + segments.scale_offset(own_element()))),
        stride(received.stride),
        message_count(count),
        messages(received.data),
        layout(segments),
        state(shared),
        kind(message_kind),
        segment(input_segment),
        first_block(kept(std::uint64_t{input_offset / kBlock + threadIdx.x})) {}

  /// The noise of message `m`'s sender in the tile `start`.
  __device__ __forceinline__ Philox4 noise(std::uint32_t m, std::size_t start) const {
    if (state.senders != nullptr) {
      const SenderNoise& sender = state.senders[m];
      return BlockNoises{sender.key, sender.draw, kind, segment, first_block}.in_tile(start);
    }
    const auto& header = *reinterpret_cast<const MessageHeader*>(messages + m * stride);
    return BlockNoises{noise_schedule(header_key(header)), header.draw, kind, segment, first_block}.in_tile(
        start);
  }

  /// sum = message 0 + ... + own + ... in rank order; `own` stands at
  /// `own_position` among the messages. The sum begins with -0, which changes
  /// no first summand. True if some message's block is NaN.
  __device__ __forceinline__ bool sum_in_rank_order(float (&sum)[kBlock], const float (&own)[kBlock],
                                                    std::uint32_t own_position, std::size_t start) const {
    bool nan = false;
    // Stochastic codes decode as nearest ones do: one copy of that.
    GradientCodings::with<Bits>(layout.coding == Coding::stochastic ? Coding::nearest : layout.coding,
                                [&]<typename Policy>() {
                                  if constexpr (Policy::kCoding != Coding::stochastic) {
                                    nan = sum_decoded<Policy>(sum, own, own_position, start);
                                  }
                                });
    return nan;
  }

 private:
  template <typename Policy>
  __device__ __forceinline__ bool sum_decoded(float (&sum)[kBlock], const float (&own)[kBlock],
                                              std::uint32_t own_position, std::size_t start) const {
    const unsigned step = layout.scale == ScaleType::float32 ? 4 : 2;
    const std::byte* block_codes = codes + start * Bits / 8;
    const std::byte* block_scale = scales + (start >> layout.group_shift) * step;
    float nothing = 0.0f;  // or NaN
    std::uint32_t m = 0;
    const auto add_messages_to = [&](std::uint32_t end) {
#pragma unroll 1
      for (; m < end; ++m) {
        std::uint32_t words[kCodeWords<Bits>];
        load_words(words, block_codes);
        float scale = layout.scale == ScaleType::float32
                          ? *reinterpret_cast<const float*>(block_scale)
                          : to_float(*reinterpret_cast<const BFloat16*>(block_scale));
        if (state.invalid[m]) scale = float_from_bits(kNanBits);
        add_decoded_block<Policy, Bits, float, ExactProducts>(sum, words, scale,
                                                              [&] { return noise(m, start); });
        nothing = fmaf(scale, 0.0f, nothing);
        block_codes += stride;
        block_scale += stride;
      }
    };
    if (own_position == 0) {
      SDP4BIT_UNROLL
      for (unsigned i = 0; i < kBlock; ++i) sum[i] = own[i];
    } else {
      SDP4BIT_UNROLL
      for (unsigned i = 0; i < kBlock; ++i) sum[i] = -0.0f;
      add_messages_to(own_position);
      SDP4BIT_UNROLL
      for (unsigned i = 0; i < kBlock; ++i) sum[i] += own[i];
    }
    add_messages_to(message_count);
    return nothing != nothing;
  }
};

/// Fills the state for the whole thread block, which reports to `error` where that is given.
__device__ __forceinline__ void check_headers(const ReceivedState& state, const Messages& messages,
                                              std::uint32_t message_count, MessageKind kind,
                                              std::uint32_t chunk, std::uint64_t count,
                                              std::uint32_t* error) {
  for (std::uint32_t m = threadIdx.x; m < message_count; m += kThreads) {
    const auto& header = *reinterpret_cast<const MessageHeader*>(messages.data + m * messages.stride);
    state.invalid[m] = !gradient_header_is_valid(header, kind, chunk, count);
    if (state.invalid[m] && error != nullptr) show_host(*error, 1u);
    if (state.senders != nullptr) state.senders[m] = {noise_schedule(header_key(header)), header.draw};
  }
  __syncthreads();
}

}  // namespace sdp4bit
