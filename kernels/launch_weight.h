// What the plugin calls to move a weight shard: pointers, counts, a stream; no templates, no NCCL.
//
// A shard travels in chunks: `offset` is the chunk's first element, a multiple of the codec's group and of
// kBlock, and `count` its elements. Pointers to shards, entries and receive buffers are those of element 0,
// at any address. Every launcher enqueues on `stream` and returns the launch's error.
// The way as a whole: README.md, "How a weight travels".
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/launch.h"
#include "kernels/wire_format.h"

namespace sdp4bit {

/// Which part of which call's shards a launch works on; equal on all ranks.
struct WeightChunk {
  ElementType type = ElementType::bfloat16;
  Codec codec{.bits = 4, .group_size = 2048, .coding = Coding::nearest, .hadamard = false};
  std::size_t shard = 0;   // elements of a shard: the class's count
  std::size_t offset = 0;  // of the chunk within the shard
  std::size_t count = 0;   // of the chunk
  std::uint32_t chunk = 0;
  std::uint32_t class_number = 0;
  std::uint64_t class_call = 0;
  std::uint32_t slots = 0;  // S; 0: stateless, all entries read as zero and none is kept
};

/// Largest magnitudes of a group, as magnitude_bits: what the sums of "small" and "jump" are made of.
struct alignas(8) GroupMaxima {
  std::uint32_t difference;
  std::uint32_t weight;
};
/// Sums over the groups of a shard, carried from chunk to chunk.
struct WeightSums {
  double difference;
  double weight;
};

/// What a call says to the host of every rank, in pinned memory. The host zeroes it before the call.
struct CallWords {
  std::uint64_t number;     // class call + 1, written last
  std::uint32_t all_flags;  // AND of the ranks' WeightFlag bits
  std::uint32_t any_flags;  // OR
  std::uint32_t max_slots;
  std::uint32_t padding;
  WeightSums sums;  // of this rank alone: scratch of its kernels
};

/// Device words that tell a kernel's last blocks.
inline constexpr unsigned kFinishedWords = 8;

/// Bytes of an entry. Entry (place of the sender, slot) of a ledger begins at (place * S + slot) *
/// entry_bytes.
constexpr std::size_t entry_bytes(std::size_t shard, ElementType type) {
  return round_up(shard * element_bytes(type), kMessageAlign);
}

/// A message of the exchange in the node: `senders` headers, then their chunks in full precision.
constexpr std::size_t staged_chunk_bytes(std::size_t count, ElementType type) {
  return entry_bytes(count, type);
}
constexpr std::size_t staged_chunk_offset(std::size_t senders, std::size_t place, std::size_t count,
                                          ElementType type) {
  return senders * sizeof(MessageHeader) + place * staged_chunk_bytes(count, type);
}
constexpr std::size_t staged_message_bytes(std::size_t senders, std::size_t count, ElementType type) {
  return staged_chunk_offset(senders, senders, count, type);
}

/// Encodes new shard - own entry into the segment of a message and adds the decoded codes to the own entry,
/// rounded to the type once. seal_difference writes the header.
struct EncodeDifferenceArgs {
  WeightChunk chunk;
  const void* shard = nullptr;    // the new weights
  void* entry = nullptr;          // own ledger entry of the slot; nullptr: zeros that are not kept
  std::byte* message = nullptr;   // 16-byte aligned
  GroupMaxima* maxima = nullptr;  // one for each group of the chunk
  void* replica = nullptr;  // gets the entry's new values: own slice of the receive buffer, also where it is
                            // `shard`; nullptr: not written
  std::byte* staged =
      nullptr;        // likewise: the chunk's place in a message of the exchange in the node, or nullptr
  NoiseKey key = {};  // of stochastic codecs
  Draw draw = {};
  NonFiniteGroups* nonfinite = nullptr;  // device words that count, or nullptr
};

/// Only measures how far the new shard is from the own entry: maxima for write_record, before a vote.
struct MeasureDifferenceArgs {
  WeightChunk chunk;
  const void* shard = nullptr;
  const void* entry = nullptr;
  GroupMaxima* maxima = nullptr;  // one for each group of the chunk
};
cudaError_t measure_difference(const MeasureDifferenceArgs& args, cudaStream_t stream);

/// Adds the chunk's maxima to the call's sums, in one fixed order, and writes the header. The last chunk's
/// flags speak of the whole shard, those of earlier chunks are empty.
struct SealDifferenceArgs {
  WeightChunk chunk;
  const GroupMaxima* maxima = nullptr;
  WeightSums* sums = nullptr;  // zero before the first chunk
  std::uint32_t slot = 0;
  std::uint32_t sender = 0;                  // rank in the communicator
  std::uint32_t flags = 0;                   // what the host says: kOwnReplica, kReset
  const std::uint32_t* own_flags = nullptr;  // device: Probe::flags, or nullptr
  Draw draw = {};                            // without a counter: 0
  std::byte* message = nullptr;
  std::byte* staged_header = nullptr;  // a second copy, for the exchange in the node; may be nullptr
};

/// Both, in one kernel: the last thread block of a call seals it. Without a message to seal, only the first.
struct EncodeDifference {
  EncodeDifferenceArgs encode;
  SealDifferenceArgs seal;
};
/// Calls that are given together share launches (batch.h); those of one entry follow each other.
/// `finished_blocks`: kFinishedWords device words that are 0 between launches.
cudaError_t encode_difference_batch(std::span<const EncodeDifference> calls, std::uint32_t* finished_blocks,
                                    cudaStream_t stream);
inline cudaError_t encode_difference(const EncodeDifferenceArgs& args, cudaStream_t stream) {
  const EncodeDifference call{args, {}};
  return encode_difference_batch({&call, 1}, nullptr, stream);
}

/// Adds received differences to the entries that their headers name, rounds once, and writes the new values
/// to the receive buffer and for the exchange in the node. A header that cannot be leaves the entry alone,
/// fills the sender's chunk with NaN and sets *error.
struct AddDifferenceArgs {
  WeightChunk chunk;
  Messages messages;
  std::uint32_t message_count = 0;
  std::uint32_t skipped = ~0u;             // a message to leave out: the own one, where all are gathered
  const std::uint32_t* senders = nullptr;  // device: rank of each message
  const std::uint32_t* places = nullptr;   // device: its place in ledger and staging
  std::byte* ledger = nullptr;             // 16-byte aligned; nullptr: stateless
  void* receive = nullptr;                 // W shards
  std::byte* staging = nullptr;            // message for the exchange in the node; may be nullptr
  std::uint32_t staged_senders = 0;
  std::uint32_t* error = nullptr;
  NonFiniteGroups* nonfinite = nullptr;
};

/// Moves the chunks that came from the node's other ranks to the receive buffer, with the same check of
/// headers.
struct ScatterShardsArgs {
  WeightChunk chunk;
  Messages messages;  // one for each local peer
  std::uint32_t message_count = 0;
  std::uint32_t senders_per_message = 0;
  const std::uint32_t* senders = nullptr;  // device: rank of each message's senders, message by message
  void* receive = nullptr;
  std::uint32_t* error = nullptr;
};

/// Rows of headers: messages' own, or those in front of staged chunks.
struct HeaderTable {
  const std::byte* data = nullptr;
  std::size_t row_stride = 0;
  std::size_t column_stride = sizeof(MessageHeader);
  std::uint32_t rows = 0;
  std::uint32_t columns = 1;
};

/// What the last kernel of a call does besides: says what the headers of its last chunk say together.
struct PublishArgs {
  HeaderTable tables[3];  // together one header a rank
  std::uint64_t class_call = 0;
  CallWords* words = nullptr;  // nullptr: nothing of this
  CounterMirror mirror = {};   // copied besides
};

struct AddDifference {
  AddDifferenceArgs add;
  PublishArgs publish;
};
/// Calls that are given together share launches. Where a sender names one entry in several of them its
/// differences are added in call order.
cudaError_t add_difference_batch(std::span<const AddDifference> calls, std::uint32_t* finished_blocks,
                                 cudaStream_t stream);
inline cudaError_t add_difference(const AddDifferenceArgs& args, cudaStream_t stream) {
  const AddDifference call{args, {}};
  return add_difference_batch({&call, 1}, nullptr, stream);
}

struct ScatterShards {
  ScatterShardsArgs scatter;
  PublishArgs publish;
};
cudaError_t scatter_shards_batch(std::span<const ScatterShards> calls, std::uint32_t* finished_blocks,
                                 cudaStream_t stream);
inline cudaError_t scatter_shards(const ScatterShardsArgs& args, cudaStream_t stream) {
  const ScatterShards call{args, {}};
  return scatter_shards_batch({&call, 1}, nullptr, stream);
}

/// The sender's sample: every 16th group of the shard, from the first.
inline constexpr std::size_t kSampleStride = 16;
constexpr std::size_t sample_group_count(std::size_t shard, std::size_t group_size) {
  return (shard + group_size * kSampleStride - 1) / (group_size * kSampleStride);
}
constexpr std::size_t sample_bytes(std::size_t shard, std::size_t group_size, ElementType type) {
  return sample_group_count(shard, group_size) * group_size * element_bytes(type);
}

/// Compares the shard's sampled groups with the sample, and makes them the sample.
struct CompareSampleArgs {
  ElementType type = ElementType::bfloat16;
  std::size_t group_size = 2048;
  std::size_t shard_count = 0;
  const void* shard = nullptr;
  void* sample = nullptr;         // sample_bytes, 16-byte aligned
  bool known = true;              // false: there is nothing to compare with yet
  GroupMaxima* maxima = nullptr;  // one for each sampled group; not written when not known
};
cudaError_t compare_sample(const CompareSampleArgs& args, cudaStream_t stream);

/// Writes the sender's record of a native call; kSmall and kJump follow from the maxima.
struct WriteRecordArgs {
  WeightChunk chunk;                    // the whole shard
  const GroupMaxima* maxima = nullptr;  // nullptr: neither small nor a jump
  std::size_t maxima_count = 0;
  std::uint32_t flags = 0;  // what the host knows: kSeen, kReady, kRefused, kReset
  std::uint32_t slot = 0;
  std::uint32_t slot_count = 0;
  std::uint32_t sender = 0;
  std::byte* record = nullptr;
};
cudaError_t write_record(const WriteRecordArgs& args, cudaStream_t stream);

/// Checks all ranks' records and publishes what they say together; a record that cannot be sets *error. Where
/// every record says kReady, the gathered shards become the entries that their senders' records name.
struct SetEntriesArgs {
  WeightChunk chunk;                   // the whole shard
  const std::byte* records = nullptr;  // one header a rank
  std::uint32_t ranks = 0;
  std::uint32_t* all_ready = nullptr;      // device word, scratch
  const std::uint32_t* senders = nullptr;  // device: ranks whose entries are held, by place
  std::uint32_t sender_count = 0;
  const void* receive = nullptr;
  std::byte* ledger = nullptr;  // nullptr: there is none, records are only published
  CallWords* words = nullptr;
  std::uint32_t* error = nullptr;
};
cudaError_t set_entries(const SetEntriesArgs& args, cudaStream_t stream);

}  // namespace sdp4bit
