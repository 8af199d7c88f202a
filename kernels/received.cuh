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
struct SenderNoise {
  NoiseStart start;
  PhiloxKey late[kNoiseRounds - kRoundsOfStart];
};
static_assert(sizeof(SenderNoise) == 64);

/// What a kernel knows of its received messages, in dynamic shared memory: the senders' noise where the
/// coding needs it and kMostSendersKept or fewer send, then a byte for each message.
struct ReceivedState {
  SenderNoise* senders;   // or nullptr: threads read the headers
  std::int8_t* invalid;   // -1: what the message says is NaN
  std::uint32_t address;  // of `invalid` in shared memory

  /// `one_segment`: the thread block works on one input segment, so that a sender's noise can be kept ready.
  __device__ __forceinline__ ReceivedState(const SegmentLayout& layout, std::uint32_t message_count,
                                           bool one_segment) {
    extern __shared__ SenderNoise received_state[];
    const bool kept_ready = one_segment && receiver_draws(layout.coding) && message_count <= kMostSendersKept;
    senders = kept_ready ? received_state : nullptr;
    invalid = reinterpret_cast<std::int8_t*>(received_state + (kept_ready ? message_count : 0));
    address = kept(static_cast<std::uint32_t>(__cvta_generic_to_shared(invalid)));
  }
  static std::size_t bytes(const Codec& codec, std::uint32_t message_count) {
    return message_count *
           (1 +
            (receiver_draws(codec.coding) && message_count <= kMostSendersKept ? sizeof(SenderNoise) : 0));
  }
  /// The scale that a message's bits stand for. `invalid` by its address, which would be found anew each
  /// time.
  [[nodiscard]] __device__ __forceinline__ float scale_of(std::uint32_t message, std::uint32_t bits) const {
    std::int32_t is_invalid;
    asm volatile("ld.shared.s8 %0, [%1];" : "=r"(is_invalid) : "r"(address + message));
    return float_from_bits(bits | (static_cast<std::uint32_t>(is_invalid) & kNanBits));
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

  /// The noise of message `m`'s sender.
  __device__ __forceinline__ Philox4 noise(std::uint32_t m, const NoiseBlock& block) const {
    if (state.senders != nullptr) {
      const SenderNoise& sender = state.senders[m];
      return block_noise(sender.start, sender.late, block);
    }
    const auto& header = *reinterpret_cast<const MessageHeader*>(messages + m * stride);
    const PhiloxSchedule key = noise_schedule(header_key(header));
    return block_noise(noise_start(key, header.draw, kind, segment), key.round + kRoundsOfStart, block);
  }

  /// sum = message 0 + ... + own + ... in rank order; `own` stands at
  /// `own_position` among the messages. True if some message's block is NaN.
  __device__ __forceinline__ bool sum_in_rank_order(float (&sum)[kBlock], const float (&own)[kBlock],
                                                    std::uint32_t own_position, std::uint32_t tile) const {
    bool nan = false;
    // Stochastic codes decode as nearest ones do: one copy of that.
    GradientCodings::with<Bits>(layout.coding == Coding::stochastic ? Coding::nearest : layout.coding,
                                [&]<typename Policy>() {
                                  if constexpr (Policy::kCoding != Coding::stochastic) {
                                    nan = sum_decoded<Policy>(sum, own, own_position, tile);
                                  }
                                });
    return nan;
  }

 private:
  template <typename Policy>
  __device__ __forceinline__ bool sum_decoded(float (&sum)[kBlock], const float (&own)[kBlock],
                                              std::uint32_t own_position, std::uint32_t tile) const {
    const bool wide = layout.scale == ScaleType::float32;
    const std::byte* block_codes = codes + std::size_t{tile} * layout.code_step();
    const std::byte* block_scale = scales + std::size_t{tile} * layout.scale_step();
    NoiseBlock block{};
    if constexpr (Policy::kReceiverDraws) {
      block = noise_block(first_block + std::uint64_t{tile} * kThreads);
      // Not anew for each message, where there are registers for it.
      if constexpr (ExactProducts) block = {kept(block.x2), kept(block.x3)};
    }
    float nothing = 0.0f;  // or NaN
    std::uint32_t m = 0;
    const auto add_next = [&]<bool First>() {
      std::uint32_t words[kCodeWords<Bits>];
      load_words(words, block_codes);
      const float scale =
          state.scale_of(m, wide ? *reinterpret_cast<const std::uint32_t*>(block_scale)
                                 : std::uint32_t{*reinterpret_cast<const std::uint16_t*>(block_scale)} << 16);
      add_decoded_block<Policy, Bits, float, ExactProducts, First>(sum, words, scale,
                                                                   [&] { return noise(m, block); });
      nothing = fmaf(scale, 0.0f, nothing);
      block_codes += stride;
      block_scale += stride;
      ++m;
    };
    const auto add_messages_to = [&](std::uint32_t end) {
#pragma unroll 1
      while (m < end) add_next.template operator()<false>();
    };
    if (own_position == 0) {
      SDP4BIT_UNROLL
      for (unsigned i = 0; i < kBlock; ++i) sum[i] = own[i];
    } else {
      add_next.template operator()<true>();
      add_messages_to(own_position);
      SDP4BIT_UNROLL
      for (unsigned i = 0; i < kBlock; ++i) sum[i] += own[i];
    }
    add_messages_to(message_count);
    return nothing != nothing;
  }
};

/// Fills the state for the whole thread block, which reports to `error` where that is given. `segment()`: the
/// senders' input segment.
template <typename Segment>
__device__ __forceinline__ void check_headers(const ReceivedState& state, const Messages& messages,
                                              std::uint32_t message_count, MessageKind kind,
                                              std::uint32_t chunk, std::uint64_t count,
                                              const Segment& segment, std::uint32_t* error) {
  for (std::uint32_t m = threadIdx.x; m < message_count; m += kThreads) {
    const auto& header = *reinterpret_cast<const MessageHeader*>(messages.data + m * messages.stride);
    const bool is_valid = gradient_header_is_valid(header, kind, chunk, count);
    state.invalid[m] = is_valid ? 0 : -1;
    if (!is_valid && error != nullptr) show_host(*error, 1u);
    if (state.senders == nullptr) continue;
    const PhiloxSchedule key = noise_schedule(header_key(header));
    SenderNoise& sender = state.senders[m];
    sender.start = noise_start(key, header.draw, kind, segment());
    SDP4BIT_UNROLL
    for (int round = kRoundsOfStart; round < kNoiseRounds; ++round) {
      sender.late[round - kRoundsOfStart] = key.round[round];
    }
  }
  __syncthreads();
}

}  // namespace sdp4bit
