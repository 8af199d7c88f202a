// How a thread codes its block of a gradient into a segment of a message.
//
// A thread works on one block of each tile that its thread block comes to. What it needs for that is made
// once, for the first tile; tiles are named by their first element.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/block_codec.cuh"
#include "kernels/instructions.h"
#include "kernels/memory.cuh"
#include "kernels/nonfinite.cuh"

namespace sdp4bit {

/// First element of the thread's block in a tile.
__device__ __forceinline__ unsigned own_element() {
  return threadIdx.x * kBlock;
}

/// The largest magnitude's bits; those of any NaN are above Inf's, but not that NaN's own.
__device__ __forceinline__ std::uint32_t largest_magnitude(const float (&value)[kBlock]) {
  float largest = fabsf(value[0]);
  SDP4BIT_UNROLL
  for (unsigned i = 1; i < kBlock; ++i) {
    largest = instructions::max_or_nan(largest, fabsf(value[i]));
  }
  return bits_of(largest);
}

/// The noise of a segment's blocks.
struct BlockNoises {
  const PhiloxSchedule& key;
  const NoiseStart& begin;    // in shared memory: read when it is needed
  std::uint64_t first_block;  // the thread's, of the segment, in the chunk's first tile

  __device__ __forceinline__ Philox4 in_tile(std::uint32_t tile) const {
    return block_noise(begin, key.round + kRoundsOfStart,
                       noise_block(first_block + std::uint64_t{tile} * kThreads));
  }
};

/// Codes a block whose group has the given largest magnitude, and returns the group's scale; `value` is used
/// up. `odd(scale)` is called where the scale may be zero, NaN or near an end of the exponent range.
template <unsigned Bits, typename Noise, typename Odd>
__device__ __forceinline__ float encode_block(std::uint32_t (&words)[kCodeWords<Bits>],
                                              float (&value)[kBlock], std::uint32_t largest,
                                              const SegmentLayout& layout, const Noise& noise,
                                              const Odd& odd) {
  const float steps = scale_steps(layout.coding, Bits);
  float scale;
  MiddleScale by;
  if (is_middle_magnitude(largest)) {
    scale = quick_scale(largest, steps, layout.scale);
    by = {scale, quick_inverse(scale)};
  } else {
    scale = group_scale(largest, steps, layout.scale);
    odd(scale);
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kCodeWords<Bits>; ++i) words[i] = 0;
    if (!has_codes(scale)) return scale;
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kBlock; ++i) value[i] = to_middle(value[i], scale, steps);
    by.scale = scale * middle_factor(scale);
    by.inverse = quick_inverse(by.scale);
  }
  GradientCodings::with<Bits>(
      layout.coding, [&]<typename Policy>() { encode_middle_block<Policy, Bits>(words, value, by, noise); });
  return scale;
}

/// Where a thread writes its blocks of a segment.
template <unsigned Bits>
struct SegmentWriter {
  std::byte* codes;   // of the block in the first tile
  std::byte* scales;  // of that block's group

  __device__ __forceinline__ SegmentWriter(std::byte* segment, const SegmentLayout& layout)
      : codes(kept(segment + layout.code_offset(own_element()))),
        scales(kept(segment + layout.scale_offset(own_element()))) {}

  /// Codes the block in a tile of the chunk.
  __device__ __forceinline__ void encode(float (&value)[kBlock], const SegmentLayout& layout,
                                         std::uint32_t tile, const TileRange& tiles,
                                         const BlockNoises& noises, GroupScratch& scratch,
                                         NonFiniteGroups* nonfinite) const {
    const unsigned threads = layout.threads_per_group();
    const bool leads = threadIdx.x % threads == 0;
    const std::uint32_t largest = group_maximum(largest_magnitude(value), threads, scratch);
    if (tile >= tiles.whole && own_element() >= tiles.rest) return;
    std::uint32_t words[kCodeWords<Bits>];
    const float scale = encode_block<Bits>(
        words, value, largest, layout, [&] { return noises.in_tile(tile); },
        [&](float odd) {
          if (leads) count_sent_group(nonfinite, odd);
        });
    store_words(codes + std::size_t{tile} * layout.code_step(), words);
    if (!leads) return;
    const unsigned step = layout.scale == ScaleType::float32 ? 4 : 2;
    std::byte* const address = scales + std::size_t{tile} * layout.scale_step();
    if (layout.scale == ScaleType::float32) {
      *reinterpret_cast<std::uint32_t*>(address) = bits_of(scale);
    } else {
      *reinterpret_cast<std::uint16_t*>(address) = static_cast<std::uint16_t>(bits_of(scale) >> 16);
    }
    if (tile + 1 == tiles.all) {
      pad(layout, kept(address + step),
          kept((tile < tiles.whole ? static_cast<unsigned>(kTile) : tiles.rest) - own_element()));
    }
  }

 private:
  /// The zeros between a segment's last scale and its codes, by the thread that wrote the last scale: `left`
  /// elements of the chunk begin with its block.
  __device__ __forceinline__ void pad(const SegmentLayout& layout, std::byte* from, unsigned left) const {
    if (left > layout.threads_per_group() * kBlock) return;
    const std::byte* const end = codes - own_element() * Bits / 8;
#pragma unroll 1
    for (; from < end; from += 2) *reinterpret_cast<std::uint16_t*>(from) = 0;
  }
};

}  // namespace sdp4bit
