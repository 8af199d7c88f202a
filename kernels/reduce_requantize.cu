// Phase 3 of a gradient: adds what the node's ranks have for each node, codes the sums that travel, keeps the
// own one.
#include "kernels/batch.h"
#include "kernels/dispatch.h"
#include "kernels/input.cuh"
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
template <typename T, unsigned ReceivedBits, unsigned Bits>
__global__ void __launch_bounds__(kThreads)
    reduce_requantize_kernel(const __grid_constant__ Batch<ReduceRequantizeCall> batch, const PhiloxKey key) {
  const BlockPlace place = batch.place(blockIdx.x);
  const ReduceRequantizeArgs& args = batch.call[place.call].args;
  const SegmentLayout& received_layout = batch.call[place.call].received_layout;
  const SegmentLayout& layout = batch.call[place.call].layout;
  extern __shared__ bool invalid[];
  __shared__ GroupScratch scratch;
  __shared__ std::uint64_t draw;
  __shared__ float factor;
  __shared__ std::uint32_t input_segment;
  const std::uint32_t node = blockIdx.y;
  const bool travels = node != args.own_node;
  std::byte* message = args.messages.data + (node - (node > args.own_node ? 1 : 0)) * args.messages.stride;
  if (threadIdx.x == 0) {
    draw = *args.draw.counter + args.draw.offset;
    factor = entry_factor<T>(args.input);
    input_segment = args.own_table[node];
    if (place.block == 0 && travels) {
      *reinterpret_cast<MessageHeader*>(message) = gradient_header(
          MessageKind::gradient_between_nodes, draw, args.sender, args.chunk, args.input.count, key);
    }
  }
  check_headers(invalid, args.received, args.peer_count, MessageKind::gradient_in_node, args.chunk,
                args.input.count, place.block == 0 && blockIdx.y == 0 ? args.error : nullptr);
  const ReceivedMessages received{args.received,
                                  received_layout,
                                  received_layout.segment_offset(node),
                                  invalid,
                                  MessageKind::gradient_in_node,
                                  input_segment,
                                  args.input.offset};
  const std::size_t count = args.input.count;
  const std::size_t tiles = tile_count(count);
  for (std::size_t tile = place.block; tile < tiles; tile += place.blocks) {
    const std::size_t begin = block_begin(tile, threadIdx.x);
    float own[kBlock];
    float sum[kBlock];
    load_input<T>(own, args.input, input_segment, begin, factor, args.codec.hadamard);
    const std::uint32_t peers = begin < count ? args.peer_count : 0;
    const bool nan =
        sum_in_rank_order<ReceivedBits>(sum, own, min(args.own_position, peers), received, peers, begin);
    count_received_group(args.nonfinite, received_layout, begin, nan);
    if (travels) {
      const BlockNoise noise{key, draw, MessageKind::gradient_between_nodes, input_segment,
                             args.input.offset + begin};
      encode_to_segment<Bits>(message + layout.segment_offset(0), layout, sum, begin, count, noise, scratch,
                              args.nonfinite);
    } else if (begin < count) {
      store_floats(args.own_partial + begin, sum);
    }
  }
}

}  // namespace

cudaError_t reduce_requantize_batch(std::span<const ReduceRequantizeArgs> calls, cudaStream_t stream) {
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
      [](const ReduceRequantizeArgs& one, const ReduceRequantizeArgs& other) {
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
        const PhiloxKey key = noise_key(first.key.seed, first.key.rank, first.key.communicator);
        return with_type(first.input.type, [&]<typename T>() {
          return with_bits(first.received_codec.bits, [&]<unsigned ReceivedBits>() {
            return with_bits(first.codec.bits, [&]<unsigned Bits>() {
              return launch_kernel(reduce_requantize_kernel<T, ReceivedBits, Bits>, grid, kThreads,
                                   first.peer_count, stream, batch, key);
            });
          });
        });
      });
}

cudaError_t load_reduce_requantize() {
  KernelLoader loader;
  for_each_type([&]<typename T>() {
    for_each_width([&]<unsigned ReceivedBits>() {
      for_each_width([&]<unsigned Bits>() { loader.load(reduce_requantize_kernel<T, ReceivedBits, Bits>); });
    });
  });
  return loader.error();
}

}  // namespace sdp4bit
