// How a thread codes and decodes its 32-element block, and how the threads of a group agree on its scale.
//
// Every function here is called by all threads of a thread block of kThreads, in the same order; a thread
// whose block lies beyond the segment's end takes part with zeros and writes nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/codec.h"
#include "kernels/fast_codec.h"
#include "kernels/index.h"
#include "kernels/memory.cuh"
#include "kernels/nonfinite.cuh"
#include "kernels/random.h"

namespace sdp4bit {

/// Shared memory of group_maximum.
struct GroupScratch {
  std::uint32_t warp_maximum[kThreads / 32];
};

/// The maximum over the `threads` (a power of two) neighbouring threads of a group. CUB's reductions fix the
/// width when they are compiled; a group's is a run-time value from one thread to all.
__device__ __forceinline__ std::uint32_t group_maximum(std::uint32_t value, unsigned threads,
                                                       GroupScratch& scratch) {
  for (unsigned distance = 1; distance < threads && distance < 32; distance *= 2) {
    value = max(value, __shfl_xor_sync(0xffffffffu, value, distance));
  }
  if (threads <= 32) return value;
  const unsigned warp = threadIdx.x / 32;
  const unsigned warps = threads / 32;
  __syncthreads();  // the scratch may still be read for the tile before
  if (threadIdx.x % 32 == 0) scratch.warp_maximum[warp] = value;
  __syncthreads();
  const unsigned first = warp / warps * warps;
  for (unsigned other = first; other < first + warps; ++other)
    value = max(value, scratch.warp_maximum[other]);
  return value;
}

__device__ __forceinline__ std::uint32_t block_magnitude(const float (&value)[kBlock]) {
  std::uint32_t largest = 0;
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kBlock; ++i) largest = max(largest, magnitude_bits(value[i]));
  return largest;
}

/// Rounds differences to what is coded in their place.
__device__ __forceinline__ void round_for_coding(float (&difference)[kBlock], Coding coding) {
  if (coding != Coding::companded) return;
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kBlock; ++i) difference[i] = compandable(difference[i]);
}

/// What keys the noise of a block.
struct BlockNoise {
  PhiloxKey key{};
  std::uint64_t draw = 0;
  MessageKind kind{};
  std::uint32_t segment = 0;
  std::uint64_t element = 0;  // of the segment, the chunk's offset included

  __device__ __forceinline__ Philox4 operator()() const {
    return sdp4bit::noise(key, draw, kind, segment, element);
  }
};

/// Codes a block; `value` is used up.
template <typename Codings, unsigned Bits>
__device__ __forceinline__ void encode_block(std::uint32_t (&words)[kCodeWords<Bits>], float (&value)[kBlock],
                                             float scale, Coding coding, const BlockNoise& noise) {
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kCodeWords<Bits>; ++i) words[i] = 0;
  if (!has_codes(scale)) return;
  Codings::template with<Bits>(
      coding, [&]<typename Policy>() { encode_block<Policy, Bits>(words, value, scale, noise); });
}

/// sum[i] += decoded element i; T is the type that sums are rounded to in the end.
template <typename Codings, unsigned Bits, typename T = float, bool ExactProducts = false, typename Noise>
__device__ __forceinline__ void add_decoded_block(float (&sum)[kBlock],
                                                  const std::uint32_t (&words)[kCodeWords<Bits>], float scale,
                                                  Coding coding, const Noise& noise) {
  // Stochastic codes decode as nearest ones do: one copy of that.
  Codings::template with<Bits>(
      coding == Coding::stochastic ? Coding::nearest : coding, [&]<typename Policy>() {
        if constexpr (Policy::kCoding != Coding::stochastic) {
          add_decoded_block<Policy, Bits, T, ExactProducts>(sum, words, scale, noise);
        }
      });
}

__device__ __forceinline__ float load_scale(const std::byte* segment, const SegmentLayout& layout,
                                            std::size_t element) {
  const void* address = segment + layout.scale_offset(element);
  if (layout.scale == ScaleType::float32) return *static_cast<const float*>(address);
  return to_float(*static_cast<const BFloat16*>(address));
}

/// Writes the scale of the group that holds `element`, and after a segment's last group the zeros up to its
/// codes.
__device__ __forceinline__ void store_scale(std::byte* segment, const SegmentLayout& layout,
                                            std::size_t element, bool is_last, float scale) {
  std::byte* address = segment + layout.scale_offset(element);
  if (layout.scale == ScaleType::float32) {
    *reinterpret_cast<std::uint32_t*>(address) = bits_of(scale);
  } else {
    *reinterpret_cast<std::uint16_t*>(address) = static_cast<std::uint16_t>(bits_of(scale) >> 16);
  }
  if (!is_last) return;
  const unsigned step = layout.scale == ScaleType::float32 ? 4 : 2;
  for (address += step; address < segment + layout.codes_offset; address += step) {
    if (step == 4) {
      *reinterpret_cast<std::uint32_t*>(address) = 0;
    } else {
      *reinterpret_cast<std::uint16_t*>(address) = 0;
    }
  }
}

}  // namespace sdp4bit
