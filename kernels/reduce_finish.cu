// Phase 5 of a gradient: adds the own and the received sums, undoes the transform and writes the output's
// chunk.
#include "kernels/batch.h"
#include "kernels/dispatch.h"
#include "kernels/input.cuh"
#include "kernels/known_codec.h"
#include "kernels/last_block.cuh"
#include "kernels/launch.h"
#include "kernels/launch_kernel.cuh"
#include "kernels/load.h"
#include "kernels/nonfinite.cuh"
#include "kernels/received.cuh"

namespace sdp4bit {
namespace {

struct ReduceFinishCall {
  ReduceFinishArgs args;
  SegmentLayout layout;
};

/// Grid: tiles of the calls' segments (strided). The output may lie on the own input segment: a thread reads
/// its block of the input before it writes the same block of the output.
template <typename T, unsigned Bits, bool Known>
__global__ void __launch_bounds__(kThreads, kBlocksReduce)
    reduce_finish_kernel(const __grid_constant__ Batch<ReduceFinishCall> batch, const DrawAdvance advance) {
  using Hint = CodecHint<Bits, Known>;
  const BlockPlace place = batch.place(blockIdx.x);
  const ReduceFinishArgs& args = batch.call[place.call].args;
  const SegmentLayout layout = Hint::layout(batch.call[place.call].layout);
  const bool hadamard = Hint::hadamard(args.codec.hadamard);
  const ReceivedState state(layout, args.message_count, true);
  __shared__ float factor;
  if (threadIdx.x == 0) factor = args.own_partial != nullptr ? 1.0f : entry_factor<T>(args.input);
  check_headers(
      state, args.received, args.message_count, args.kind, args.chunk, args.input.count,
      [&] { return args.own_segment; }, place.block == 0 ? args.error : nullptr);
  const TileRange tiles(args.input.count);
  const InputSegment<T> input(args.input, args.own_segment, factor, hadamard);
  const ReceivedSegments<Bits, Hint::kExactProducts> received(args.received, args.message_count,
                                                              layout.segment_offset(0), layout, state,
                                                              args.kind, args.own_segment, args.input.offset);
  const float out_factor = hadamard ? args.out_factor * kInverseHadamardFactor : args.out_factor;
  const float* const partial = args.own_partial ? kept(args.own_partial + own_element()) : nullptr;
  T* const output = kept(static_cast<T*>(args.output) + args.input.offset + own_element());
  const bool aligned = is_aligned(output, 16);
  for (std::uint32_t tile = place.block; tile < tiles.all; tile += place.blocks) {
    const bool whole = tile < tiles.whole;
    if (!whole && own_element() >= tiles.rest) break;
    float own[kBlock];
    float sum[kBlock];
    if (partial != nullptr) {
      load_floats(own, partial + std::size_t{tile} * kTile);
    } else {
      input.load(own, tile);
    }
    const bool nan = received.sum_in_rank_order(sum, own, args.own_position, tile);
    count_received_group(args.nonfinite, layout, own_element(), nan);
    if (hadamard) hadamard32(sum);
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kBlock; ++i) sum[i] *= out_factor;
    std::uint32_t words[kBlockWords<T>];
    floats_to_words<T>(words, sum);
    T* const block = output + std::size_t{tile} * kTile;
    if (whole && aligned) {
      store_words(block, words);
    } else {
      store_block_words(block, words, kept(tiles.block_size(tile, own_element())));
    }
  }
  if (advance.counter == nullptr || !is_last_block(advance.finished_blocks, gridDim.x) || threadIdx.x != 0)
    return;
  *advance.counter += advance.by;
  copy_counters(advance.mirror);
}

}  // namespace

cudaError_t reduce_finish_batch(std::span<const ReduceFinishArgs> calls, cudaStream_t stream,
                                const DrawAdvance& advance) {
  for (const ReduceFinishArgs& args : calls) {
    if (args.input.count == 0) continue;
    if (!gradient_codec_is_valid(args.codec) || args.own_position > args.message_count ||
        !is_aligned(args.own_partial, kMessageAlign) || args.message_count > kLargestMessageCount) {
      return cudaErrorInvalidValue;
    }
  }
  return launch_in_batches<ReduceFinishCall>(
      calls, [](const ReduceFinishArgs& args) { return args.input.type; },
      [](const Batch<ReduceFinishCall>& batch, const ReduceFinishArgs& other) {
        const ReduceFinishArgs& one = batch.call[0].args;
        for (std::uint32_t i = 0; i < batch.calls; ++i) {
          if (batch.call[i].args.output == other.output) return false;  // the later one shall stay
        }
        return one.codec == other.codec && one.message_count == other.message_count;
      },
      [](const ReduceFinishArgs& args) {
        return ReduceFinishCall{args, SegmentLayout(args.input.count, args.codec)};
      },
      [](const ReduceFinishArgs& args) { return tile_count(args.input.count); },
      [&](const Batch<ReduceFinishCall>& batch, const ReduceFinishArgs& first, bool last) {
        dim3 grid;
        if (!make_grid(grid, batch)) return cudaErrorInvalidValue;
        const std::size_t shared = ReceivedState::bytes(first.codec, first.message_count);
        return with_type(first.input.type, [&]<typename T>() {
          return with_bits(first.codec.bits, [&]<unsigned Bits>() {
            return with_hint(is_known(first.codec), [&]<bool Known>() {
              return launch_kernel(reduce_finish_kernel<T, Bits, Known>, grid, kThreads, shared, stream,
                                   batch, last ? advance : DrawAdvance{});
            });
          });
        });
      });
}

cudaError_t load_reduce_finish() {
  KernelLoader loader;
  for_each_type([&]<typename T>() {
    for_each_width([&]<unsigned Bits>() {
      for_both([&]<bool Known>() { loader.load(reduce_finish_kernel<T, Bits, Known>); });
    });
  });
  return loader.error();
}

}  // namespace sdp4bit
