// The way of a weight difference: coded against the own ledger entry, added to the holders' entries, and
// spread in the node.
#include "kernels/block_codec.cuh"
#include "kernels/companded.h"
#include "kernels/dispatch.h"
#include "kernels/host_word.cuh"
#include "kernels/launch_kernel.cuh"
#include "kernels/launch_weight.h"
#include "kernels/load.h"
#include "kernels/weight_batch.cuh"
#include "kernels/weight_header.h"

namespace sdp4bit {
namespace {

/// Ledger elements of the block that begins at `begin` of the chunk; zeros where there is no entry.
template <typename T>
__device__ __forceinline__ void load_entry(float (&value)[kBlock], const T* entry, std::size_t begin,
                                           unsigned size) {
  if (entry == nullptr || size == 0) {
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kBlock; ++i) value[i] = 0.0f;
    return;
  }
  load_block(value, entry + begin, size);
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kBlock; ++i) value[i] = finite_or_zero(value[i]);
}

/// Chunks are staged with their padding, which travels too.
template <typename T>
__device__ __forceinline__ unsigned staged_size(unsigned size) {
  constexpr unsigned kUnit = kMessageAlign / sizeof(T);
  return (size + kUnit - 1) / kUnit * kUnit;
}

/// Grid: tiles of the calls' chunks, strided.
template <typename T, unsigned Bits>
__global__ void __launch_bounds__(kThreads)
    encode_difference_kernel(const __grid_constant__ Batch<EncodeCall> batch, const PhiloxKey key,
                             std::uint32_t* const finished_blocks) {
  __shared__ GroupScratch scratch;
  const BlockPlace place = batch.place(blockIdx.x);
  const EncodeDifferenceArgs& args = batch.call[place.call].args;
  const SealDifferenceArgs& seal = batch.call[place.call].seal;
  const SegmentLayout& layout = batch.call[place.call].layout;
  const WeightChunk& chunk = args.chunk;
  const T* shard = static_cast<const T*>(args.shard) + chunk.offset;
  T* entry = args.entry ? static_cast<T*>(args.entry) + chunk.offset : nullptr;
  T* replica = args.replica ? static_cast<T*>(args.replica) + chunk.offset : nullptr;
  T* staged = reinterpret_cast<T*>(args.staged);
  std::byte* segment = args.message + layout.segment_offset(0);
  const unsigned threads = layout.threads_per_group();
  const std::uint64_t draw = args.draw.counter ? *args.draw.counter + args.draw.offset : 0;

  const std::size_t tiles = tile_count(chunk.count);
  for (std::size_t tile = place.block; tile < tiles; tile += place.blocks) {
    const std::size_t begin = block_begin(tile, threadIdx.x);
    const unsigned size = block_size(begin, chunk.count);
    float before[kBlock], value[kBlock];
    load_entry(before, entry, begin, size);
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kBlock; ++i) value[i] = 0.0f;
    if (size != 0) load_block(value, shard + begin, size);
    std::uint32_t largest_weight = group_maximum(block_magnitude(value), threads, scratch);
    if (layout.coding == Coding::companded) {
      largest_weight = bits_of(compandable(float_from_bits(largest_weight)));
    }
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kBlock; ++i) value[i] -= before[i];
    round_for_coding(value, layout.coding);
    const std::uint32_t largest = group_maximum(block_magnitude(value), threads, scratch);
    if (size == 0) continue;

    const float scale = group_scale(largest, scale_steps(layout.coding, Bits), layout.scale);
    const BlockNoise noise{key, draw, MessageKind::weight_difference, 0, chunk.offset + begin};
    std::uint32_t words[kCodeWords<Bits>];
    encode_block<WeightCodings, Bits>(words, value, scale, layout.coding, noise);
    store_words(segment + layout.code_offset(begin), words);
    if (threadIdx.x % threads == 0) {
      const bool is_last = chunk.count - begin <= std::size_t{threads} * kBlock;
      store_scale(segment, layout, begin, is_last, scale);
      args.maxima[begin >> layout.group_shift] = {largest, largest_weight};
      count_sent_group(args.nonfinite, scale);
    }
    add_decoded_block<WeightCodings, Bits, T>(before, words, scale, layout.coding, noise);
    if (entry) store_block(entry + begin, before, size);
    if (replica) store_block(replica + begin, before, size);
    if (staged) store_block(staged + begin, before, staged_size<T>(size));
  }
  if (seal.message != nullptr && is_last_block(finished_blocks + place.call, place.blocks))
    seal_difference(seal);
}

