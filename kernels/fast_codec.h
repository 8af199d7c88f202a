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
#include "kernels/instructions.h"
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

/// Code `i` of a word as a float.
template <unsigned Bits>
SDP4BIT_HOST_DEVICE float code_as_float(std::uint32_t codes, unsigned i) {
  constexpr std::uint32_t base = 0x4b000000u;  // 2^23
  constexpr float zero = std::bit_cast<float>(base) + (1u << (Bits - 1));
  codes ^= kSignBits<Bits>;
#ifdef __CUDA_ARCH__
  if constexpr (Bits == 8) return float_from_bits(__byte_perm(codes, base, 0x7540 + i)) - zero;
#endif
  return float_from_bits((codes >> i * Bits & ((1u << Bits) - 1)) | base) - zero;
}

/// Where a policy's field holds a code. 4 bits: plus 8, in the lower half; or added to 192.0, in the half
/// that is a bfloat16, cut off or rounded. 8 bits: modulo 256, in the low byte; or added to 1536.0, in the
/// low byte of what is left as a float of 16 bits, cut off or rounded.
enum class CodeAt {
  low_bits,
  low_half_of_192,
  high_half_of_192,
  rounded_high_half_of_192,
  half_of_1536,
  rounded_half_of_1536
};

/// One half of a word below the upper half of `above`.
SDP4BIT_HOST_DEVICE float half_below(std::uint32_t above, std::uint32_t word, unsigned half) {
#ifdef __CUDA_ARCH__
  return float_from_bits(__byte_perm(word, above, half == 0 ? 0x7610 : 0x7632));
#else
  return float_from_bits((above & 0xffff0000u) | (half == 0 ? word & 0xffffu : word >> 16));
#endif
}

/// One half of a word above one half of another.
SDP4BIT_HOST_DEVICE float half_above(std::uint32_t low, unsigned low_half, std::uint32_t high,
                                     unsigned high_half) {
#ifdef __CUDA_ARCH__
  return float_from_bits(
      __byte_perm(low, high, (high_half == 0 ? 0x5400 : 0x7600) | (low_half == 0 ? 0x10 : 0x32)));
#else
  return float_from_bits((low_half == 0 ? low & 0xffffu : low >> 16) |
                         (high_half == 0 ? high << 16 : high & 0xffff0000u));
#endif
}

/// How wide u is.
template <unsigned Bits>
inline constexpr unsigned kNoiseBits = Bits == 4 ? 16 : 13;

/// Random bits of which each half of each noise_word is u below the lower half of `above`: an odd sum of that
/// is that.
template <unsigned Bits>
SDP4BIT_HOST_DEVICE Philox4 noise_below(const Philox4& bits, std::uint32_t above) {
  if constexpr (Bits == 4) return bits;
  constexpr std::uint32_t mask = ((1u << kNoiseBits<Bits>)-1) * 0x10001u;
  const std::uint32_t both = (above & 0xffffu) * 0x10001u;
  return {(bits.x0 & mask) | both, (bits.x1 & mask) | both, (bits.x2 & mask) | both, (bits.x3 & mask) | both};
}

/// (a & mask) ^ flips, by one instruction: two constants of a device's instruction need a register.
SDP4BIT_HOST_DEVICE std::uint32_t masked_and_flipped(std::uint32_t a, std::uint32_t mask,
                                                     std::uint32_t flips) {
#ifdef __CUDA_ARCH__
  std::uint32_t result;
  asm("lop3.b32 %0, %1, %2, %3, 0x6a;" : "=r"(result) : "r"(a), "r"(mask), "r"(flips));
  return result;
#else
  return (a & mask) ^ flips;
#endif
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
  SDP4BIT_HOST_DEVICE static float level(std::uint32_t codes, unsigned i, std::uint32_t, unsigned) {
    return code_as_float<Bits>(codes, i);
  }
};

