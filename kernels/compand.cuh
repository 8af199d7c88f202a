// Companded codes of a thread's 32 elements, two an instruction: the bits of compand.h.
//
// Pairs are two bfloat16 in a word, the first in the low half. T is the type of the weights; of 16-bit types
// a word holds a pair.
#pragma once

#include <cstdint>

#include "kernels/codec.h"
#include "kernels/compand.h"
#include "kernels/fast_codec.h"
#include "kernels/instructions.h"
#include "kernels/memory.cuh"
#include "kernels/warp_tile.cuh"
#include "kernels/weight_header.h"

namespace sdp4bit {

inline constexpr unsigned kPairs = kBlock / 2;

__device__ __forceinline__ std::uint32_t multiply_add_pair(std::uint32_t a, std::uint32_t b,
                                                           std::uint32_t c) {
  return instructions::multiply_add_bfloat16_pair(a, b, c);
}
/// A NaN wins.
__device__ __forceinline__ std::uint32_t max_pair(std::uint32_t a, std::uint32_t b) {
  return instructions::max_or_nan_bfloat16_pair(a, b);
}
__device__ __forceinline__ std::uint32_t min_pair(std::uint32_t a, std::uint32_t b) {
  return instructions::min_or_nan_bfloat16_pair(a, b);
}
__device__ __forceinline__ std::uint32_t magnitude_pair(std::uint32_t a) {
  return a & 0x7fff7fffu;
}
__device__ __forceinline__ std::uint32_t make_pair(BFloat16 low, BFloat16 high) {
  return low.bits | std::uint32_t{high.bits} << 16;
}
__device__ __forceinline__ std::uint32_t make_pair(BFloat16 both) {
  return make_pair(both, both);
}

/// Element `i` of a thread's words, and its way back.
template <typename T>
__device__ __forceinline__ T get_element(const std::uint32_t (&words)[kBlockWords<T>], unsigned i) {
  if constexpr (sizeof(T) == 4) {
    return float_from_bits(words[i]);
  } else {
    return T{static_cast<std::uint16_t>(words[i / 2] >> (i % 2 * 16))};
  }
}
template <typename T>
__device__ __forceinline__ void set_element(std::uint32_t (&words)[kBlockWords<T>], unsigned i, T element) {
  if constexpr (sizeof(T) == 4) {
    words[i] = bits_of(element);
  } else {
    const std::uint32_t other = words[i / 2] & (i % 2 != 0 ? 0xffffu : 0xffff0000u);
    words[i / 2] = other | std::uint32_t{element.bits} << (i % 2 * 16);
  }
}

/// The largest and smallest numbers of pairs, which say what the largest magnitude is: of three numbers at
/// once on some GPUs, and without taking magnitudes one by one.
struct PairExtremes {
  std::uint32_t largest = 0, smallest = 0;

  __device__ __forceinline__ void add(std::uint32_t pair) {
    largest = max_pair(largest, pair);
    smallest = min_pair(smallest, pair);
  }
  [[nodiscard]] __device__ __forceinline__ std::uint32_t magnitudes() const {
    return max_pair(magnitude_pair(largest), magnitude_pair(smallest));
  }
};

/// The largest magnitudes of differences (low half) and weights (high half).
__device__ __forceinline__ std::uint32_t join_maxima(const PairExtremes& differences,
                                                     const PairExtremes& weights) {
  const std::uint32_t difference = differences.magnitudes(), weight = weights.magnitudes();
  return max_pair(__byte_perm(difference, weight, 0x5410), __byte_perm(difference, weight, 0x7632));
}
/// Differences between a thread's part of shard and entry; gives the largest magnitudes, joined. Where one of
/// them is not finite, nothing else is right: take_differences_carefully() has to be asked.
template <typename T>
__device__ __forceinline__ std::uint32_t take_differences(std::uint32_t (&difference)[kPairs],
                                                          const std::uint32_t (&shard)[kBlockWords<T>],
                                                          const std::uint32_t (&entry)[kBlockWords<T>]) {
  PairExtremes differences, all_weights;
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kPairs; ++i) {
    std::uint32_t weights;
    if constexpr (kElementType<T> == ElementType::bfloat16) {
      constexpr std::uint32_t minus_one = 0xbf80bf80u;
      weights = shard[i];
      difference[i] = multiply_add_pair(entry[i], minus_one, weights);
    } else {
      const float low = to_float(get_element<T>(shard, 2 * i));
      const float high = to_float(get_element<T>(shard, 2 * i + 1));
      weights = pair_from_floats<BFloat16>(low, high);
      difference[i] = pair_from_floats<BFloat16>(low - to_float(get_element<T>(entry, 2 * i)),
                                                 high - to_float(get_element<T>(entry, 2 * i + 1)));
    }
    differences.add(difference[i]);
    all_weights.add(weights);
  }
  return join_maxima(differences, all_weights);
}

