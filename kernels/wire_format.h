// The bytes of a message: header, then for each segment its scales and its codes; sizes and offsets, nothing
// else.
//
//   message  = MessageHeader (64 bytes) | segment 0 | segment 1 | ...
//   segment  = scales, one a group, padded to 16 bytes | codes, `bits` each, padded to 16 bytes
//   codes    = two's complement; 4 bits: element 2i in the low nibble of byte i; 8 bits: element i in byte i
//
// A segment carries padded_count(n) elements: the last 32-element block is filled with zeros and travels
// whole.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sdp4bit {

enum class ElementType : std::uint8_t { float32, float16, bfloat16 };
enum class ScaleType : std::uint8_t { float32, bfloat16 };
/// How a number becomes a code: codec.h defines each.
enum class Coding : std::uint8_t { nearest, stochastic, dithered, companded };

constexpr std::size_t element_bytes(ElementType type) {
  return type == ElementType::float32 ? 4 : 2;
}
constexpr std::size_t scale_bytes(ScaleType type) {
  return type == ScaleType::float32 ? 4 : 2;
}

constexpr bool has_width(Coding coding, std::uint32_t bits) {
  return bits == 4 || (bits == 8 && coding != Coding::companded);
}

/// How numbers are coded. Shapes the wire, so it is equal on all ranks.
struct Codec {
  std::uint32_t bits = 4;          // 4 or 8
  std::uint32_t group_size = 128;  // elements that share a scale: a power of two, 32 to 8192
  ScaleType scale = ScaleType::float32;
  Coding coding = Coding::stochastic;
  bool hadamard = true;  // 32-point transform before coding (gradients)

  friend constexpr bool operator==(const Codec&, const Codec&) = default;
};

inline constexpr std::size_t kBlock = 32;            // elements of a Hadamard block, and the padding unit
inline constexpr std::size_t kMessageAlign = 16;     // of every part of a message
inline constexpr std::uint32_t kMagic = 0x34504453;  // "SDP4"
inline constexpr std::uint16_t kWireVersion = 4;

enum class MessageKind : std::uint16_t {
  gradient_in_node = 1,
  gradient_between_nodes = 2,
  weight_difference = 3,
  weight_record = 4
};

/// What a weight message or record says about its sender's shard and memory.
enum WeightFlag : std::uint32_t {
  kSeen = 1,         // the sender knows this slot from an earlier call
  kSmall = 2,        // sum of group maxima of |difference| <= 1/16 of that of |weights|
  kJump = 4,         // ... > 1/4
  kReady = 8,        // the sender holds its part of the ledger
  kRefused = 16,     // ... and never will: no memory, or beyond its bound
  kOwnReplica = 32,  // nothing is lost if the sender's own shard becomes what the others hold
  kOwnMaster = 64,   // the sender's own shard is the program's master copy: it must stay exact
  kReset = 128,      // the sender's program wants the class to learn anew
};

struct MessageHeader {
  std::uint32_t magic;
  std::uint16_t wire_version;
  MessageKind kind;
  std::uint64_t draw;          // the sender's draw number: keys its noise
  std::uint64_t call_or_key;   // weights: number of the call in its class; gradients: key of the noise
  std::uint32_t slot;          // weights: the sender's slot
  std::uint32_t flags;         // weights: WeightFlag bits
  std::uint32_t sender;        // rank in the communicator
  std::uint32_t chunk;         // index of the chunk within the call
  std::uint64_t count;         // elements of each segment
  std::uint64_t checksum;      // 0: none
  std::uint32_t class_number;  // weights: the class's number on the communicator
  std::uint32_t slot_count;    // weight records: slots the sender has used so far
};
static_assert(sizeof(MessageHeader) == 64);

constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}
constexpr std::size_t padded_count(std::size_t count) {
  return round_up(count, kBlock);
}
constexpr std::size_t group_count(std::size_t count, const Codec& codec) {
  return (padded_count(count) + codec.group_size - 1) / codec.group_size;
}
constexpr std::size_t scales_bytes(std::size_t count, const Codec& codec) {
  return round_up(group_count(count, codec) * scale_bytes(codec.scale), kMessageAlign);
}
constexpr std::size_t codes_bytes(std::size_t count, const Codec& codec) {
  return round_up(padded_count(count) * codec.bits / 8, kMessageAlign);
}
constexpr std::size_t segment_bytes(std::size_t count, const Codec& codec) {
  return scales_bytes(count, codec) + codes_bytes(count, codec);
}
constexpr std::size_t message_bytes(std::size_t count, std::size_t segments, const Codec& codec) {
  return sizeof(MessageHeader) + segments * segment_bytes(count, codec);
}

// So messages lie one behind the other without gaps.
static_assert(message_bytes(1, 1, Codec{}) % kMessageAlign == 0);
static_assert(message_bytes(1, 1, Codec{}) == 64 + 16 + 16);
static_assert(message_bytes(129, 2, Codec{.bits = 8}) == 64 + 2 * (16 + 160));

}  // namespace sdp4bit
