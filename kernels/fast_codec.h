// The codings on a 32-element block, without divisions and conversions to integers: the bits of codec.h.
//
// A coding is a policy: the float whose bits hold a code, and what a code decodes to. Loops over blocks and
// words are written once, below; the lists at the end say which codings the kernels of gradients and of
// weights know. Host tests compare every policy with codec.h; the numbers they rely on:
//  - x / s, correctly rounded, is one product and two fused multiply-adds once 1 / s is known (Brisebarre,
//    Muller and Raina, IEEE Trans. Computers 53(8), 2004), as long as nothing underflows: very small and very
//    large groups are moved by a power of two first.
//  - Adding 1.5 * 2^n to a small number leaves its integer part, and as many bits of fraction as are wanted,
//    in the low bits of the sum.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/codec.h"
#include "kernels/host_device.h"
#include "kernels/index.h"
#include "kernels/random.h"
#include "kernels/wire_format.h"

namespace sdp4bit {

/// 32-bit words of a block's codes.
template <unsigned Bits>
inline constexpr unsigned kCodeWords = kBlock* Bits / 32;

/// In every field of a word: what turns two's complement into an offset from 2^(bits-1), and back.
template <unsigned Bits>
inline constexpr std::uint32_t kSignBits = Bits == 4 ? 0x88888888u : 0x80808080u;

/// Rounds to an integer, to even; the low bits of the sum are a code plus 8, or modulo 256.
template <unsigned Bits>
inline constexpr float kFieldRounder = Bits == 4 ? kRounder + 8.0f : kRounder;

/// A group's scale with its inverse, where neither is near an end of the exponent range.
struct MiddleScale {
  float scale;
  float inverse;
};

/// x / scale, correctly rounded.
SDP4BIT_HOST_DEVICE float divide(float x, const MiddleScale& by) {
  const float quotient = x * by.inverse;
  return fmaf(fmaf(-by.scale, quotient, x), by.inverse, quotient);
}

/// The code whose offset from 2^(bits-1) is given, as a float.
template <unsigned Bits>
SDP4BIT_HOST_DEVICE float code_as_float(std::uint32_t offset_code) {
  constexpr float zero = 8388608.0f + (1u << (Bits - 1));  // 2^23 and the offset
  return float_from_bits(offset_code | 0x4b000000u) - zero;
}

/// Where a policy's field holds a code. 4 bits: plus 8, in the lower half; or added to 192.0, in the half
/// that is a bfloat16, cut off or rounded. 8 bits: modulo 256, in the low byte.
enum class CodeAt { low_bits, low_half_of_192, high_half_of_192, rounded_high_half_of_192 };

/// One half of a word below the upper half of `above`.
SDP4BIT_HOST_DEVICE std::uint32_t half_below(std::uint32_t above, std::uint32_t word, unsigned half) {
#ifdef __CUDA_ARCH__
  return __byte_perm(word, above, half == 0 ? 0x7610 : 0x7632);
#else
  return (above & 0xffff0000u) | (half == 0 ? word & 0xffffu : word >> 16);
#endif
}

/// The bits of noise_base + u for an element whose noise is one half of `word`; for 8 bits the word has been
/// through noise_of_width.
template <unsigned Bits>
SDP4BIT_HOST_DEVICE float base_and_noise(std::uint32_t word, unsigned half) {
  constexpr std::uint32_t base = Bits == 4 ? 0x43400000u : 0x43c00000u;
  static_assert(std::bit_cast<float>(base) == noise_base(Bits));
  return float_from_bits(half_below(base, word, half));
}

/// Random bits of which each half of each noise_word is as wide as u: an odd sum of zeros is zero.
template <unsigned Bits>
SDP4BIT_HOST_DEVICE Philox4 noise_of_width(const Philox4& bits) {
  if constexpr (Bits == 4) return bits;
  constexpr std::uint32_t mask = 0x7fff7fffu;
  return {bits.x0 & mask, bits.x1 & mask, bits.x2 & mask, bits.x3 & mask};
}

// Policies. field() gets an element's noise as one half of a word; both are 0 where the coding draws none.

template <unsigned Bits>
struct NearestCoding {
  static constexpr Coding kCoding = Coding::nearest;
  static constexpr bool kSenderDraws = false, kReceiverDraws = false;
  static constexpr CodeAt kCodeAt = CodeAt::low_bits;

  SDP4BIT_HOST_DEVICE static std::uint32_t field(float value, const MiddleScale& by, std::uint32_t,
                                                 unsigned) {
    return bits_of(divide(value, by) + kFieldRounder<Bits>);
  }
  SDP4BIT_HOST_DEVICE static float decoded(std::uint32_t offset_code, float scale, std::uint32_t, unsigned) {
    return code_as_float<Bits>(offset_code) * scale;
  }
};

template <unsigned Bits>
struct StochasticCoding {
  static constexpr Coding kCoding = Coding::stochastic;
  static constexpr bool kSenderDraws = true, kReceiverDraws = false;
  static constexpr CodeAt kCodeAt = Bits == 4 ? CodeAt::high_half_of_192 : CodeAt::low_bits;

