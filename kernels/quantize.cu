// Phase 1 of a gradient: scales, transforms and codes the segments that travel, and writes their messages.
#include "kernels/block_codec.cuh"
#include "kernels/dispatch.h"
#include "kernels/header.h"
#include "kernels/input.cuh"
#include "kernels/launch.h"
#include "kernels/launch_kernel.cuh"
#include "kernels/load.h"

namespace sdp4bit {
namespace {

/// Grid: tiles of a segment (strided), segments of a message, messages.
template <typename T, unsigned Bits>
__global__ void __launch_bounds__(kThreads)
    quantize_kernel(const QuantizeArgs args, const SegmentLayout layout, const PhiloxKey key) {
  __shared__ GroupScratch scratch;
  __shared__ std::uint64_t draw;
  __shared__ float factor;
  __shared__ std::uint32_t input_segment;
  std::byte* message = args.messages.data + blockIdx.z * args.messages.stride;
  if (threadIdx.x == 0) {
    draw = *args.draw.counter + args.draw.offset;
    factor = entry_factor<T>(args.input);
    input_segment = args.table[blockIdx.z * args.segments_per_message + blockIdx.y];
    if (blockIdx.x == 0 && blockIdx.y == 0) {
      *reinterpret_cast<MessageHeader*>(message) =
          gradient_header(args.kind, draw, args.sender, args.chunk, args.input.count, key);
    }
  }
  __syncthreads();
  std::byte* segment = message + layout.segment_offset(blockIdx.y);
  const std::size_t tiles = tile_count(args.input.count);
  for (std::size_t tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
    const std::size_t begin = block_begin(tile, threadIdx.x);
    float value[kBlock];
    load_input<T>(value, args.input, input_segment, begin, factor, args.codec.hadamard);
    const BlockNoise noise{key, draw, args.kind, input_segment, args.input.offset + begin};
    encode_to_segment<Bits>(segment, layout, value, begin, args.input.count, noise, scratch, args.nonfinite);
  }
}

}  // namespace

cudaError_t quantize(const QuantizeArgs& args, cudaStream_t stream) {
  if (args.input.count == 0 || args.message_count == 0 || args.segments_per_message == 0) return cudaSuccess;
  if (!gradient_codec_is_valid(args.codec)) return cudaErrorInvalidValue;
  dim3 grid;
  if (!make_grid(grid, args.input.count, args.segments_per_message, args.message_count))
    return cudaErrorInvalidValue;
  const SegmentLayout layout(args.input.count, args.codec);
  const PhiloxKey key = noise_key(args.key.seed, args.key.rank, args.key.communicator);
  return with_type(args.input.type, [&]<typename T>() {
    return with_bits(args.codec.bits, [&]<unsigned Bits>() {
      return launch_kernel(quantize_kernel<T, Bits>, grid, kThreads, 0, stream, args, layout, key);
    });
  });
}

cudaError_t load_quantize() {
  KernelLoader loader;
  for_each_type(
      [&]<typename T>() { for_each_width([&]<unsigned Bits>() { loader.load(quantize_kernel<T, Bits>); }); });
  return loader.error();
}

}  // namespace sdp4bit
