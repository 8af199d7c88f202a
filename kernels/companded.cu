// Companded differences in groups of at least a warp's tile: coded against the own ledger entry, and added to
// the holders' entries.
#include "kernels/companded.h"

#include "kernels/block_codec.cuh"
#include "kernels/compand.cuh"
#include "kernels/dispatch.h"
#include "kernels/launch_kernel.cuh"
#include "kernels/load.h"
#include "kernels/warp_tile.cuh"
#include "kernels/weight_batch.cuh"
#include "kernels/weight_header.h"

namespace sdp4bit {
namespace {

/// The largest of all threads' maxima (joined) in a group of `warps` neighbouring warps. Groups of a block
/// need not ask together.
template <bool OneWarp>
__device__ __forceinline__ GroupMaxima group_maxima(std::uint32_t maxima, unsigned warps,
                                                    GroupMaxima (&scratch)[kThreads / 32]) {
  // Magnitudes order as integers; below the weight's, the other's bits do not count.
  GroupMaxima largest{instructions::max_of_warp(maxima << 16),
                      instructions::max_of_warp(maxima) & 0xffff0000u};
  if (OneWarp) return largest;
  const unsigned warp = threadIdx.x / 32;
  const unsigned first = warp / warps * warps;
  const auto meet = [&] {  // the group's threads, at a barrier of their own
    asm volatile("bar.sync %0, %1;" ::"r"(first + 1), "r"(warps * 32) : "memory");
  };
  meet();  // the scratch may still be read for the tile before
  if (threadIdx.x % 32 == 0) scratch[warp] = largest;
  meet();
  for (unsigned other = first; other < first + warps; ++other) {
    largest.difference = max(largest.difference, scratch[other].difference);
    largest.weight = max(largest.weight, scratch[other].weight);
  }
  return largest;
}

/// Elements that what is staged is padded to.
template <typename T>
inline constexpr unsigned kStagingUnit = kMessageAlign / sizeof(T);

constexpr std::uint32_t kHasReplica = 1, kHasStaged = 2, kLeadsGroup = 4, kHasWideScales = 8;

/// What a thread works on, in the chunk's first tile.
template <typename T>
struct EncodePlaces {
  const T* shard;
  T *entry, *replica, *staged;
  std::uint32_t* codes;
  std::uint32_t facts;  // kHasReplica and so on
};

/// Codes differences with their group's scale and curve, adds the decoded codes to the entry, and writes all.
template <typename T, bool OneWarp, bool Whole>
__device__ __forceinline__ void code_and_store(const EncodeCall& call, const EncodePlaces<T>& first,
                                               std::uint32_t tile, const PieceRange<Whole>& range,
                                               const std::uint32_t (&difference)[kPairs],
                                               std::uint32_t (&held)[kBlockWords<T>], std::uint32_t scale,
                                               const CurvePairs& curve, const GroupMaxima& maxima,
                                               const SharedLevels& levels) {
  const std::size_t before = std::size_t{tile} * kTile;
  const std::uint32_t scales = __byte_perm(scale, 0, 0x3232);
  std::uint32_t* const codes = first.codes + before / kPiece;
  SDP4BIT_UNROLL
  for (unsigned piece = 0; piece < kPieces; ++piece) {
    std::uint32_t at[kPiece / 2];
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kPiece / 2; ++i) {
      const unsigned pair = piece * kPiece / 2 + i;
      at[i] = levels.address_of(compand_pair(difference[pair], curve));
      add_level_pair<T>(held, pair, SharedLevels::at_address(at[i]), scales);
    }
    // The last block travels whole.
    if (Whole || piece * kPieceStride < range.padded) {
      codes[piece * kPieceStride / kPiece] = levels.word_of(at);
    }
  }
  store_pieces(first.entry + before, held, range);
  if (first.facts & (kHasReplica | kHasStaged)) {
    if (first.facts & kHasReplica) store_pieces(first.replica + before, held, range);
    if (first.facts & kHasStaged) store_pieces(first.staged + before, held, range, kStagingUnit<T>);
  }
  if ((first.facts & kLeadsGroup) && (Whole || range.left != 0)) {
    const unsigned shift = OneWarp ? 5 : call.layout.group_shift - 5;  // to threads of a group
    const std::uint32_t group = tile * (kThreads >> shift) + (threadIdx.x >> shift);
    std::byte* const segment = call.args.message + call.layout.segment_offset(0);
    if (first.facts & kHasWideScales) {
      reinterpret_cast<std::uint32_t*>(segment)[group] = scale;
    } else {
      reinterpret_cast<std::uint16_t*>(segment)[group] = static_cast<std::uint16_t>(scales);
    }
    call.args.maxima[group] = maxima;
  }
}

/// Codes one tile whose pieces are whole; false where a group needs care: it has to be done again then.
template <typename T, bool OneWarp>
__device__ __forceinline__ bool encode_tile(const EncodeCall& call, const EncodePlaces<T>& first,
                                            std::uint32_t tile, const SharedLevels& levels,
                                            GroupMaxima (&scratch)[kThreads / 32]) {
  const std::size_t before = std::size_t{tile} * kTile;
  const PieceRange<true> range(0, 0);
  std::uint32_t now[kBlockWords<T>], held[kBlockWords<T>], difference[kPairs];
  load_pieces(now, first.shard + before, range);
  load_pieces<T>(held, first.entry + before, range);
  const GroupMaxima maxima = group_maxima<OneWarp>(take_differences<T>(difference, now, held),
                                                   call.layout.threads_per_group() / 32, scratch);
  const std::uint32_t scale = maxima.difference;
  // Weights may round to infinity where differences do not.
  if (!is_middle(scale) || (sizeof(T) == 4 && maxima.weight >= 0x7f800000u)) return false;
  const CurvePairs curve = curve_pairs(float_from_bits(scale));
  code_and_store<T, OneWarp>(call, first, tile, range, difference, held, scale, curve, maxima, levels);
  return true;
}

/// The same for every tile and every number.
template <typename T, bool OneWarp>
__device__ __forceinline__ void encode_tile_carefully(const EncodeCall& call, const EncodePlaces<T>& first,
                                                      std::uint32_t tile, const SharedLevels& levels,
                                                      GroupMaxima (&scratch)[kThreads / 32]) {
  const std::size_t before = std::size_t{tile} * kTile;
  const PieceRange<false> range(before + first_piece(), call.args.chunk.count);
  std::uint32_t now[kBlockWords<T>], held[kBlockWords<T>], difference[kPairs];
  load_pieces(now, first.shard + before, range);
  load_pieces<T>(held, first.entry + before, range);
  const GroupMaxima maxima = group_maxima<OneWarp>(take_differences_carefully<T>(difference, now, held),
                                                   call.layout.threads_per_group() / 32, scratch);
  std::uint32_t scale = maxima.difference;
  if (scale >= 0x7f800000u) {
    scale = call.layout.scale == ScaleType::float32 ? kNanBits : std::uint32_t{kNanBits16} << 16;
    if ((first.facts & kLeadsGroup) && range.left != 0 && call.args.nonfinite) {
      count_group(&call.args.nonfinite->sent);
    }
  }
  const CurvePairs curve = move_to_middle(difference, float_from_bits(scale));
  code_and_store<T, OneWarp>(call, first, tile, range, difference, held, scale, curve, maxima, levels);
}

/// The zeros between a segment's last scale and its codes.
__device__ __forceinline__ void pad_scales(std::byte* segment, const SegmentLayout& layout,
                                           std::size_t count) {
  const std::size_t end = layout.scale_offset(count - 1) + (layout.scale == ScaleType::float32 ? 4 : 2);
  for (std::size_t at = end + 2 * threadIdx.x; at < layout.codes_offset; at += 2 * kThreads) {
    *reinterpret_cast<std::uint16_t*>(segment + at) = 0;
  }
}

/// Grid: tiles of the calls' chunks, strided.
template <typename T, bool OneWarp>
__global__ void __launch_bounds__(kThreads, kEncodingBlocks<T, OneWarp>)
    encode_companded_kernel(const __grid_constant__ Batch<EncodeCall> batch,
                            std::uint32_t* const finished_blocks) {
  __shared__ GroupMaxima scratch[kThreads / 32];
  __shared__ std::uint32_t level_words[256];
  const SharedLevels levels(level_words, true);
  const BlockPlace place = batch.place(blockIdx.x);
  const EncodeCall& call = batch.call[place.call];
  const EncodeDifferenceArgs& args = call.args;
  const SegmentLayout& layout = call.layout;
  const WeightChunk& chunk = args.chunk;
  const std::size_t offset = chunk.offset + first_piece();
  std::byte* const segment = args.message + layout.segment_offset(0);
  const EncodePlaces<T> first{
      .shard = kept_in_register(static_cast<const T*>(args.shard) + offset),
      .entry = kept_in_register(static_cast<T*>(args.entry) + offset),
      .replica = kept_in_register(static_cast<T*>(args.replica) + offset),
      .staged = kept_in_register(reinterpret_cast<T*>(args.staged) + first_piece()),
      .codes = kept_in_register(reinterpret_cast<std::uint32_t*>(segment + layout.codes_offset) +
                                first_piece() / kPiece),
      .facts = kept_in_register((args.replica ? kHasReplica : 0) | (args.staged ? kHasStaged : 0) |
                                (threadIdx.x % layout.threads_per_group() == 0 ? kLeadsGroup : 0) |
                                (layout.scale == ScaleType::float32 ? kHasWideScales : 0))};
  if (place.block == 0) pad_scales(segment, layout, chunk.count);
  // Of the arguments, not of each thread's places: all threads have to see the same.
  const bool aligned = is_aligned(static_cast<const T*>(args.shard) + chunk.offset, 16) &&
                       is_aligned(static_cast<const T*>(args.entry) + chunk.offset, 16) &&
                       (!args.replica || is_aligned(static_cast<const T*>(args.replica) + chunk.offset, 16));
  const auto whole_tiles = static_cast<std::uint32_t>(aligned ? chunk.count / kTile : 0);
  const auto tiles = static_cast<std::uint32_t>(tile_count(chunk.count));
  for (std::uint32_t tile = place.block; tile < tiles; tile += place.blocks) {
    if (tile < whole_tiles && encode_tile<T, OneWarp>(call, first, tile, levels, scratch)) continue;
    encode_tile_carefully<T, OneWarp>(call, first, tile, levels, scratch);
  }
  if (call.seal.message != nullptr && is_last_block(finished_blocks + place.call, place.blocks)) {
    seal_difference(call.seal);
  }
}

/// Whether a warp's entries are finite: times zero, a NaN and an infinity make a NaN of the sum.
template <typename T>
__device__ __forceinline__ bool warp_is_finite(const std::uint32_t (&entry)[kBlockWords<T>]) {
  bool is_finite = true;
  if constexpr (kElementType<T> == ElementType::bfloat16) {
    std::uint32_t sum[2] = {0, 0};
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kPairs; ++i) sum[i % 2] = multiply_add_pair(entry[i], 0u, sum[i % 2]);
    is_finite = magnitude_pair(sum[0] | sum[1]) == 0;
  } else {
    float sum = 0.0f;
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kBlock; ++i) sum = fmaf(to_float(get_element<T>(entry, i)), 0.0f, sum);
    is_finite = sum == 0.0f;
  }
  return __all_sync(0xffffffffu, is_finite) != 0;
}

