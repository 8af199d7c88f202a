// How the thread blocks of a launch share the calls of weights that it serves.
#pragma once

#include <cstdint>

#include "kernels/host_word.cuh"
#include "kernels/last_block.cuh"
#include "kernels/weight_batch.h"
#include "kernels/weight_header.h"
#include "kernels/weight_words.cuh"

namespace sdp4bit {

__device__ __forceinline__ const std::byte* message_of(const AddDifferenceArgs& args, unsigned message) {
  return args.messages.data + message * args.messages.stride;
}

/// Whether a message of one call and that of another name the same part of an entry.
__device__ __forceinline__ bool same_entry(const AddDifferenceArgs& one, const AddDifferenceArgs& other,
                                           unsigned message) {
  return one.ledger != nullptr && one.ledger == other.ledger && one.chunk.offset == other.chunk.offset &&
         reinterpret_cast<const MessageHeader*>(message_of(one, message))->slot ==
             reinterpret_cast<const MessageHeader*>(message_of(other, message))->slot;
}

/// Where the threads of a block add what a message says: its chunk of segment, entry and buffers.
template <typename T>
struct AddPlan {
  const std::byte* segment;
  T *entry, *receive, *staged;  // entry and staged may be nullptr
  bool is_valid;                // otherwise there is no entry
};

/// Makes the plan of message number blockIdx.y; by one thread, which may tell others what the header says.
/// All threads reading the header would move more bytes than their elements have.
template <typename T>
__device__ __forceinline__ AddPlan<T> plan_message(const AddDifferenceArgs& args, const SegmentLayout& layout,
                                                   bool tells) {
  const WeightChunk& chunk = args.chunk;
  const std::byte* const message = message_of(args, blockIdx.y);
  const MessageHeader header = *reinterpret_cast<const MessageHeader*>(message);
  const std::uint32_t sender = args.senders[blockIdx.y];
  const std::uint32_t place = args.places[blockIdx.y];
  AddPlan<T> plan{};
  plan.segment = message + layout.segment_offset(0);
  plan.is_valid = weight_header_is_valid(header, MessageKind::weight_difference, chunk, sender);
  if (plan.is_valid && args.ledger) {
    const std::size_t number = std::size_t{place} * chunk.slots + header.slot;
    plan.entry =
        reinterpret_cast<T*>(args.ledger + number * entry_bytes(chunk.shard, chunk.type)) + chunk.offset;
  }
  plan.receive = static_cast<T*>(args.receive) + sender * chunk.shard + chunk.offset;
  if (args.staging) {
    plan.staged = reinterpret_cast<T*>(
        args.staging + staged_chunk_offset(args.staged_senders, place, chunk.count, chunk.type));
  }
  if (tells) {
    if (args.staging) reinterpret_cast<MessageHeader*>(args.staging)[place] = header;
    if (!plan.is_valid) show_host(*args.error, 1u);
  }
  return plan;
}

/// add(call) for each call whose message number blockIdx.y is the thread block's to add. A sender may name
/// one entry in several calls: then the blocks of the first of them do the work of the later ones too, in
/// call order.
template <typename Add>
__device__ __forceinline__ void for_own_calls(const Batch<AddCall>& batch, const BlockPlace& place,
                                              Add&& add) {
  const AddDifferenceArgs& args = batch.call[place.call].args;
  bool mine = blockIdx.y != args.skipped;
  for (std::uint32_t earlier = 0; earlier < place.call; ++earlier) {
    mine = mine && !same_entry(batch.call[earlier].args, args, blockIdx.y);
  }
  for (std::uint32_t call = place.call; mine && call < batch.calls; ++call) {
    if (call == place.call || same_entry(args, batch.call[call].args, blockIdx.y)) add(batch.call[call]);
  }
}

/// The last block of the grid says what the calls of the launch have to say.
template <typename Call>
__device__ __forceinline__ void publish_at_the_end(const Batch<Call>& batch, std::uint32_t* finished_blocks) {
  if (finished_blocks == nullptr || !is_last_block(finished_blocks, gridDim.x * gridDim.y * gridDim.z))
    return;
  for (std::uint32_t call = 0; call < batch.calls; ++call) publish_words(batch.call[call].publish);
}

}  // namespace sdp4bit
