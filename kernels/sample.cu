// The error of sampled messages: what decoding leaves of what was to be sent, in double precision and one
// fixed order.
#include "kernels/dispatch.h"
#include "kernels/header.h"
#include "kernels/host_word.cuh"
#include "kernels/input.cuh"
#include "kernels/launch_kernel.cuh"
#include "kernels/launch_sample.h"
#include "kernels/load.h"
#include "kernels/received.cuh"
#include "kernels/weight_header.h"

namespace sdp4bit {
namespace {

/// Adds the squares of a block whose decoded values are `decoded`.
__device__ __forceinline__ void add_squares(SamplePartial& sum, const float (&value)[kBlock],
                                            const float (&decoded)[kBlock]) {
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kBlock; ++i) {
    const double input = static_cast<double>(value[i]);
    const double error = input - static_cast<double>(decoded[i]);
    sum.error += error * error;
    sum.input += input * input;
  }
}

/// The sum of all threads, in thread 0; the order is fixed.
__device__ __forceinline__ SamplePartial sum_of_block(SamplePartial sum) {
  __shared__ SamplePartial partial[kThreads];
  partial[threadIdx.x] = sum;
  for (unsigned half = kThreads / 2; half != 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x >= half) continue;
    partial[threadIdx.x].error += partial[threadIdx.x + half].error;
    partial[threadIdx.x].input += partial[threadIdx.x + half].input;
  }
  return partial[0];
}

__device__ __forceinline__ void store_partial(const SampleTarget& target, SamplePartial sum) {
  sum = sum_of_block(sum);
  if (threadIdx.x == 0) target.partials[blockIdx.x] = sum;
}

/// The noise of the block that begins at `element` of input segment `segment`, as its message's header keys
/// it.
__device__ __forceinline__ BlockNoise message_noise(const std::byte* message, std::uint32_t segment,
                                                    std::uint64_t element) {
  const auto& header = *reinterpret_cast<const MessageHeader*>(message);
  return {header_key(header), header.draw, header.kind, segment, element};
}

template <unsigned Bits>
__device__ __forceinline__ void decode_codes(float (&decoded)[kBlock], const std::byte* codes, float scale,
                                             Coding coding, const BlockNoise& noise) {
  std::uint32_t words[kCodeWords<Bits>];
  load_words(words, codes);
  add_decoded_block<GradientCodings, Bits>(decoded, words, scale, coding, noise);
}

/// The block's decoded values; false where its group is NaN.
__device__ __forceinline__ bool decode_block(float (&decoded)[kBlock], const std::byte* segment,
                                             const SegmentLayout& layout, std::size_t begin,
                                             const BlockNoise& noise) {
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kBlock; ++i) decoded[i] = 0.0f;
  const std::byte* const codes = segment + layout.code_offset(begin);
  const float scale = load_scale(segment, layout, begin);
  if (layout.bits == 4) {
    decode_codes<4>(decoded, codes, scale, layout.coding, noise);
  } else {
    decode_codes<8>(decoded, codes, scale, layout.coding, noise);
  }
  return scale == scale;
}

/// What a rank has of input segment `segment` and its peers sent of it, added in rank order.
template <unsigned Bits>
__device__ __forceinline__ void sum_received(float (&sum)[kBlock], const float (&own)[kBlock],
                                             const ReduceRequantizeArgs& args, std::uint32_t node,
                                             const SegmentLayout& layout, const ReceivedState& state,
                                             std::uint32_t tile) {
  const ReceivedSegments<Bits, false> received(args.received, args.peer_count, layout.segment_offset(node),
                                               layout, state, MessageKind::gradient_in_node,
                                               args.own_table[node], args.input.offset);
  received.sum_in_rank_order(sum, own, min(args.own_position, args.peer_count), tile);
}

/// Grid: tiles of all segments of all messages, strided.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    sample_quantize_kernel(const QuantizeArgs args, const SegmentLayout layout, const SampleTarget target) {
  const float factor = entry_factor<T>(args.input);
  const std::size_t tiles = tile_count(args.input.count);
  const std::size_t units = tiles * args.segments_per_message * args.message_count;
  SamplePartial sum{0.0, 0.0};
  for (std::size_t unit = blockIdx.x; unit < units; unit += gridDim.x) {
    const std::size_t travelling = unit / tiles;  // segment, counted through all messages
    const std::byte* message =
        args.messages.data + travelling / args.segments_per_message * args.messages.stride;
    const std::byte* segment = message + layout.segment_offset(travelling % args.segments_per_message);
    const std::size_t begin = block_begin(unit % tiles, threadIdx.x);
    if (begin >= args.input.count) continue;
    float value[kBlock], decoded[kBlock];
    const InputSegment<T> input(args.input, args.table[travelling], factor, args.codec.hadamard);
    input.load(value, static_cast<std::uint32_t>(unit % tiles));
    const BlockNoise noise = message_noise(message, args.table[travelling], args.input.offset + begin);
    if (decode_block(decoded, segment, layout, begin, noise)) add_squares(sum, value, decoded);
  }
  store_partial(target, sum);
}