  SDP4BIT_HOST_DEVICE static std::uint32_t field(float value, const MiddleScale& by, std::uint32_t word,
                                                 unsigned half) {
    const float sum = fmaf(value, by.inverse, base_and_noise<Bits>(word, half));
    if constexpr (Bits == 4) return bits_of(sum);
#ifdef __CUDA_ARCH__
    return bits_of(__fadd_rd(sum, kRounder - noise_base(Bits)));
#else
    return bits_of(floorf(sum) + (kRounder - noise_base(Bits)));
#endif
  }
  SDP4BIT_HOST_DEVICE static float decoded(std::uint32_t offset_code, float scale, std::uint32_t, unsigned) {
    return NearestCoding<Bits>::decoded(offset_code, scale, 0, 0);
  }
};

template <unsigned Bits>
struct DitheredCoding {
  static constexpr Coding kCoding = Coding::dithered;
  static constexpr bool kSenderDraws = true, kReceiverDraws = true;
  static constexpr CodeAt kCodeAt = Bits == 4 ? CodeAt::rounded_high_half_of_192 : CodeAt::low_bits;

  SDP4BIT_HOST_DEVICE static std::uint32_t field(float value, const MiddleScale& by, std::uint32_t word,
                                                 unsigned half) {
    const float one_less =
        Bits == 4 ? float_from_bits(half_below(0x433f0000u, word, half)) : base_and_noise<Bits>(word, half);
    const float sum = fmaf(value, by.inverse, one_less);
    return Bits == 4 ? bits_of(sum) : bits_of(sum + (kRounder - noise_base(Bits) - 1.0f));
  }
  /// The field of ~code and u below it: -1 - code + u, so that its negative is the level.
  SDP4BIT_HOST_DEVICE static float decoded(std::uint32_t offset_code, float scale, std::uint32_t word,
                                           unsigned half) {
    constexpr std::uint32_t lowest = Bits == 4 ? 0x43000000u : 0x43800000u;  // a power of two
    constexpr unsigned fraction = Bits == 4 ? 16 : 15;
    constexpr float zero = (Bits == 4 ? 128.0f : 256.0f) + (1u << (Bits - 1));
    const std::uint32_t complement = offset_code ^ ((1u << Bits) - 1);
    const std::uint32_t field = half_below(lowest, word, half) | complement << fraction;
    return (zero - float_from_bits(field)) * scale;
  }
};

/// Values as compandable() leaves them.
template <unsigned Bits>
struct CompandedCoding {
  static constexpr Coding kCoding = Coding::companded;
  static constexpr bool kSenderDraws = false, kReceiverDraws = false;
  static constexpr CodeAt kCodeAt = CodeAt::low_half_of_192;

  SDP4BIT_HOST_DEVICE static std::uint32_t field(float value, const MiddleScale& by, std::uint32_t,
                                                 unsigned) {
    return compand(from_float<BFloat16>(value), compand_curve(by.inverse));
  }
  SDP4BIT_HOST_DEVICE static float decoded(std::uint32_t offset_code, float scale, std::uint32_t, unsigned) {
    return to_float(compand_level(offset_code)) * expanding_scale(scale);
  }
};

/// Brings a block whose group's scale is near an end of the exponent range to its middle; codes do not
/// change.
template <typename Policy, unsigned Bits>
SDP4BIT_HOST_DEVICE MiddleScale move_to_middle(float (&value)[kBlock], float scale) {
  const float factor = middle_factor(scale);
  if (factor != 1.0f) {
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kBlock; ++i) {
      value[i] = to_middle(value[i], scale, scale_steps(Policy::kCoding, Bits));
    }
    scale *= factor;
  }
  return {scale, 1.0f / scale};
}

/// The codes of two fields, each in its 16 bits above whatever is constant.
template <CodeAt At>
SDP4BIT_HOST_DEVICE std::uint32_t pack_halves(std::uint32_t low, std::uint32_t high) {
#ifdef __CUDA_ARCH__
  if constexpr (At == CodeAt::rounded_high_half_of_192) {
    std::uint32_t halves;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;"
        : "=r"(halves)
        : "f"(float_from_bits(high)), "f"(float_from_bits(low)));
    return halves;
  }
  return __byte_perm(low, high, At == CodeAt::high_half_of_192 ? 0x7632 : 0x5410);
#else
  if constexpr (At == CodeAt::rounded_high_half_of_192) {
    return from_float<BFloat16>(float_from_bits(low)).bits |
           std::uint32_t{from_float<BFloat16>(float_from_bits(high)).bits} << 16;
  }
  return At == CodeAt::high_half_of_192 ? low >> 16 | (high & 0xffff0000u) : (low & 0xffffu) | high << 16;
