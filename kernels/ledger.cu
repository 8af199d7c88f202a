// What keeps the ledger honest: records and their sums, samples, and entries set from gathered values.
#include "kernels/block_codec.cuh"
#include "kernels/dispatch.h"
#include "kernels/launch_kernel.cuh"
#include "kernels/launch_weight.h"
#include "kernels/load.h"
#include "kernels/record_header.h"
#include "kernels/weight_header.h"
#include "kernels/weight_words.cuh"

namespace sdp4bit {
namespace {

__global__ void __launch_bounds__(kSumThreads) write_record_kernel(const WriteRecordArgs args) {
  const WeightSums sums = sum_maxima(args.maxima, args.maxima ? args.maxima_count : 0);
  if (threadIdx.x != 0) return;
  const std::uint32_t size = args.maxima ? size_flags(sums.difference, sums.weight) : 0u;
  MessageHeader record =
      weight_header(MessageKind::weight_record, args.chunk, args.sender, args.slot, args.flags | size);
  record.slot_count = args.slot_count;
  *reinterpret_cast<MessageHeader*>(args.record) = record;
}

__global__ void __launch_bounds__(kThreads) publish_records_kernel(const SetEntriesArgs args) {
  __shared__ Agreed agreed;
  agreed.begin();
  const auto* records = reinterpret_cast<const MessageHeader*>(args.records);
  for (std::uint32_t rank = threadIdx.x; rank < args.ranks; rank += kThreads) {
    MessageHeader record = records[rank];
    if (!weight_record_is_valid(record, args.chunk, rank)) {
      record.flags = record.slot_count = 0;
      show_host(*args.error, 1u);
    }
    agreed.add(record);
  }
  agreed.publish(args.words, args.chunk.class_call);
  if (threadIdx.x == 0) *args.all_ready = agreed.all_flags & kReady ? 1u : 0u;
}

/// Grid: tiles of the shard (strided), held senders.
template <typename T>
__global__ void __launch_bounds__(kThreads) set_entries_kernel(const SetEntriesArgs args) {
  if (*args.all_ready == 0) return;
  const WeightChunk& chunk = args.chunk;
  const std::uint32_t sender = args.senders[blockIdx.y];
  const std::uint32_t slot = reinterpret_cast<const MessageHeader*>(args.records)[sender].slot;
  const T* gathered = static_cast<const T*>(args.receive) + sender * chunk.shard;
  const std::size_t number = std::size_t{blockIdx.y} * chunk.slots + slot;
  T* entry = reinterpret_cast<T*>(args.ledger + number * entry_bytes(chunk.shard, chunk.type));
  const std::size_t tiles = tile_count(chunk.shard);
  for (std::size_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const std::size_t begin = block_begin(tile, threadIdx.x);
    const unsigned size = block_size(begin, chunk.shard);
    if (size == 0) continue;
    std::uint32_t words[kBlockWords<T>];
    load_block_words(words, gathered + begin, size);
    store_block_words(entry + begin, words, size);
  }
}

/// Grid: tiles of the sample, strided.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    compare_sample_kernel(const CompareSampleArgs args, const unsigned group_shift) {
  __shared__ GroupScratch scratch;
  const T* shard = static_cast<const T*>(args.shard);
  T* sample = static_cast<T*>(args.sample);
  const unsigned threads = 1u << (group_shift - log2_of_power(kBlock));
  const std::size_t count = sample_group_count(args.shard_count, args.group_size) << group_shift;
  const std::size_t tiles = tile_count(count);
  for (std::size_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const std::size_t begin = block_begin(tile, threadIdx.x);  // in the sample
    const std::size_t in_shard =
        ((begin >> group_shift) * kSampleStride << group_shift) + begin % args.group_size;
    const unsigned size = begin < count ? block_size(in_shard, args.shard_count) : 0;
    float value[kBlock], before[kBlock];
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kBlock; ++i) value[i] = before[i] = 0.0f;
    if (size != 0) {
      std::uint32_t words[kBlockWords<T>];
      load_block_words(words, shard + in_shard, size);
      words_to_floats<T>(value, words);
      if (args.known) load_block(before, sample + begin, size);
      store_block_words(sample + begin, words, size);
    }
    if (!args.known) continue;
    const std::uint32_t weight = group_maximum(block_magnitude(value), threads, scratch);
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kBlock; ++i) value[i] -= before[i];
    const std::uint32_t difference = group_maximum(block_magnitude(value), threads, scratch);
    if (size != 0 && threadIdx.x % threads == 0) args.maxima[begin >> group_shift] = {difference, weight};
  }
}

}  // namespace

cudaError_t compare_sample(const CompareSampleArgs& args, cudaStream_t stream) {
  dim3 grid;
  const std::size_t count = sample_group_count(args.shard_count, args.group_size) * args.group_size;
  if (count == 0) return cudaSuccess;
  if (!codec_is_valid({.group_size = static_cast<std::uint32_t>(args.group_size)}) ||
      !make_grid(grid, count)) {
    return cudaErrorInvalidValue;
  }
  return with_type(args.type, [&]<typename T>() {
    return launch_kernel(compare_sample_kernel<T>, grid, kThreads, 0, stream, args,
                         log2_of_power(args.group_size));
  });
}

cudaError_t write_record(const WriteRecordArgs& args, cudaStream_t stream) {
  return launch_kernel(write_record_kernel, 1, kSumThreads, 0, stream, args);
}

cudaError_t set_entries(const SetEntriesArgs& args, cudaStream_t stream) {
  const cudaError_t published = launch_kernel(publish_records_kernel, 1, kThreads, 0, stream, args);
  if (published != cudaSuccess || !args.ledger || args.chunk.shard == 0 || args.sender_count == 0)
    return published;
  dim3 grid;
  if (!make_grid(grid, args.chunk.shard, args.sender_count)) return cudaErrorInvalidValue;
  return with_type(args.chunk.type, [&]<typename T>() {
    return launch_kernel(set_entries_kernel<T>, grid, kThreads, 0, stream, args);
  });
}

cudaError_t load_ledger() {
  KernelLoader loader;
  loader.load(write_record_kernel);
  loader.load(publish_records_kernel);
  for_each_type([&]<typename T>() {
    loader.load(compare_sample_kernel<T>);
    loader.load(set_entries_kernel<T>);
  });
  return loader.error();
}

}  // namespace sdp4bit