/// Grid: tiles of the segments of all other nodes, strided.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    sample_requantize_kernel(const ReduceRequantizeArgs args, const SegmentLayout received_layout,
                             const SegmentLayout layout, const SampleTarget target) {
  const ReceivedState state(received_layout, args.peer_count, false);
  const float factor = entry_factor<T>(args.input);
  check_headers(
      state, args.received, args.peer_count, MessageKind::gradient_in_node, args.chunk, args.input.count,
      [] { return 0u; }, nullptr);
  const std::size_t tiles = tile_count(args.input.count);
  SamplePartial sum{0.0, 0.0};
  for (std::size_t unit = blockIdx.x; unit < tiles * (args.node_count - 1); unit += gridDim.x) {
    const auto message = static_cast<std::uint32_t>(unit / tiles);
    const std::uint32_t node = message + (message >= args.own_node ? 1 : 0);
    const std::byte* sent = args.messages.data + message * args.messages.stride;
    const std::size_t begin = block_begin(unit % tiles, threadIdx.x);
    if (begin >= args.input.count) continue;
    float own[kBlock], value[kBlock], decoded[kBlock];
    const InputSegment<T> input(args.input, args.own_table[node], factor, args.codec.hadamard);
    const auto tile = static_cast<std::uint32_t>(unit % tiles);
    input.load(own, tile);
    if (args.received_codec.bits == 4) {
      sum_received<4>(value, own, args, node, received_layout, state, tile);
    } else {
      sum_received<8>(value, own, args, node, received_layout, state, tile);
    }
    const BlockNoise noise = message_noise(sent, args.own_table[node], args.input.offset + begin);
    if (decode_block(decoded, sent + layout.segment_offset(0), layout, begin, noise)) {
      add_squares(sum, value, decoded);
    }
  }
  store_partial(target, sum);
}

template <unsigned Bits>
__device__ __forceinline__ void code_and_decode(float (&decoded)[kBlock], float (&value)[kBlock], float scale,
                                                Coding coding, const BlockNoise& noise) {
  std::uint32_t words[kCodeWords<Bits>];
  encode_block<WeightCodings, Bits>(words, value, scale, coding, noise);
  add_decoded_block<WeightCodings, Bits>(decoded, words, scale, coding, noise);
}

/// Grid: tiles of the chunk, strided. Codes as encode_difference does.
template <typename T>
__global__ void __launch_bounds__(kThreads)
    sample_difference_kernel(const EncodeDifferenceArgs args, const SegmentLayout layout, const PhiloxKey key,
                             const SampleTarget target) {
  __shared__ GroupScratch scratch;
  const WeightChunk& chunk = args.chunk;
  const T* shard = static_cast<const T*>(args.shard) + chunk.offset;
  const T* entry = args.entry ? static_cast<const T*>(args.entry) + chunk.offset : nullptr;
  const unsigned threads = layout.threads_per_group();
  const std::uint64_t draw = args.draw.counter ? *args.draw.counter + args.draw.offset : 0;
  const std::size_t tiles = tile_count(chunk.count);
  SamplePartial sum{0.0, 0.0};
  for (std::size_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const std::size_t begin = block_begin(tile, threadIdx.x);
    const unsigned size = block_size(begin, chunk.count);
    float before[kBlock], value[kBlock], decoded[kBlock];
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kBlock; ++i) before[i] = value[i] = decoded[i] = 0.0f;
    if (size != 0) load_block(value, shard + begin, size);
    if (size != 0 && entry) load_block(before, entry + begin, size);
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kBlock; ++i) value[i] -= finite_or_zero(before[i]);
    round_for_coding(value, layout.coding);
    const std::uint32_t largest = group_maximum(block_magnitude(value), threads, scratch);
    const float scale = group_scale(largest, scale_steps(layout.coding, layout.bits), layout.scale);
    if (size == 0 || scale != scale) continue;
    const BlockNoise noise{key, draw, MessageKind::weight_difference, 0, chunk.offset + begin};
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kBlock; ++i) before[i] = value[i];  // coding uses its values up
    if (layout.bits == 4) {
      code_and_decode<4>(decoded, before, scale, layout.coding, noise);
    } else {
      code_and_decode<8>(decoded, before, scale, layout.coding, noise);
    }
    add_squares(sum, value, decoded);
  }
  store_partial(target, sum);
}

/// The last sample becomes part of the course.
__device__ __forceinline__ void add_to_course(SampleSums& sums) {
  const std::uint64_t before = sums.samples / 2, each = samples_per_point(before + 1);
  if (each > samples_per_point(before)) {
    for (unsigned i = 0; i < kSamplePoints; ++i) {
      const bool kept = i < kSamplePoints / 2;
      sums.course[i].error = kept ? sums.course[2 * i].error + sums.course[2 * i + 1].error : 0.0;
      sums.course[i].input = kept ? sums.course[2 * i].input + sums.course[2 * i + 1].input : 0.0;
    }
  }
  sums.course[before / each].error += sums.last_error;
  sums.course[before / each].input += sums.last_input;
}

