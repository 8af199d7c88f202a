// Phase 5 of a gradient: adds the own and the received sums, undoes the transform and writes the output's
// chunk.
#include "kernels/batch.h"
#include "kernels/dispatch.h"
#include "kernels/input.cuh"
#include "kernels/last_block.cuh"
#include "kernels/launch.h"
#include "kernels/launch_kernel.cuh"
#include "kernels/load.h"
#include "kernels/nonfinite.cuh"
#include "kernels/received.cuh"

namespace sdp4bit {
namespace {

/// The own summand: the partial sum of phase 3 where there is one, else the own input segment.
template <typename T>
__device__ __forceinline__ void load_own(float (&own)[kBlock], const ReduceFinishArgs& args,
                                         std::size_t begin, float factor) {
  if (args.own_partial != nullptr) {
    load_floats(own, args.own_partial + begin);
  } else {
    load_input<T>(own, args.input, args.own_segment, begin, factor, args.codec.hadamard);
  }
}

struct ReduceFinishCall {
  ReduceFinishArgs args;
  SegmentLayout layout;
};

/// Grid: tiles of the calls' segments (strided). The output may lie on the own input segment: a thread reads
/// its block of the input before it writes the same block of the output.
template <typename T, unsigned Bits>
__global__ void __launch_bounds__(kThreads)
    reduce_finish_kernel(const __grid_constant__ Batch<ReduceFinishCall> batch, const DrawAdvance advance) {
  extern __shared__ bool invalid[];
  const BlockPlace place = batch.place(blockIdx.x);
  const ReduceFinishArgs& args = batch.call[place.call].args;
  const SegmentLayout& layout = batch.call[place.call].layout;
  __shared__ float factor;
  if (threadIdx.x == 0) factor = args.own_partial != nullptr ? 1.0f : entry_factor<T>(args.input);
  check_headers(invalid, args.received, args.message_count, args.kind, args.chunk, args.input.count,
                place.block == 0 ? args.error : nullptr);
  const ReceivedMessages received{args.received, layout,           layout.segment_offset(0), invalid,
                                  args.kind,     args.own_segment, args.input.offset};
  const std::size_t count = args.input.count;
  T* output = static_cast<T*>(args.output) + args.input.offset;
  for (std::size_t begin = block_begin(place.block, threadIdx.x); begin < count;
       begin += place.blocks * kTile) {
    float own[kBlock];
    float sum[kBlock];
    load_own<T>(own, args, begin, factor);
    const bool nan =
        sum_in_rank_order<Bits>(sum, own, args.own_position, received, args.message_count, begin);
    count_received_group(args.nonfinite, layout, begin, nan);
    if (args.codec.hadamard) inverse_hadamard32(sum);
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kBlock; ++i) sum[i] *= args.out_factor;
    store_block(output + begin, sum, block_size(begin, count));
  }
  if (advance.counter == nullptr || !is_last_block(advance.finished_blocks) || threadIdx.x != 0) return;
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
      [](const ReduceFinishArgs& one, const ReduceFinishArgs& other) {
        return one.codec == other.codec && one.message_count == other.message_count;
      },
      [](const ReduceFinishArgs& args) {
        return ReduceFinishCall{args, SegmentLayout(args.input.count, args.codec)};
      },
      [](const ReduceFinishArgs& args) { return tile_count(args.input.count); },
      [&](const Batch<ReduceFinishCall>& batch, const ReduceFinishArgs& first, bool last) {
        dim3 grid;
        if (!make_grid(grid, batch)) return cudaErrorInvalidValue;
        return with_type(first.input.type, [&]<typename T>() {
          return with_bits(first.codec.bits, [&]<unsigned Bits>() {
            return launch_kernel(reduce_finish_kernel<T, Bits>, grid, kThreads, first.message_count, stream,
                                 batch, last ? advance : DrawAdvance{});
          });
        });
      });
}

cudaError_t load_reduce_finish() {
  KernelLoader loader;
  for_each_type([&]<typename T>() {
    for_each_width([&]<unsigned Bits>() { loader.load(reduce_finish_kernel<T, Bits>); });
  });
  return loader.error();
}

}  // namespace sdp4bit