template <unsigned Bits>
struct StochasticCoding {
  static constexpr Coding kCoding = Coding::stochastic;
  static constexpr bool kSenderDraws = true, kReceiverDraws = false;
  static constexpr CodeAt kCodeAt = Bits == 4 ? CodeAt::high_half_of_192 : CodeAt::half_of_1536;
  static constexpr std::uint32_t kBase = Bits == 4 ? 0x43400000u : 0x44c00000u;
  static_assert(std::bit_cast<float>(kBase) == noise_base(Bits));

  SDP4BIT_HOST_DEVICE static std::uint32_t field(float value, const MiddleScale& by, std::uint32_t word,
                                                 unsigned half) {
    return bits_of(fmaf(value, by.inverse, half_below(kBase, word, half)));
  }
  SDP4BIT_HOST_DEVICE static float level(std::uint32_t codes, unsigned i, std::uint32_t, unsigned) {
    return code_as_float<Bits>(codes, i);
  }
};

template <unsigned Bits>
struct DitheredCoding {
  static constexpr Coding kCoding = Coding::dithered;
  static constexpr bool kSenderDraws = true, kReceiverDraws = true;
  static constexpr CodeAt kCodeAt =
      Bits == 4 ? CodeAt::rounded_high_half_of_192 : CodeAt::rounded_half_of_1536;
  static constexpr std::uint32_t kBase = Bits == 4 ? 0x433f0000u : 0x44bfe000u;
  static_assert(std::bit_cast<float>(kBase) == noise_base(Bits) - 1.0f);