/// One thread block. The host reads the mirror at any time: an odd number of samples says that it changes.
__global__ void __launch_bounds__(kThreads)
    add_sample_kernel(const SampleTarget target, const unsigned partial_count) {
  SamplePartial sum{0.0, 0.0};
  for (unsigned i = threadIdx.x; i < partial_count; i += kThreads) {
    sum.error += target.partials[i].error;
    sum.input += target.partials[i].input;
  }
  sum = sum_of_block(sum);
  SampleSums& sums = *target.sums;
  if (threadIdx.x == 0) {
    if (target.first_chunk) sums.last_error = sums.last_input = 0.0;
    sums.last_error += sum.error;
    sums.last_input += sum.input;
    if (target.last_chunk) {
      sums.total_error += sums.last_error;
      sums.total_input += sums.last_input;
      add_to_course(sums);
      sums.samples += 2;
    }
  }
  if (!target.last_chunk) return;
  SampleSums& mirror = *target.mirror;
  if (threadIdx.x == 0) show_host(mirror.samples, sums.samples - 1);
  __syncthreads();
  __threadfence_system();  // who sees any of what follows also sees that it changes
  if (threadIdx.x == 0) {
    show_host(mirror.last_error, sums.last_error);
    show_host(mirror.last_input, sums.last_input);
    show_host(mirror.total_error, sums.total_error);
    show_host(mirror.total_input, sums.total_input);
  }
  for (unsigned i = threadIdx.x; i < kSamplePoints; i += kThreads) {
    show_host(mirror.course[i].error, sums.course[i].error);
    show_host(mirror.course[i].input, sums.course[i].input);
  }
  __syncthreads();
  if (threadIdx.x == 0) publish_to_host(mirror.samples, sums.samples);
}

/// Measures with `launch`(grid), then adds up.
template <typename Launch>
cudaError_t sample(std::size_t units, const SampleTarget& target, cudaStream_t stream, Launch&& launch) {
  const auto blocks = static_cast<unsigned>(std::min<std::size_t>(units, kSampleBlocks));
  const cudaError_t measured = launch(blocks);
  if (measured != cudaSuccess) return measured;
  return launch_kernel(add_sample_kernel, 1, kThreads, 0, stream, target, blocks);
}

}  // namespace

cudaError_t sample_quantize(const QuantizeArgs& args, const SampleTarget& target, cudaStream_t stream) {
  const std::size_t units = tile_count(args.input.count) * args.segments_per_message * args.message_count;
  if (units == 0) return cudaSuccess;
  const SegmentLayout layout(args.input.count, args.codec);
  return sample(units, target, stream, [&](unsigned blocks) {
    return with_type(args.input.type, [&]<typename T>() {
      return launch_kernel(sample_quantize_kernel<T>, blocks, kThreads, 0, stream, args, layout, target);
    });
  });
}

cudaError_t sample_requantize(const ReduceRequantizeArgs& args, const SampleTarget& target,
                              cudaStream_t stream) {
  if (args.input.count == 0 || args.node_count < 2) return cudaSuccess;
  const SegmentLayout received_layout(args.input.count, args.received_codec);
  const SegmentLayout layout(args.input.count, args.codec);
  return sample(tile_count(args.input.count) * (args.node_count - 1), target, stream, [&](unsigned blocks) {
    return with_type(args.input.type, [&]<typename T>() {
      return launch_kernel(sample_requantize_kernel<T>, blocks, kThreads,
                           ReceivedState::bytes(args.received_codec, args.peer_count), stream, args,
                           received_layout, layout, target);
    });
  });
}

cudaError_t sample_difference(const EncodeDifferenceArgs& args, const SampleTarget& target,
                              cudaStream_t stream) {
  const WeightChunk& chunk = args.chunk;
  if (chunk.count == 0) return cudaSuccess;
  const SegmentLayout layout(chunk.count, chunk.codec);
  const PhiloxKey key = noise_key(args.key.seed, args.key.rank, args.key.communicator);
  return sample(tile_count(chunk.count), target, stream, [&](unsigned blocks) {
    return with_type(chunk.type, [&]<typename T>() {
      return launch_kernel(sample_difference_kernel<T>, blocks, kThreads, 0, stream, args, layout, key,
                           target);
    });
  });
}

cudaError_t load_sample() {
  KernelLoader loader;
  for_each_type([&]<typename T>() {
    loader.load(sample_quantize_kernel<T>);
    loader.load(sample_requantize_kernel<T>);
    loader.load(sample_difference_kernel<T>);
  });
  loader.load(add_sample_kernel);
  return loader.error();
}

}  // namespace sdp4bit
