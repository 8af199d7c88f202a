// How a kernel sees the segments of an input: one block of one segment, scaled and transformed, in registers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/hadamard.h"
#include "kernels/index.h"
#include "kernels/launch.h"
#include "kernels/memory.cuh"

namespace sdp4bit {

/// What multiplies each element at entry (PreMulSum).
template <typename T>
__device__ __forceinline__ float entry_factor(const Segments& input) {
  return input.device_factor != nullptr ? load_element(static_cast<const T*>(input.device_factor))
                                        : input.factor;
}

/// A thread's blocks of one segment's chunk, one in each tile.
template <typename T>
struct InputSegment {
  const T* first;  // of the block in the first tile
  TileRange tiles;
  float factor;
  bool hadamard;
  bool aligned;  // to 16 bytes

  __device__ __forceinline__ InputSegment(const Segments& input, std::uint32_t segment, float entry_factor,
                                          bool transform)
      : first(kept(static_cast<const T*>(input.data) +
                   element_index(segment, input.stride, input.offset, threadIdx.x * kBlock))),
        tiles(input.count),
        factor(entry_factor),
        hadamard(transform),
        aligned(is_aligned(first, 16)) {}

  /// The block in a tile, scaled and transformed; what lies beyond the segment is zero before the transform.
  __device__ __forceinline__ void load(float (&value)[kBlock], std::uint32_t tile) const {
    std::uint32_t words[kBlockWords<T>];
    const T* const block = first + std::size_t{tile} * kTile;
    if (tile < tiles.whole && aligned) {
      load_words(words, block);
    } else {
      load_block_words(words, block, kept(tiles.block_size(tile, threadIdx.x * kBlock)));
    }
    words_to_floats<T>(value, words);
    if (factor != 1.0f) {
      SDP4BIT_UNROLL
      for (unsigned i = 0; i < kBlock; ++i) value[i] *= factor;
    }
    if (hadamard) hadamard32(value);
  }
};

}  // namespace sdp4bit
