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

/// The block that begins at `begin` of a segment's chunk; what lies beyond the segment is zero before the
/// transform.
template <typename T>
__device__ __forceinline__ void load_input(float (&value)[kBlock], const Segments& input,
                                           std::uint32_t segment, std::size_t begin, float factor,
                                           bool hadamard) {
  const unsigned size = block_size(begin, input.count);
  if (size == 0) {
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kBlock; ++i) value[i] = 0.0f;
    return;
  }
  const T* first =
      static_cast<const T*>(input.data) + element_index(segment, input.stride, input.offset, begin);
  load_block(value, first, size);
  if (factor != 1.0f) {
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kBlock; ++i) value[i] *= factor;
  }
  if (hadamard) hadamard32(value);
}

}  // namespace sdp4bit
