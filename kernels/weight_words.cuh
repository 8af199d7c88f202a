// What one thread block says for a whole call: the header of a difference, and what the headers of all ranks
// say together.
//
// Called by all threads of a block of kSumThreads.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codec.h"
#include "kernels/host_word.cuh"
#include "kernels/launch_weight.h"
#include "kernels/nonfinite.cuh"
#include "kernels/weight_header.h"

namespace sdp4bit {

static_assert(kThreads == kSumThreads, "the last block of a kernel sums too");

/// The sums of all maxima, in thread 0. The order is fixed by kSumThreads: no atomics.
__device__ __forceinline__ WeightSums sum_maxima(const GroupMaxima* maxima, std::size_t count) {
  __shared__ WeightSums partial[kSumThreads];
  WeightSums sums{0.0, 0.0};
  for (std::size_t i = threadIdx.x; i < count; i += kSumThreads) {
    sums.difference += static_cast<double>(float_from_bits(maxima[i].difference));
    sums.weight += static_cast<double>(float_from_bits(maxima[i].weight));
  }
  partial[threadIdx.x] = sums;
  for (unsigned half = kSumThreads / 2; half != 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    partial[threadIdx.x].difference += partial[threadIdx.x + half].difference;
    partial[threadIdx.x].weight += partial[threadIdx.x + half].weight;
  }
  return partial[0];
}

/// Writes the header of a difference whose maxima are all there.
__device__ __forceinline__ void seal_difference(const SealDifferenceArgs& args) {
  const WeightChunk& chunk = args.chunk;
  const WeightSums chunk_sums = sum_maxima(args.maxima, group_count(chunk.count, chunk.codec));
  if (threadIdx.x != 0) return;
  std::uint32_t flags = 0;
  if (args.sums) {
    const WeightSums sums{args.sums->difference + chunk_sums.difference,
                          args.sums->weight + chunk_sums.weight};
    *args.sums = sums;
    if (chunk.offset + chunk.count == chunk.shard) {
      flags = size_flags(sums.difference, sums.weight) | args.flags | (args.own_flags ? *args.own_flags : 0u);
    }
  }
  MessageHeader header = weight_header(MessageKind::weight_difference, chunk, args.sender, args.slot, flags);
  header.draw = args.draw.counter ? *args.draw.counter + args.draw.offset : 0;
  *reinterpret_cast<MessageHeader*>(args.message) = header;
  if (args.staged_header) *reinterpret_cast<MessageHeader*>(args.staged_header) = header;
}

/// What headers say together, gathered in shared memory; integers, so the order does not matter.
struct Agreed {
  std::uint32_t all_flags, any_flags, max_slots;

  __device__ void begin() {
    __syncthreads();  // what was gathered before is read by now
    if (threadIdx.x == 0) *this = {~0u, 0u, 0u};
    __syncthreads();
  }
  __device__ void add(const MessageHeader& header) {
    atomicAnd(&all_flags, header.flags);
    atomicOr(&any_flags, header.flags);
    atomicMax(&max_slots, header.slot_count);
  }
  /// Tells the host, the number last.
  __device__ void publish(CallWords* words, std::uint64_t class_call) {
    __syncthreads();
    if (threadIdx.x != 0) return;
    words->all_flags = all_flags;
    words->any_flags = any_flags;
    words->max_slots = max_slots;
    publish_to_host(words->number, class_call + 1);
  }
};

/// Nothing without words.
__device__ __forceinline__ void publish_words(const PublishArgs& args) {
  __shared__ Agreed agreed;
  if (args.words == nullptr) return;
  agreed.begin();
  for (const HeaderTable& table : args.tables) {
    for (std::uint32_t i = threadIdx.x; i < table.rows * table.columns; i += kSumThreads) {
      const std::byte* header =
          table.data + i / table.columns * table.row_stride + i % table.columns * table.column_stride;
      agreed.add(*reinterpret_cast<const MessageHeader*>(header));
    }
  }
  if (threadIdx.x == 0) copy_counters(args.mirror);
  agreed.publish(args.words, args.class_call);
}

}  // namespace sdp4bit