/// What a thread works on, in the chunk's first tile.
template <typename T>
struct AddPlaces {
  const std::uint32_t* codes;
  T *entry, *receive, *staged;
  const std::byte* scale;
  std::size_t count;  // of the chunk
  NonFiniteGroups* nonfinite;
  std::uint32_t groups_per_tile, has_staged, has_wide_scales, leads_group;
};

/// Adds what a message says of one tile. Whole tiles: false where a warp's entries are not finite, and
/// nothing was done.
template <typename T, bool Whole>
__device__ __forceinline__ bool add_tile(const AddPlaces<T>& first, std::uint32_t tile,
                                         const SharedLevels& levels) {
  const std::size_t before = std::size_t{tile} * kTile;
  const PieceRange<Whole> range(before + first_piece(), first.count);
  if (!Whole && range.left == 0) return true;
  std::uint32_t held[kBlockWords<T>], words[kPieces];
  load_pieces<T>(held, first.entry + before, range);
  const std::uint32_t* const codes = first.codes + before / kPiece;
  SDP4BIT_UNROLL
  for (unsigned piece = 0; piece < kPieces; ++piece) {
    const bool exists = Whole || piece * kPieceStride < range.left;
    words[piece] = exists ? codes[piece * kPieceStride / kPiece] : 0u;
  }
  const std::uint32_t group = tile * first.groups_per_tile;
  const std::uint32_t scales =
      first.has_wide_scales
          ? make_pair(from_float<BFloat16>(reinterpret_cast<const float*>(first.scale)[group]))
          : reinterpret_cast<const std::uint16_t*>(first.scale)[group] * 0x10001u;
  if constexpr (Whole) {
    if (!warp_is_finite<T>(held)) return false;
  } else {
    make_finite<T>(held);
  }
  SDP4BIT_UNROLL
  for (unsigned piece = 0; piece < kPieces; ++piece) {
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kPiece / 2; ++i) {
      add_level_pair<T>(held, piece * kPiece / 2 + i, levels.of_byte(words[piece], i), scales);
    }
  }
  if ((scales & 0x7fffu) > 0x7f80u && first.leads_group && first.nonfinite) {
    count_group(&first.nonfinite->received);
  }
  store_pieces(first.entry + before, held, range);
  store_pieces(first.receive + before, held, range);
  if (first.has_staged) store_pieces(first.staged + before, held, range, kStagingUnit<T>);
  return true;
}