/// Grid: tiles of the chunk, strided.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    measure_difference_kernel(const MeasureDifferenceArgs args, const SegmentLayout layout) {
  __shared__ GroupScratch scratch;
  const WeightChunk& chunk = args.chunk;
  const T* shard = static_cast<const T*>(args.shard) + chunk.offset;
  const T* entry = static_cast<const T*>(args.entry) + chunk.offset;
  const unsigned threads = layout.threads_per_group();
  const std::size_t tiles = tile_count(chunk.count);
  for (std::size_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const std::size_t begin = block_begin(tile, threadIdx.x);
    const unsigned size = block_size(begin, chunk.count);
    float before[kBlock], value[kBlock];
    load_entry(before, entry, begin, size);
    load_entry<T>(value, nullptr, begin, size);
    if (size != 0) load_block(value, shard + begin, size);
    const std::uint32_t weight = group_maximum(block_magnitude(value), threads, scratch);
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kBlock; ++i) value[i] -= before[i];
    const std::uint32_t difference = group_maximum(block_magnitude(value), threads, scratch);
    if (size != 0 && threadIdx.x % threads == 0) {
      args.maxima[begin >> layout.group_shift] = {difference, weight};
    }
  }
}

/// The thread block's tiles of one call's message.
template <typename T, unsigned Bits>
__device__ __forceinline__ void add_message(const AddPlan<T>& plan, const AddDifferenceArgs& args,
                                            const SegmentLayout& layout, const BlockPlace& place) {
  const std::size_t count = args.chunk.count;
  const std::byte* const segment = plan.segment;
  T *const entry = plan.entry, *const receive = plan.receive, *const staged = plan.staged;
  const bool valid = plan.is_valid;
  const std::size_t tiles = tile_count(count);
  for (std::size_t tile = place.block; tile < tiles; tile += place.blocks) {
    const std::size_t begin = block_begin(tile, threadIdx.x);
    const unsigned size = block_size(begin, count);
    if (size == 0) continue;
    float value[kBlock];
    load_entry(value, entry, begin, size);
    std::uint32_t words[kCodeWords<Bits>];
    load_words(words, segment + layout.code_offset(begin));
    const float scale = valid ? load_scale(segment, layout, begin) : float_from_bits(kNanBits);
    const BlockNoise noise{};  // no coding of weights asks its receivers to draw
    add_decoded_block<WeightCodings, Bits, T>(value, words, scale, layout.coding, noise);
    count_received_group(args.nonfinite, layout, begin, scale != scale);
    if (entry) store_block(entry + begin, value, size);
    store_block(receive + begin, value, size);
    if (staged) store_block(staged + begin, value, staged_size<T>(size));
  }
}

/// Grid: tiles of the calls' chunks (strided), messages.
template <typename T, unsigned Bits>
__global__ void __launch_bounds__(kThreads, kBlocksGeneral)
    add_difference_kernel(const __grid_constant__ Batch<AddCall> batch,
                          std::uint32_t* const finished_blocks) {
  __shared__ AddPlan<T> plan;
  const BlockPlace place = batch.place(blockIdx.x);
  for_own_calls(batch, place, [&](const AddCall& call) {
    __syncthreads();  // the plan of the call before is no longer read
    if (threadIdx.x == 0) plan = plan_message<T>(call.args, call.layout, place.block == 0);
    __syncthreads();
    add_message<T, Bits>(plan, call.args, call.layout, place);
  });
  publish_at_the_end(batch, finished_blocks);
}