/// Entries that are not finite read as zero.
template <typename T>
__device__ __forceinline__ void make_finite(std::uint32_t (&entry)[kBlockWords<T>]) {
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kBlock; ++i) {
    set_element<T>(entry, i, from_float<T>(finite_or_zero(to_float(get_element<T>(entry, i)))));
  }
}

/// Whatever the numbers are: they are rounded to finite ones where they are, and the entry is made finite.
template <typename T>
__device__ __forceinline__ std::uint32_t take_differences_carefully(
    std::uint32_t (&difference)[kPairs], const std::uint32_t (&shard)[kBlockWords<T>],
    std::uint32_t (&entry)[kBlockWords<T>]) {
  make_finite<T>(entry);
  std::uint32_t largest = 0, largest_weight = 0;
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kBlock; ++i) {
    const float weight = to_float(get_element<T>(shard, i));
    const std::uint32_t rounded = bits_of(compandable(weight - to_float(get_element<T>(entry, i))));
    difference[i / 2] = i % 2 == 0 ? rounded >> 16 : difference[i / 2] | rounded;
    largest = max(largest, rounded & 0x7fffffffu);
    largest_weight = max(largest_weight, magnitude_bits(compandable(weight)));
  }
  return largest_weight | largest >> 16;
}

/// The curve's coefficients, in both halves.
struct CurvePairs {
  std::uint32_t a, b, c;
};

/// 1 / scale, correctly rounded, of a scale in the middle of the exponents' range: an approximation within a
/// unit in the last place, and one step that mends it.
__device__ __forceinline__ float inverse_of_middle(float scale) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(scale));
  return fmaf(inverse, fmaf(-scale, inverse, 1.0f), inverse);
}

/// The curve of a group whose scale is given.
__device__ __forceinline__ CurvePairs curve_pairs(float scale) {
  const CompandCurve curve = compand_curve(inverse_of_middle(scale));
  return {make_pair(curve.a), make_pair(curve.b), make_pair(curve.c)};
}

/// False for zeros, NaN, infinities and scales near the ends of the exponents' range.
__device__ __forceinline__ bool is_middle(std::uint32_t scale_bits) {
  constexpr std::uint32_t least = (127u - 60) << 23, most = (127u + 60) << 23;  // as middle_factor
  return scale_bits - least <= most - least;
}

/// The curve of another scale: brings differences into the middle of the range; what has no codes becomes
/// zeros.
__device__ __forceinline__ CurvePairs move_to_middle(std::uint32_t (&difference)[kPairs], float scale) {
  const bool none = !has_codes(scale);
  const float factor = none ? 0.0f : middle_factor(scale);
  const std::uint32_t factors = make_pair(from_float<BFloat16>(factor));
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kPairs; ++i) {
    difference[i] = none ? 0u : multiply_add_pair(difference[i], factors, 0x80008000u);
  }
  return curve_pairs(none ? 1.0f : scale * factor);
}