/// Makes NaN of what a message should have said.
template <typename T>
__device__ __forceinline__ void fill_with_nan(const AddPlan<T>& plan, std::size_t count,
                                              const BlockPlace& place) {
  constexpr std::uint32_t word = sizeof(T) == 4 ? kNanBits : std::uint32_t{kNanBits16} << 16 | kNanBits16;
  std::uint32_t words[kBlockWords<T>];
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kBlockWords<T>; ++i) words[i] = word;
  for (std::size_t tile = place.block; tile < tile_count(count); tile += place.blocks) {
    const std::size_t begin = tile * kTile + first_piece();
    const PieceRange<false> range(begin, count);
    store_pieces(plan.receive + begin, words, range);
    if (plan.staged) store_pieces(plan.staged + begin, words, range, kStagingUnit<T>);
  }
}

/// The thread block's tiles of one call's message.
template <typename T>
__device__ __forceinline__ void add_message(const AddPlan<T>& plan, const SegmentLayout& layout,
                                            const WeightChunk& chunk, NonFiniteGroups* nonfinite,
                                            const BlockPlace& place, const SharedLevels& levels) {
  if (!plan.is_valid) return fill_with_nan(plan, chunk.count, place);
  const AddPlaces<T> first{
      .codes = kept_in_register(reinterpret_cast<const std::uint32_t*>(plan.segment + layout.codes_offset) +
                                first_piece() / kPiece),
      .entry = kept_in_register(plan.entry + first_piece()),
      .receive = kept_in_register(plan.receive + first_piece()),
      .staged = kept_in_register(plan.staged + first_piece()),
      .scale = kept_in_register(plan.segment + layout.scale_offset(first_piece())),
      .count = chunk.count,
      .nonfinite = nonfinite,
      .groups_per_tile = kept_in_register(static_cast<unsigned>(kTile) >> layout.group_shift),
      .has_staged = kept_in_register(plan.staged != nullptr ? 1 : 0),
      .has_wide_scales = kept_in_register(layout.scale == ScaleType::float32 ? 1 : 0),
      .leads_group = kept_in_register(threadIdx.x % layout.threads_per_group() == 0 ? 1 : 0)};
  const bool aligned = is_aligned(plan.entry, 16) && is_aligned(plan.receive, 16);
  const auto whole_tiles = static_cast<std::uint32_t>(aligned ? chunk.count / kTile : 0);
  const auto tiles = static_cast<std::uint32_t>(tile_count(chunk.count));
  for (std::uint32_t tile = place.block; tile < tiles; tile += place.blocks) {
    if (tile < whole_tiles && add_tile<T, true>(first, tile, levels)) continue;
    (void)add_tile<T, false>(first, tile, levels);
  }
}

