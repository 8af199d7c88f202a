// How the thread blocks of a launch share the calls of weights that it serves.
#pragma once

#include <cstdint>

#include "kernels/last_block.cuh"
#include "kernels/weight_batch.h"
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