/// Grid: tiles of the calls' chunks (strided), senders of a message, messages.
template <typename T>
__global__ void __launch_bounds__(kThreads, kBlocksScatter)
    scatter_shards_kernel(const __grid_constant__ Batch<ScatterCall> batch,
                          std::uint32_t* const finished_blocks) {
  const BlockPlace place = batch.place(blockIdx.x);
  const ScatterShardsArgs& args = batch.call[place.call].args;
  const WeightChunk& chunk = args.chunk;
  __shared__ bool valid;  // by one thread: a header has more bytes than a thread's elements
  const std::byte* message = args.messages.data + blockIdx.z * args.messages.stride;
  const std::uint32_t sender = args.senders[blockIdx.z * args.senders_per_message + blockIdx.y];
  if (threadIdx.x == 0) {
    const MessageHeader header = reinterpret_cast<const MessageHeader*>(message)[blockIdx.y];
    valid = weight_header_is_valid(header, MessageKind::weight_difference, chunk, sender);
    if (!valid && place.block == 0) show_host(*args.error, 1u);
  }
  __syncthreads();
  const bool is_valid = valid;
  const unsigned first = threadIdx.x * kBlock;
  const std::byte* const chunk_of_sender =
      message + staged_chunk_offset(args.senders_per_message, blockIdx.y, chunk.count, chunk.type);
  const T* const staged = kept(reinterpret_cast<const T*>(chunk_of_sender) + first);
  T* const receive = kept(static_cast<T*>(args.receive) + sender * chunk.shard + chunk.offset + first);
  const TileRange tiles(chunk.count);
  for (std::uint32_t tile = place.block; tile < tiles.all; tile += place.blocks) {
    const unsigned size = tiles.block_size(tile, first);
    if (size == 0) continue;
    std::uint32_t words[kBlockWords<T>];
    if (is_valid) {
      load_block_words(words, staged + std::size_t{tile} * kTile, size);
    } else {
      constexpr std::uint32_t nan = sizeof(T) == 4 ? kNanBits : std::uint32_t{kNanBits16} << 16 | kNanBits16;
      SDP4BIT_UNROLL
      for (unsigned i = 0; i < kBlockWords<T>; ++i) words[i] = kept(nan);
    }
    store_block_words(receive + std::size_t{tile} * kTile, words, size);
  }
  publish_at_the_end(batch, finished_blocks);
}

/// Whether a call of the batch writes the same buffer: a program may gather one several times in a group.
template <typename Call>
bool receives_into(const Batch<Call>& batch, const void* receive) {
  for (std::uint32_t i = 0; i < batch.calls; ++i) {
    if (batch.call[i].args.receive == receive) return true;
  }
  return false;
}

/// The words of last blocks, where some call of the batch has something to say.
template <typename Call>
std::uint32_t* words_to_publish(const Batch<Call>& batch, std::uint32_t* finished_blocks) {
  for (std::uint32_t call = 0; call < batch.calls; ++call) {
    if (batch.call[call].publish.words != nullptr) return finished_blocks;
  }
  return nullptr;
}

}  // namespace

static_assert(kMostCallsOfLaunch <= kFinishedWords);

cudaError_t encode_difference_batch(std::span<const EncodeDifference> calls, std::uint32_t* finished_blocks,
                                    cudaStream_t stream) {
  for (const EncodeDifference& call : calls) {
    if (!weight_codec_is_valid(call.encode.chunk.codec) || (call.seal.message && !finished_blocks))
      return cudaErrorInvalidValue;
  }
  return launch_in_batches<EncodeCall>(
      calls, [](const EncodeDifference& call) { return call.encode.chunk.type; },
      [](const Batch<EncodeCall>& batch, const EncodeDifference& call) {
        const EncodeDifferenceArgs& args = call.encode;
        for (std::uint32_t i = 0; i < batch.calls; ++i) {
          const EncodeDifferenceArgs& other = batch.call[i].args;
          if (args.entry && args.entry == other.entry && args.chunk.offset == other.chunk.offset)
            return false;
        }
        const EncodeDifferenceArgs& first = batch.call[0].args;
        return first.chunk.codec == args.chunk.codec && first.key == args.key &&
               has_companded_kernel(first) == has_companded_kernel(args);
      },
      [](const EncodeDifference& call) {
        return EncodeCall{call.encode, call.seal,
                          SegmentLayout(call.encode.chunk.count, call.encode.chunk.codec)};
      },
      [](const EncodeDifference& call) { return tile_count(call.encode.chunk.count); },
      [&](const Batch<EncodeCall>& batch, const EncodeDifference& first, bool) {
        dim3 grid;
        if (!make_grid(grid, batch)) return cudaErrorInvalidValue;
        if (has_companded_kernel(first.encode)) return encode_companded(batch, grid, finished_blocks, stream);
        const NoiseKey& from = first.encode.key;
        const PhiloxKey key = noise_key(from.seed, from.rank, from.communicator);
        return with_type(first.encode.chunk.type, [&]<typename T>() {
          return with_bits(first.encode.chunk.codec.bits, [&]<unsigned Bits>() {
            return launch_kernel(encode_difference_kernel<T, Bits>, grid, kThreads, 0, stream, batch, key,
                                 finished_blocks);
          });
        });
      });
}