/// Grid: tiles of the calls' chunks (strided), messages.
template <typename T>
__global__ void __launch_bounds__(kThreads, kAddingBlocks)
    add_companded_kernel(const __grid_constant__ Batch<AddCall> batch, std::uint32_t* const finished_blocks) {
  __shared__ std::uint32_t level_words[256];
  __shared__ AddPlan<T> plan;
  const SharedLevels levels(level_words, false);
  const BlockPlace place = batch.place(blockIdx.x);
  for_own_calls(batch, place, [&](const AddCall& call) {
    __syncthreads();  // the plan of the call before is no longer read
    if (threadIdx.x == 0) plan = plan_message<T>(call.args, call.layout, place.block == 0);
    __syncthreads();
    add_message<T>(plan, call.layout, call.args.chunk, call.args.nonfinite, place, levels);
  });
  publish_at_the_end(batch, finished_blocks);
}

}  // namespace

cudaError_t encode_companded(const Batch<EncodeCall>& batch, dim3 grid, std::uint32_t* finished_blocks,
                             cudaStream_t stream) {
  const WeightChunk& chunk = batch.call[0].args.chunk;
  return with_type(chunk.type, [&]<typename T>() {
    const auto kernel = chunk.codec.group_size == kWarpTile ? encode_companded_kernel<T, true>
                                                            : encode_companded_kernel<T, false>;
    return launch_kernel(kernel, grid, kThreads, 0, stream, batch, finished_blocks);
  });
}

cudaError_t add_companded(const Batch<AddCall>& batch, dim3 grid, std::uint32_t* finished_blocks,
                          cudaStream_t stream) {
  return with_type(batch.call[0].args.chunk.type, [&]<typename T>() {
    return launch_kernel(add_companded_kernel<T>, grid, kThreads, 0, stream, batch, finished_blocks);
  });
}

cudaError_t load_companded() {
  KernelLoader loader;
  for_each_type([&]<typename T>() {
    loader.load(encode_companded_kernel<T, true>);
    loader.load(encode_companded_kernel<T, false>);
    loader.load(add_companded_kernel<T>);
  });
  return loader.error();
}

}  // namespace sdp4bit
