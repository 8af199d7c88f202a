// Phase 1 of a gradient: scales, transforms and codes the segments that travel, and writes their messages.
#include "kernels/batch.h"
#include "kernels/dispatch.h"
#include "kernels/gradient_block.cuh"
#include "kernels/header.h"
#include "kernels/input.cuh"
#include "kernels/known_codec.h"
#include "kernels/launch.h"
#include "kernels/launch_kernel.cuh"
#include "kernels/load.h"

namespace sdp4bit {
namespace {

struct QuantizeCall {
  QuantizeArgs args;
  SegmentLayout layout;
};

/// Grid: tiles of the calls' segments (strided), segments of a message, messages.
template <typename T, unsigned Bits, bool Known>
__global__ void __launch_bounds__(kThreads, kBlocksQuantize)
    quantize_kernel(const __grid_constant__ Batch<QuantizeCall> batch,
                    const __grid_constant__ PhiloxSchedule key) {
  using Hint = CodecHint<Bits, Known>;
  const BlockPlace place = batch.place(blockIdx.x);
  const QuantizeArgs& args = batch.call[place.call].args;
  const SegmentLayout layout = Hint::layout(batch.call[place.call].layout);
  __shared__ GroupScratch scratch;
  __shared__ NoiseStart noise;
  __shared__ float factor;
  __shared__ std::uint32_t input_segment;
  std::byte* message = args.messages.data + blockIdx.z * args.messages.stride;
  if (threadIdx.x == 0) {
    const std::uint64_t draw = *args.draw.counter + args.draw.offset;
    factor = entry_factor<T>(args.input);
    input_segment = args.table[blockIdx.z * args.segments_per_message + blockIdx.y];
    noise = noise_start(key, draw, args.kind, input_segment);
    if (place.block == 0 && blockIdx.y == 0) {
      *reinterpret_cast<MessageHeader*>(message) =
          gradient_header(args.kind, draw, args.sender, args.chunk, args.input.count, key.round[0]);
    }
  }
  __syncthreads();
  const InputSegment<T> input(args.input, input_segment, factor, Hint::hadamard(args.codec.hadamard));
  const SegmentWriter<Bits> writer(message + layout.segment_offset(blockIdx.y), layout);
  const BlockNoises noises{key, noise, kept(std::uint64_t{args.input.offset / kBlock + threadIdx.x})};
  const TileRange tiles(args.input.count);
  for (std::uint32_t tile = place.block; tile < tiles.all; tile += place.blocks) {
    float value[kBlock];
    input.load(value, tile);
    writer.encode(value, layout, tile, tiles, noises, scratch, args.nonfinite);
  }
}

}  // namespace

cudaError_t quantize_batch(std::span<const QuantizeArgs> calls, cudaStream_t stream,
                           const PhiloxSchedule* schedule) {
  for (const QuantizeArgs& args : calls) {
    if (args.input.count != 0 && args.message_count != 0 && args.segments_per_message != 0 &&
        !gradient_codec_is_valid(args.codec))
      return cudaErrorInvalidValue;
  }
  return launch_in_batches<QuantizeCall>(
      calls, [](const QuantizeArgs& args) { return args.input.type; },
      [](const Batch<QuantizeCall>& batch, const QuantizeArgs& other) {
        const QuantizeArgs& one = batch.call[0].args;
        return one.codec == other.codec && one.key == other.key && one.message_count == other.message_count &&
               one.segments_per_message == other.segments_per_message;
      },
      [](const QuantizeArgs& args) {
        return QuantizeCall{args, SegmentLayout(args.input.count, args.codec)};
      },
      [](const QuantizeArgs& args) {
        return args.message_count == 0 || args.segments_per_message == 0 ? 0 : tile_count(args.input.count);
      },
      [&](const Batch<QuantizeCall>& batch, const QuantizeArgs& first, bool) {
        dim3 grid;
        if (!make_grid(grid, batch, first.segments_per_message, first.message_count))
          return cudaErrorInvalidValue;
        const PhiloxSchedule key = schedule_of(first.key, schedule);
        return with_type(first.input.type, [&]<typename T>() {
          return with_bits(first.codec.bits, [&]<unsigned Bits>() {
            return with_hint(is_known(first.codec), [&]<bool Known>() {
              return launch_kernel(quantize_kernel<T, Bits, Known>, grid, kThreads, 0, stream, batch, key);
            });
          });
        });
      });
}

cudaError_t load_quantize() {
  KernelLoader loader;
  for_each_type([&]<typename T>() {
    for_each_width([&]<unsigned Bits>() {
      for_both([&]<bool Known>() { loader.load(quantize_kernel<T, Bits, Known>); });
    });
  });
  return loader.error();
}

}  // namespace sdp4bit