cudaError_t measure_difference(const MeasureDifferenceArgs& args, cudaStream_t stream) {
  const WeightChunk& chunk = args.chunk;
  if (chunk.count == 0) return cudaSuccess;
  dim3 grid;
  if (!weight_codec_is_valid(chunk.codec) || !make_grid(grid, chunk.count)) return cudaErrorInvalidValue;
  const SegmentLayout layout(chunk.count, chunk.codec);
  return with_type(chunk.type, [&]<typename T>() {
    return launch_kernel(measure_difference_kernel<T>, grid, kThreads, 0, stream, args, layout);
  });
}

cudaError_t add_difference_batch(std::span<const AddDifference> calls, std::uint32_t* finished_blocks,
                                 cudaStream_t stream) {
  for (const AddDifference& call : calls) {
    if (!weight_codec_is_valid(call.add.chunk.codec)) return cudaErrorInvalidValue;
  }
  return launch_in_batches<AddCall>(
      calls, [](const AddDifference& call) { return call.add.chunk.type; },
      [](const Batch<AddCall>& batch, const AddDifference& call) {
        const AddDifferenceArgs& first = batch.call[0].args;
        return first.chunk.codec == call.add.chunk.codec && first.message_count == call.add.message_count &&
               first.skipped == call.add.skipped && !receives_into(batch, call.add.receive) &&
               has_companded_kernel(first) == has_companded_kernel(call.add);
      },
      [](const AddDifference& call) {
        return AddCall{call.add, call.publish, SegmentLayout(call.add.chunk.count, call.add.chunk.codec)};
      },
      [](const AddDifference& call) {
        return call.add.message_count == 0 ? 0 : tile_count(call.add.chunk.count);
      },
      [&](const Batch<AddCall>& batch, const AddDifference& first, bool) {
        dim3 grid;
        if (!make_grid(grid, batch, first.add.message_count)) return cudaErrorInvalidValue;
        if (has_companded_kernel(first.add)) {
          return add_companded(batch, grid, words_to_publish(batch, finished_blocks), stream);
        }
        return with_type(first.add.chunk.type, [&]<typename T>() {
          return with_bits(first.add.chunk.codec.bits, [&]<unsigned Bits>() {
            return launch_kernel(add_difference_kernel<T, Bits>, grid, kThreads, 0, stream, batch,
                                 words_to_publish(batch, finished_blocks));
          });
        });
      });
}

cudaError_t scatter_shards_batch(std::span<const ScatterShards> calls, std::uint32_t* finished_blocks,
                                 cudaStream_t stream) {
  return launch_in_batches<ScatterCall>(
      calls, [](const ScatterShards& call) { return call.scatter.chunk.type; },
      [](const Batch<ScatterCall>& batch, const ScatterShards& call) {
        const ScatterShardsArgs& first = batch.call[0].args;
        return first.message_count == call.scatter.message_count &&
               first.senders_per_message == call.scatter.senders_per_message &&
               !receives_into(batch, call.scatter.receive);
      },
      [](const ScatterShards& call) {
        return ScatterCall{call.scatter, call.publish};
      },
      [](const ScatterShards& call) {
        return call.scatter.message_count == 0 || call.scatter.senders_per_message == 0
                   ? 0
                   : tile_count(call.scatter.chunk.count);
      },
      [&](const Batch<ScatterCall>& batch, const ScatterShards& first, bool) {
        dim3 grid;
        if (!make_grid(grid, batch, first.scatter.senders_per_message, first.scatter.message_count))
          return cudaErrorInvalidValue;
        return with_type(first.scatter.chunk.type, [&]<typename T>() {
          return launch_kernel(scatter_shards_kernel<T>, grid, kThreads, 0, stream, batch,
                               words_to_publish(batch, finished_blocks));
        });
      });
}

cudaError_t load_difference() {
  KernelLoader loader;
  for_each_type([&]<typename T>() {
    for_each_width([&]<unsigned Bits>() {
      loader.load(encode_difference_kernel<T, Bits>);
      loader.load(add_difference_kernel<T, Bits>);
    });
    loader.load(measure_difference_kernel<T>);
    loader.load(scatter_shards_kernel<T>);
  });
  return loader.error();
}

}  // namespace sdp4bit