  SDP4BIT_HOST_DEVICE static std::uint32_t field(float value, const MiddleScale& by, std::uint32_t word,
                                                 unsigned half) {
    return bits_of(fmaf(value, by.inverse, half_below(kBase, word, half)));
  }
  /// The float that holds ~code and below it u is, less its base, -1 - code + u: the negative of the level.
  SDP4BIT_HOST_DEVICE static float level(std::uint32_t codes, unsigned i, std::uint32_t word, unsigned half) {
    constexpr std::uint32_t lowest = Bits == 4 ? 0x43000000u : 0x44800000u;  // a power of two
    constexpr float zero = std::bit_cast<float>(lowest) + (1u << (Bits - 1));
    if constexpr (Bits == 4) {
      // Codes i and i + 4 stand in the halves of one word.
      const std::uint32_t pair =
          masked_and_flipped(codes >> i % 4 * 4, 0x000f000fu, (lowest >> 16 | 7u) * 0x00010001u);
      return zero - half_above(word, half, pair, i / 4);
    } else {
      const std::uint32_t complement = (codes >> i * 8 & 0xffu) ^ 0x7fu;
      return zero - float_from_bits(bits_of(half_below(lowest, word, half)) | complement << kNoiseBits<Bits>);
    }
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
  if constexpr (At == CodeAt::rounded_high_half_of_192)
    return instructions::to_bfloat16_pair(float_from_bits(low), float_from_bits(high));
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

/// Two floats as two of 16 bits, towards zero or to the nearest.
template <CodeAt At>
SDP4BIT_HOST_DEVICE std::uint32_t pack_floats(std::uint32_t low, std::uint32_t high) {
#ifdef __CUDA_ARCH__
  if constexpr (At == CodeAt::half_of_1536) {
    return instructions::to_float16_pair_towards_zero(float_from_bits(low), float_from_bits(high));
  } else {
    return instructions::to_float16_pair(float_from_bits(low), float_from_bits(high));
  }
#else
  const auto rounded = [](std::uint32_t bits) {
    const float value = float_from_bits(bits);
    return std::uint32_t{from_float<Float16>(At == CodeAt::half_of_1536 ? floorf(value) : value).bits};
  };
  return rounded(low) | rounded(high) << 16;
#endif
}

/// A word of 4 codes.
template <CodeAt At>
SDP4BIT_HOST_DEVICE std::uint32_t pack_fields(const std::uint32_t (&field)[4]) {
  std::uint32_t low = 0, high = 0;  // codes in bytes 0 and 2
  if constexpr (At != CodeAt::low_bits) {
    low = pack_floats<At>(field[0], field[1]);
    high = pack_floats<At>(field[2], field[3]);
  } else {
    low = pack_halves<At>(field[0], field[1]);
    high = pack_halves<At>(field[2], field[3]);
  }
#ifdef __CUDA_ARCH__
  return __byte_perm(low, high, 0x6420);
#else
  return (low & 0xff) | (low >> 8 & 0xff00) | (high & 0xff) << 16 | (high & 0xff0000) << 8;
#endif
}

/// Codes a block whose scale is in the middle of the exponent range. `noise()` gives the block's random bits.
template <typename Policy, unsigned Bits, typename Noise>
SDP4BIT_HOST_DEVICE void encode_middle_block(std::uint32_t (&words)[kCodeWords<Bits>],
                                             const float (&value)[kBlock], const MiddleScale& by,
                                             Noise&& noise) {
  constexpr unsigned per_word = 32 / Bits;
  Philox4 random{};
  if constexpr (Policy::kSenderDraws) random = noise_below<Bits>(noise(), Policy::kBase);
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

/// Codes a block; `value` is used up. Requires has_codes(scale).
template <typename Policy, unsigned Bits, typename Noise>
SDP4BIT_HOST_DEVICE void encode_block(std::uint32_t (&words)[kCodeWords<Bits>], float (&value)[kBlock],
                                      float scale, Noise&& noise) {
  const MiddleScale by = move_to_middle<Policy, Bits>(value, scale);
  encode_middle_block<Policy, Bits>(words, value, by, noise);
}

/// sum[i] += decoded element i; First: what was in it does not count. Sums of companded codes are rounded to
/// T. `ExactProducts`: the caller knows that codes times scale are (a bfloat16 scale), so that they need no
/// rounding of their own.
template <typename Policy, unsigned Bits, typename T = float, bool ExactProducts = false, bool First = false,
          typename Noise>
SDP4BIT_HOST_DEVICE void add_decoded_block(float (&sum)[kBlock],
                                           const std::uint32_t (&words)[kCodeWords<Bits>], float scale,
                                           Noise&& noise) {
  static_assert(!First || Policy::kCoding != Coding::companded, "companded codes are added to an entry");
  constexpr unsigned per_word = 32 / Bits;
  Philox4 random{};
  if constexpr (Policy::kReceiverDraws) random = noise_below<Bits>(noise(), 0);
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kBlock; ++i) {
    const std::uint32_t codes = words[i / per_word];
    if constexpr (Policy::kCoding == Coding::companded) {
      const std::uint32_t offset_code =
          (codes ^ kSignBits<Bits>) >> (i % per_word * Bits) & ((1u << Bits) - 1);
      sum[i] = to_float(add_expanded(from_float<T>(sum[i]), compand_level(offset_code), scale));
    } else {
      const float level = Policy::level(codes, i % per_word, noise_word(random, i / 2), i % 2);
      if constexpr (First) {
        sum[i] = level * scale;
      } else if constexpr (ExactProducts || Policy::kCoding == Coding::dithered) {
        sum[i] = fmaf(level, scale, sum[i]);
      } else {
        sum[i] += level * scale;
      }
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

/// True where decoding needs the sender's noise.
SDP4BIT_HOST_DEVICE constexpr bool receiver_draws(Coding coding) {
  return coding == DitheredCoding<4>::kCoding;
}

/// What the kernels of gradients and of weights can be asked for.
constexpr bool gradient_codec_is_valid(const Codec& codec) {
  return codec_is_valid(codec) && GradientCodings::has(codec.coding);
}
constexpr bool weight_codec_is_valid(const Codec& codec) {
  return codec_is_valid(codec) && WeightCodings::has(codec.coding);
}

}  // namespace sdp4bit
