// What the plugin calls to move a weight shard: pointers, counts, a stream; no templates, no NCCL.
//
// A shard travels in chunks: `offset` is the chunk's first element, a multiple of the codec's group, and `count` its
// elements. Pointers to shards, entries and receive buffers are those of element 0; they may be aligned to their type
// only. Every launcher enqueues on `stream` and returns the launch's error. Design section 3 has the protocol.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/wire_format.h"

namespace sdp4bit {

/// Which part of which call's shards a launch works on; equal on all ranks.
struct WeightChunk {
  ElementType type = ElementType::bfloat16;
  Codec codec{.bits = 4, .group_size = 2048, .rounding = Rounding::nearest, .hadamard = false};
  std::size_t shard = 0;   // elements of a shard: the class's count
  std::size_t offset = 0;  // of the chunk within the shard
  std::size_t count = 0;   // of the chunk, > 0
  std::uint32_t chunk = 0;
  std::uint32_t class_number = 0;
  std::uint64_t class_call = 0;
  std::uint32_t slots = 0;  // S; 0: stateless, all entries read as zero and are not kept
};

/// Largest magnitudes of a group, as magnitude_bits: what the sums of "small" and "jump" are made of.
struct GroupMaxima {
  std::uint32_t difference;
  std::uint32_t weight;
};
/// Sums over the groups of a shard, carried from chunk to chunk.
struct WeightSums {
  double difference;
  double weight;
};

/// What a call says to the host of every rank, in pinned memory. `number` is written last: class call + 1.
struct CallWords {
  std::uint32_t all_flags;  // AND over the ranks' flags
  std::uint32_t any_flags;  // OR
  std::uint32_t max_slots;
  std::uint32_t invalid;  // a header or record that cannot be: sender + 1
  std::uint64_t number;
  WeightSums sums;  // of this rank; its kernels' scratch
};

/// Messages or bare headers: `rows` rows of `columns` headers each.
struct HeaderTable {
  const std::byte* data = nullptr;
  std::size_t row_stride = 0, column_stride = 0;  // bytes, multiples of 16
  std::uint32_t rows = 0, columns = 0;
};

/// How an exchange 2 message is laid out: `senders` headers, then their chunks in full precision.
constexpr std::size_t shard_part_bytes(std::size_t count, ElementType type) {
  return round_up(count * element_bytes(type), kMessageAlign);
}
constexpr std::size_t staging_bytes(std::size_t senders, std::size_t count, ElementType type) {
  return senders * (sizeof(MessageHeader) + shard_part_bytes(count, type));
}

/// Bytes of an entry: entries start 16-byte aligned. Entry (sender, slot) of a ledger begins at
/// (sender * S + slot) * entry_bytes.
constexpr std::size_t entry_bytes(std::size_t shard, ElementType type) {
  return round_up(shard * element_bytes(type), kMessageAlign);
}

/// Encodes new shard - own entry into a message's segment and adds the decoded codes to the own entry, rounded to the
/// type once. The header follows by seal_difference.
struct EncodeDifferenceArgs {
  WeightChunk chunk;
  const void* shard = nullptr;     // the new weights
  void* entry = nullptr;           // own ledger entry of the slot; nullptr: zeros that are not kept
  std::byte* message = nullptr;    // of chunk.count elements
  GroupMaxima* maxima = nullptr;   // one a group of the chunk
  void* replica = nullptr;         // own slice of the receive buffer: becomes the entry's new values; may be the shard
  void* staged = nullptr;          // the chunk's part of an exchange 2 message, likewise; may be nullptr
};
cudaError_t encode_difference(const EncodeDifferenceArgs& args, cudaStream_t stream);

/// Adds the chunk's maxima to the call's sums, in one fixed order, and writes the header; the last chunk's flags are
/// those of the whole shard, earlier ones say nothing.
struct SealDifferenceArgs {
  WeightChunk chunk;
  const GroupMaxima* maxima = nullptr;
  WeightSums* sums = nullptr;
  bool last = true;
  std::uint32_t slot = 0;
  std::uint32_t sender = 0;
  std::uint64_t draw = 0;
  std::byte* message = nullptr;
  std::byte* staged_header = nullptr;  // second copy, for exchange 2; may be nullptr
};
cudaError_t seal_difference(const SealDifferenceArgs& args, cudaStream_t stream);

/// Adds received differences to the entries that their headers name, rounds once, and writes the new values to the
/// receive buffer and, where given, to exchange 2. A header that cannot be leaves the entry alone, fills the sender's
/// chunk with NaN and sets *invalid to sender + 1.
struct AddDifferenceArgs {
  WeightChunk chunk;
  const std::byte* messages = nullptr;
  std::size_t message_stride = 0;
  std::uint32_t message_count = 0;
  std::uint32_t own = 0;                   // message to leave out (the own one in a gathered row); message_count: none
  const std::uint32_t* senders = nullptr;  // device: rank of each message
  const std::uint32_t* positions = nullptr;  // device: place of each message's sender in ledger and staging
  std::byte* ledger = nullptr;               // nullptr: stateless
  void* receive_buffer = nullptr;            // W shards
  std::byte* staging = nullptr;              // exchange 2 message of `staging_senders` senders; may be nullptr
  std::uint32_t staging_senders = 0;
  std::uint32_t* invalid = nullptr;
};
cudaError_t add_difference(const AddDifferenceArgs& args, cudaStream_t stream);

/// Moves the chunks of received exchange 2 messages to the receive buffer, with the same check of headers.
struct ScatterShardsArgs {
  WeightChunk chunk;
  const std::byte* messages = nullptr;
  std::size_t message_stride = 0;
  std::uint32_t message_count = 0;         // local peers
  std::uint32_t senders_per_message = 0;   // nodes
  const std::uint32_t* senders = nullptr;  // device: rank of each message's senders, message by message
  void* receive_buffer = nullptr;
  std::uint32_t* invalid = nullptr;
};
cudaError_t scatter_shards(const ScatterShardsArgs& args, cudaStream_t stream);

/// The last kernel of a call: flags of all headers, to the host. Headers must be those of the call's last chunk;
/// `invalid` (a device word, may be nullptr) is what the call's kernels found, and is handed on.
struct PublishArgs {
  HeaderTable first, second;  // together one header a rank
  const std::uint32_t* invalid = nullptr;
  std::uint64_t class_call = 0;
  CallWords* words = nullptr;
};
cudaError_t publish_words(const PublishArgs& args, cudaStream_t stream);

/// The sender's sample: every 16th group of the shard, from the first.
inline constexpr std::size_t kSampleStride = 16;
constexpr std::size_t sample_groups(std::size_t shard, std::size_t group_size) {
  return (shard + group_size * kSampleStride - 1) / (group_size * kSampleStride);
}
constexpr std::size_t sample_bytes(std::size_t shard, std::size_t group_size, ElementType type) {
  return sample_groups(shard, group_size) * group_size * element_bytes(type);
}

/// Compares the shard's sampled groups with the sample and then makes them the sample.
struct CompareSampleArgs {
  ElementType type = ElementType::bfloat16;
  std::uint32_t group_size = 2048;
  std::size_t shard_count = 0;
  const void* shard = nullptr;
  void* sample = nullptr;
  GroupMaxima* maxima = nullptr;  // one a sampled group
};
cudaError_t compare_sample(const CompareSampleArgs& args, cudaStream_t stream);

/// Writes the sender's record of a native call: kSmall and kJump follow from the maxima, where there are any.
struct WriteRecordArgs {
  WeightChunk chunk;  // the whole shard
  const GroupMaxima* maxima = nullptr;  // nullptr: nothing to compare with
  std::size_t maxima_count = 0;
  std::uint32_t flags = 0;  // what the host knows: kSeen, kReady, kRefused
  std::uint32_t slot = 0;
  std::uint32_t slot_count = 0;
  std::uint32_t sender = 0;
  MessageHeader* record = nullptr;
};
cudaError_t write_record(const WriteRecordArgs& args, cudaStream_t stream);

/// Checks all records, publishes their flags, and copies gathered shards to the ledger if every record says kReady.
struct SetEntriesArgs {
  WeightChunk chunk;  // the whole shard; slots 0: there is no ledger
  const MessageHeader* records = nullptr;  // W, by rank
  std::uint32_t ranks = 0;
  const std::uint32_t* senders = nullptr;  // device: ranks whose entries are held, by place in the ledger
  std::uint32_t sender_count = 0;
  const void* receive_buffer = nullptr;
  std::byte* ledger = nullptr;
  CallWords* words = nullptr;
};
cudaError_t set_entries(const SetEntriesArgs& args, cudaStream_t stream);

}  // namespace sdp4bit