#endif
}

/// A word of 8 codes. Fields k and k + 4 share a pair of halves, so that three shifted sums do for all.
template <CodeAt At>
SDP4BIT_HOST_DEVICE std::uint32_t pack_fields(const std::uint32_t (&field)[8]) {
  std::uint32_t pair[4];
  SDP4BIT_UNROLL
  for (unsigned k = 0; k < 4; ++k) pair[k] = pack_halves<At>(field[k], field[k + 4]);
  const std::uint32_t sum = pair[0] + (pair[1] << 4) + ((pair[2] + (pair[3] << 4)) << 8);
  // 192.0 without the code's 8.
  constexpr std::uint32_t above = At == CodeAt::low_bits ? 0 : 0x4338;
  return (sum - above * 0x00010001u * 0x1111u) ^ kSignBits<4>;
}

/// A word of 4 codes.
template <CodeAt At>
SDP4BIT_HOST_DEVICE std::uint32_t pack_fields(const std::uint32_t (&field)[4]) {
  static_assert(At == CodeAt::low_bits);
#ifdef __CUDA_ARCH__
  return __byte_perm(__byte_perm(field[0], field[1], 0x0040), __byte_perm(field[2], field[3], 0x0040),
                     0x5410);
#else
  return (field[0] & 0xff) | (field[1] & 0xff) << 8 | (field[2] & 0xff) << 16 | field[3] << 24;
#endif
}

/// Codes a block; `value` is used up. Requires has_codes(scale). `noise()` gives the block's random bits.
template <typename Policy, unsigned Bits, typename Noise>
SDP4BIT_HOST_DEVICE void encode_block(std::uint32_t (&words)[kCodeWords<Bits>], float (&value)[kBlock],
                                      float scale, Noise&& noise) {
  const MiddleScale by = move_to_middle<Policy, Bits>(value, scale);
  constexpr unsigned per_word = 32 / Bits;
  Philox4 random{};
  if constexpr (Policy::kSenderDraws) random = noise_of_width<Bits>(noise());
  SDP4BIT_UNROLL
  for (unsigned begin = 0; begin < kBlock; begin += per_word) {
    std::uint32_t field[per_word];
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < per_word; ++i) {
      const unsigned element = begin + i;
      field[i] = Policy::field(value[element], by, noise_word(random, element / 2), element % 2);
    }
    words[begin / per_word] = pack_fields<Policy::kCodeAt>(field);
  }
}

/// sum[i] += decoded element i. Sums of companded codes are rounded to T.
template <typename Policy, unsigned Bits, typename T = float, typename Noise>
SDP4BIT_HOST_DEVICE void add_decoded_block(float (&sum)[kBlock],
                                           const std::uint32_t (&words)[kCodeWords<Bits>], float scale,
                                           Noise&& noise) {
  constexpr unsigned per_word = 32 / Bits;
  Philox4 random{};
  if constexpr (Policy::kReceiverDraws) random = noise_of_width<Bits>(noise());
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kBlock; ++i) {
    const std::uint32_t shifted = (words[i / per_word] ^ kSignBits<Bits>) >> (i % per_word * Bits);
    const std::uint32_t code = shifted & ((1u << Bits) - 1);
    if constexpr (Policy::kCoding == Coding::companded) {
      sum[i] = to_float(add_expanded(from_float<T>(sum[i]), compand_level(code), scale));
    } else {
      sum[i] += Policy::decoded(code, scale, noise_word(random, i / 2), i % 2);
    }
  }
}

/// The codings that a kernel knows. with() calls visit.operator()<Policy>() for the one that is meant.
template <template <unsigned> typename... Policies>
struct CodingList {
  static constexpr bool has(Coding coding) { return ((coding == Policies<4>::kCoding) || ...); }

  template <unsigned Bits, typename Visit>
  SDP4BIT_HOST_DEVICE static void with(Coding coding, Visit&& visit) {
    const auto visits = [&]<typename Policy>() {
      if constexpr (has_width(Policy::kCoding, Bits)) {
        if (coding == Policy::kCoding) {
          visit.template operator()<Policy>();
          return true;
        }
      }
      return false;
    };
    (void)(visits.template operator()<Policies<Bits>>() || ...);
  }
};
using GradientCodings = CodingList<NearestCoding, StochasticCoding, DitheredCoding>;
using WeightCodings = CodingList<NearestCoding, StochasticCoding, CompandedCoding>;

/// What the kernels of gradients and of weights can be asked for.
constexpr bool gradient_codec_is_valid(const Codec& codec) {
  return codec_is_valid(codec) && GradientCodings::has(codec.coding);
}
constexpr bool weight_codec_is_valid(const Codec& codec) {
  return codec_is_valid(codec) && WeightCodings::has(codec.coding);
}

}  // namespace sdp4bit
