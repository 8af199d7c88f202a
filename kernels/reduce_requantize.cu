// Phase 3 of a gradient: adds what the node's ranks have for each node, codes the sums that travel, keeps the
// own one.
#include "kernels/batch.h"
#include "kernels/dispatch.h"
#include "kernels/input.cuh"
#include "kernels/known_codec.h"
#include "kernels/launch.h"
#include "kernels/launch_kernel.cuh"
#include "kernels/load.h"
#include "kernels/received.cuh"

namespace sdp4bit {
namespace {

struct ReduceRequantizeCall {
  ReduceRequantizeArgs args;
  SegmentLayout received_layout;
  SegmentLayout layout;
};

/// Grid: tiles of the calls' segments (strided), nodes.
template <typename T, unsigned ReceivedBits, unsigned Bits, bool Known>
__global__ void __launch_bounds__(kThreads, kBlocksReduce)
    reduce_requantize_kernel(const __grid_constant__ Batch<ReduceRequantizeCall> batch,
                             const __grid_constant__ PhiloxSchedule key) {
  using ReceivedHint = CodecHint<ReceivedBits, Known>;
  using Hint = CodecHint<Bits, Known>;
  const BlockPlace place = batch.place(blockIdx.x);
  const ReduceRequantizeArgs& args = batch.call[place.call].args;
  const SegmentLayout received_layout = ReceivedHint::layout(batch.call[place.call].received_layout);
  const SegmentLayout layout = Hint::layout(batch.call[place.call].layout);
  const ReceivedState state(received_layout, args.peer_count, true);
  __shared__ GroupScratch scratch;
  __shared__ NoiseStart noise;
  __shared__ float factor;
  __shared__ std::uint32_t input_segment;
  const std::uint32_t node = blockIdx.y;
  const bool travels = node != args.own_node;
  std::byte* message = args.messages.data + (node - (node > args.own_node ? 1 : 0)) * args.messages.stride;
  if (threadIdx.x == 0) {
    const std::uint64_t draw = *args.draw.counter + args.draw.offset;
    factor = entry_factor<T>(args.input);
    input_segment = args.own_table[node];
    noise = noise_start(key, draw, MessageKind::gradient_between_nodes, input_segment);
    if (place.block == 0 && travels) {
      *reinterpret_cast<MessageHeader*>(message) = gradient_header(
          MessageKind::gradient_between_nodes, draw, args.sender, args.chunk, args.input.count, key.round[0]);
    }
  }
  check_headers(
      state, args.received, args.peer_count, MessageKind::gradient_in_node, args.chunk, args.input.count,
      [&] { return args.own_table[node]; }, place.block == 0 && blockIdx.y == 0 ? args.error : nullptr);
  const TileRange tiles(args.input.count);
  const InputSegment<T> input(args.input, input_segment, factor, Hint::hadamard(args.codec.hadamard));
  const ReceivedSegments<ReceivedBits, ReceivedHint::kExactProducts> received(
      args.received, args.peer_count, received_layout.segment_offset(node), received_layout, state,
      MessageKind::gradient_in_node, input_segment, args.input.offset);
  const SegmentWriter<Bits> writer(message + layout.segment_offset(0), layout);
  const BlockNoises noises{key, noise, received.first_block};
  for (std::uint32_t tile = place.block; tile < tiles.all; tile += place.blocks) {
    const bool inside = tile < tiles.whole || own_element() < tiles.rest;
    float own[kBlock];
    float sum[kBlock];
    input.load(own, tile);
    if (inside) {
      const bool nan = received.sum_in_rank_order(sum, own, args.own_position, tile);
      count_received_group(args.nonfinite, received_layout, own_element(), nan);
    } else {
      SDP4BIT_UNROLL
      for (unsigned i = 0; i < kBlock; ++i) sum[i] = own[i];
    }
    if (travels) {
      writer.encode(sum, layout, tile, tiles, noises, scratch, args.nonfinite);
    } else if (inside) {
      store_floats(args.own_partial + std::size_t{tile} * kTile + own_element(), sum);
    }
  }
}

}  // namespace

cudaError_t reduce_requantize_batch(std::span<const ReduceRequantizeArgs> calls, cudaStream_t stream,
                                    const PhiloxSchedule* schedule) {
  for (const ReduceRequantizeArgs& args : calls) {
    if (args.input.count == 0 || args.node_count == 0) continue;
    if (!gradient_codec_is_valid(args.codec) || !gradient_codec_is_valid(args.received_codec) ||
        args.codec.hadamard != args.received_codec.hadamard || args.own_position > args.peer_count ||
        !is_aligned(args.own_partial, kMessageAlign) || args.peer_count > kLargestMessageCount) {
      return cudaErrorInvalidValue;
    }
  }
  return launch_in_batches<ReduceRequantizeCall>(
      calls, [](const ReduceRequantizeArgs& args) { return args.input.type; },
      [](const Batch<ReduceRequantizeCall>& batch, const ReduceRequantizeArgs& other) {
        const ReduceRequantizeArgs& one = batch.call[0].args;
        return one.codec == other.codec && one.received_codec == other.received_codec &&
               one.key == other.key && one.peer_count == other.peer_count &&
               one.node_count == other.node_count;
      },
      [](const ReduceRequantizeArgs& args) {
        return ReduceRequantizeCall{args, SegmentLayout(args.input.count, args.received_codec),
                                    SegmentLayout(args.input.count, args.codec)};
      },
      [](const ReduceRequantizeArgs& args) {
        return args.node_count == 0 ? 0 : tile_count(args.input.count);
      },
      [&](const Batch<ReduceRequantizeCall>& batch, const ReduceRequantizeArgs& first, bool) {
        dim3 grid;
        if (!make_grid(grid, batch, first.node_count)) return cudaErrorInvalidValue;
        const PhiloxSchedule key = schedule_of(first.key, schedule);
        const std::size_t shared = ReceivedState::bytes(first.received_codec, first.peer_count);
        return with_type(first.input.type, [&]<typename T>() {
          if (first.received_codec == kKnownInNode && first.codec == kKnownBetweenNodes) {
            return launch_kernel(
                reduce_requantize_kernel<T, kKnownInNode.bits, kKnownBetweenNodes.bits, true>, grid, kThreads,
                shared, stream, batch, key);
          }
          return with_bits(first.received_codec.bits, [&]<unsigned ReceivedBits>() {
            return with_bits(first.codec.bits, [&]<unsigned Bits>() {
              return launch_kernel(reduce_requantize_kernel<T, ReceivedBits, Bits, false>, grid, kThreads,
                                   shared, stream, batch, key);
            });
          });
        });
      });
}

cudaError_t load_reduce_requantize() {
  KernelLoader loader;
  for_each_type([&]<typename T>() {
    for_each_width([&]<unsigned ReceivedBits>() {
      for_each_width(
          [&]<unsigned Bits>() { loader.load(reduce_requantize_kernel<T, ReceivedBits, Bits, false>); });
    });
    loader.load(reduce_requantize_kernel<T, kKnownInNode.bits, kKnownBetweenNodes.bits, true>);
  });
  return loader.error();
}

}  // namespace sdp4bit
