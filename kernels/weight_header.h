// What headers and records of weights say, and whether received ones can be: the same rules on host and
// device.
#pragma once

#include <cstdint>

#include "kernels/codec.h"
#include "kernels/host_device.h"
#include "kernels/launch_weight.h"
#include "kernels/wire_format.h"

namespace sdp4bit {

SDP4BIT_HOST_DEVICE MessageHeader weight_header(MessageKind kind, const WeightChunk& chunk,
                                                std::uint32_t sender, std::uint32_t slot,
                                                std::uint32_t flags) {
  MessageHeader header{};  // every byte travels, so every byte is set
  header.magic = kMagic;
  header.wire_version = kWireVersion;
  header.kind = kind;
  header.call_or_key = chunk.class_call;
  header.slot = slot;
  header.flags = flags;
  header.sender = sender;
  header.chunk = chunk.chunk;
  header.count = chunk.count;
  header.class_number = chunk.class_number;
  return header;
}

/// A difference must name its class, call and chunk, and a slot of the ledger.
SDP4BIT_HOST_DEVICE bool weight_header_is_valid(const MessageHeader& header, MessageKind kind,
                                                const WeightChunk& chunk, std::uint32_t sender) {
  return header.magic == kMagic && header.wire_version == kWireVersion && header.kind == kind &&
         header.call_or_key == chunk.class_call && header.class_number == chunk.class_number &&
         header.chunk == chunk.chunk && header.count == chunk.count && header.sender == sender &&
         (chunk.slots == 0 || header.slot < chunk.slots);
}

/// "Small" is at most 1/16 of the weights, a jump is above 1/4; NaN is large.
SDP4BIT_HOST_DEVICE std::uint32_t size_flags(double difference, double weight) {
  return (difference * 16 <= weight ? kSmall : 0u) | (difference * 4 <= weight ? 0u : kJump);
}

/// Ledger elements that are not finite read as zero: a weight that was NaN heals with the next difference.
SDP4BIT_HOST_DEVICE float finite_or_zero(float value) {
  return magnitude_bits(value) < 0x7f800000u ? value : 0.0f;
}

/// Threads of the one block that sums maxima. Thread t adds those at t, t + kSumThreads, ...; then a tree of
/// halves.
inline constexpr unsigned kSumThreads = 256;

}  // namespace sdp4bit