/// kCompandRounder + code, twice.
__device__ __forceinline__ std::uint32_t compand_pair(std::uint32_t difference, const CurvePairs& curve) {
  constexpr std::uint32_t rounder = kCompandRounder | std::uint32_t{kCompandRounder} << 16;
  const std::uint32_t slope =
      multiply_add_pair(magnitude_pair(difference), curve.b, multiply_add_pair(difference, curve.c, curve.a));
  return multiply_add_pair(difference, slope, rounder);
}

/// What would be computed anew in every tile, because it seems cheap.
__device__ __forceinline__ std::uint32_t kept_in_register(std::uint32_t value) {
  asm("" : "+r"(value));
  return value;
}
template <typename T>
__device__ __forceinline__ T* kept_in_register(T* global) {
  asm("" : "+l"(global));
  __builtin_assume(__isGlobal(global));
  return global;
}

/// For each byte of codes the two levels, as a pair, in shared memory: a look-up is one instruction.
class SharedLevels {
 public:
  /// By all threads of a block, with 256 words of it. Level pairs are found by a byte of codes, or of codes
  /// + 8.
  __device__ __forceinline__ SharedLevels(std::uint32_t (&shared)[256], bool by_offset_codes)
      : address_(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))) {
    static_assert(kThreads == 256);
    constexpr std::uint32_t excess = 17u * kCompandRounder - 17u * 8;
    begin_ = kept_in_register(address_ - 4 * excess);
    word_excess_ = kept_in_register(address_ / 4 + address_ * (kSecond + kThird + kFourth));
    const std::uint32_t byte = threadIdx.x ^ (by_offset_codes ? 0u : 0x88u);
    shared[threadIdx.x] = make_pair(compand_level(byte % 16), compand_level(byte / 16));
    __syncthreads();
  }
  /// The address for what compand_pair() gives.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t address_of(std::uint32_t rounded_codes) const {
    std::uint32_t at;
    asm("dp2a.lo.u32.u32 %0, %1, %2, %3;" : "=r"(at) : "r"(rounded_codes), "r"(0x4004u), "r"(begin_));
    return at;
  }
  /// The word of codes whose four bytes have these addresses.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t word_of(const std::uint32_t (&at)[4]) const {
    const std::uint32_t upper = at[3] * kFourth + (at[2] * kThird + (at[1] * kSecond - word_excess_));
    return ((at[0] >> 2) + upper) ^ kSignBits<4>;
  }
  /// Of byte `i` of a word of codes.
  [[nodiscard]] __device__ __forceinline__ std::uint32_t of_byte(std::uint32_t word, unsigned i) const {
    std::uint32_t at;
    asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(at) : "r"(word), "r"(4u << (8 * i)), "r"(address_));
    return at_address(at);
  }
  [[nodiscard]] static __device__ __forceinline__ std::uint32_t at_address(std::uint32_t address) {
    std::uint32_t pair;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(pair) : "r"(address));
    return pair;
  }

 private:
  // An address is four times a byte: what brings the upper three bytes to their places.
  static constexpr std::uint32_t kSecond = 1u << 6, kThird = 1u << 14, kFourth = 1u << 22;
  std::uint32_t address_, begin_, word_excess_;
};

/// entry += level * scale.
template <typename T>
__device__ __forceinline__ void add_level_pair(std::uint32_t (&entry)[kBlockWords<T>], unsigned pair,
                                               std::uint32_t levels, std::uint32_t scales) {
  if constexpr (kElementType<T> == ElementType::bfloat16) {
    entry[pair] = multiply_add_pair(levels, scales, entry[pair]);
  } else {
    const float scale = float_from_bits(scales << 16);
    const BFloat16 low{static_cast<std::uint16_t>(levels)}, high{static_cast<std::uint16_t>(levels >> 16)};
    set_element<T>(entry, 2 * pair, add_expanded(get_element<T>(entry, 2 * pair), low, scale));
    set_element<T>(entry, 2 * pair + 1, add_expanded(get_element<T>(entry, 2 * pair + 1), high, scale));
  }
}

}  // namespace sdp4bit
