// The codings on a 32-element block, without divisions and, with 4 bits, without conversions: the bits of
// codec.h.
//
// A coding is a policy: what a code adds to its word, and what it decodes to. Loops over blocks and words are
// written once, below; the lists at the end say which codings the kernels of gradients and of weights know.
// Host tests compare every policy with codec.h; the numbers they rely on:
//  - x / s, correctly rounded, is one product and two fused multiply-adds once 1 / s is known (Brisebarre,
//    Muller and Raina, IEEE Trans. Computers 53(8), 2004), as long as nothing underflows: very small and very
//    large groups are moved by a power of two first.
//  - Adding 1.5 * 2^n to a small number leaves its integer part, and as many bits of fraction as are wanted,
//  in
//    the low bits of the sum.
#pragma once

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

/// Sum of `value` shifted to every field of a word, modulo 2^32.
template <unsigned Bits>
constexpr std::uint32_t in_every_field(std::uint32_t value) {
  std::uint32_t sum = 0;
  for (std::uint32_t i = 0; i < 32 / Bits; ++i) sum += value << (i * Bits);
  return sum;
}

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

// Policies. field() returns kFieldOfZero + code, modulo 2^32; noise16 is 0 where the coding draws none.

template <unsigned Bits>
struct NearestCoding {
  static constexpr Coding kCoding = Coding::nearest;
  static constexpr bool kSenderDraws = false, kReceiverDraws = false;
  static constexpr std::uint32_t kFieldOfZero = kRounderBits;

  SDP4BIT_HOST_DEVICE static std::uint32_t field(float value, const MiddleScale& by, std::uint32_t) {
    return bits_of(divide(value, by) + kRounder);
  }
  SDP4BIT_HOST_DEVICE static float decoded(std::uint32_t offset_code, float scale, std::uint32_t) {
    return code_as_float<Bits>(offset_code) * scale;
  }
};

template <unsigned Bits>
struct StochasticCoding {
  static constexpr Coding kCoding = Coding::stochastic;
  static constexpr bool kSenderDraws = true, kReceiverDraws = false;
  static constexpr std::uint32_t kFieldOfZero = Bits == 4 ? kRounderBits >> 16 : 0;

  SDP4BIT_HOST_DEVICE static std::uint32_t field(float value, const MiddleScale& by, std::uint32_t noise16) {
    const float t = divide(value, by);
    if constexpr (Bits == 4) return (bits_of(fmaf(t, 65536.0f, kRounder)) + noise16) >> 16;
#ifdef __CUDA_ARCH__
    const int fixed = __float2int_rn(t * 65536.0f);
#else
    const int fixed = static_cast<int>(rintf(t * 65536.0f));
#endif
    return static_cast<std::uint32_t>((fixed + static_cast<int>(noise16)) >> 16);
  }
  SDP4BIT_HOST_DEVICE static float decoded(std::uint32_t offset_code, float scale, std::uint32_t) {
    return NearestCoding<Bits>::decoded(offset_code, scale, 0);
  }
};

template <unsigned Bits>
struct DitheredCoding {
  static constexpr Coding kCoding = Coding::dithered;
  static constexpr bool kSenderDraws = true, kReceiverDraws = true;
  static constexpr unsigned kFraction = Bits == 4 ? 16 : 15;                           // bits of u
  static constexpr std::uint32_t kBaseBits = Bits == 4 ? 0x43400000u : 0x43c00000u;    // dither_base
  static constexpr std::uint32_t kLowestBits = Bits == 4 ? 0x43000000u : 0x43800000u;  // its power of two
  static constexpr std::uint32_t kFieldOfZero = kBaseBits >> kFraction;

  SDP4BIT_HOST_DEVICE static std::uint32_t unit_noise(std::uint32_t noise16) {
    return Bits == 4 ? noise16 : noise16 >> 1;
  }
  SDP4BIT_HOST_DEVICE static std::uint32_t field(float value, const MiddleScale& by, std::uint32_t noise16) {
    constexpr std::uint32_t half_below = kBaseBits - (1u << (kFraction - 1));
    return bits_of(fmaf(value, by.inverse, float_from_bits(half_below + unit_noise(noise16)))) >> kFraction;
  }
  /// 1 - unit - u is the complement of u's bits: code and fraction stand in one float.
  SDP4BIT_HOST_DEVICE static float decoded(std::uint32_t offset_code, float scale, std::uint32_t noise16) {
    constexpr std::uint32_t ones = (1u << kFraction) - 1;
    constexpr float half_unit = Bits == 4 ? 0x1p-17f : 0x1p-16f;
    const std::uint32_t level = kLowestBits | offset_code << kFraction | (unit_noise(noise16) ^ ones);
    const float zero = float_from_bits(kLowestBits) + static_cast<float>(1u << (Bits - 1));
    return fmaf(float_from_bits(level) - zero, scale, half_unit * scale);
  }
};

/// Values as compandable() leaves them.
template <unsigned Bits>
struct CompandedCoding {
  static constexpr Coding kCoding = Coding::companded;
  static constexpr bool kSenderDraws = false, kReceiverDraws = false;
  static constexpr std::uint32_t kFieldOfZero = kCompandRounder;

  SDP4BIT_HOST_DEVICE static std::uint32_t field(float value, const MiddleScale& by, std::uint32_t) {
    return compand(from_float<BFloat16>(value), compand_curve(by.inverse));
  }
  SDP4BIT_HOST_DEVICE static float decoded(std::uint32_t offset_code, float scale, std::uint32_t) {
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

/// Codes a block; `value` is used up. Requires has_codes(scale). `noise(first)` gives the random bits of the
/// 8 elements that begin at `first` of the block.
template <typename Policy, unsigned Bits, typename Noise>
SDP4BIT_HOST_DEVICE void encode_block(std::uint32_t (&words)[kCodeWords<Bits>], float (&value)[kBlock],
                                      float scale, Noise&& noise) {
  const MiddleScale by = move_to_middle<Policy, Bits>(value, scale);
  constexpr unsigned per_word = 32 / Bits;
  constexpr std::uint32_t excess = in_every_field<Bits>(Policy::kFieldOfZero - (1u << (Bits - 1)));
  SDP4BIT_UNROLL
  for (unsigned first = 0; first < kBlock; first += kElementsPerNoise) {
    Philox4 random{};
    if constexpr (Policy::kSenderDraws) random = noise(first);
    SDP4BIT_UNROLL
    for (unsigned begin = 0; begin < kElementsPerNoise; begin += per_word) {
      std::uint32_t sum = 0u - excess;
      SDP4BIT_UNROLL
      for (unsigned i = 0; i < per_word; ++i) {
        sum += Policy::field(value[first + begin + i], by, noise16(random, begin + i)) << (i * Bits);
      }
      words[(first + begin) / per_word] = sum ^ kSignBits<Bits>;
    }
  }
}

/// sum[i] += decoded element i. Sums of companded codes are rounded to T.
template <typename Policy, unsigned Bits, typename T = float, typename Noise>
SDP4BIT_HOST_DEVICE void add_decoded_block(float (&sum)[kBlock],
                                           const std::uint32_t (&words)[kCodeWords<Bits>], float scale,
                                           Noise&& noise) {
  constexpr unsigned per_word = 32 / Bits;
  SDP4BIT_UNROLL
  for (unsigned first = 0; first < kBlock; first += kElementsPerNoise) {
    Philox4 random{};
    if constexpr (Policy::kReceiverDraws) random = noise(first);
    SDP4BIT_UNROLL
    for (unsigned i = first; i < first + kElementsPerNoise; ++i) {
      const std::uint32_t shifted = (words[i / per_word] ^ kSignBits<Bits>) >> (i % per_word * Bits);
      const std::uint32_t code = shifted & ((1u << Bits) - 1);
      if constexpr (Policy::kCoding == Coding::companded) {
        sum[i] = to_float(add_expanded(from_float<T>(sum[i]), compand_level(code), scale));
      } else {
        sum[i] += Policy::decoded(code, scale, noise16(random, i - first));
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

/// What the kernels of gradients and of weights can be asked for.
constexpr bool gradient_codec_is_valid(const Codec& codec) {
  return codec_is_valid(codec) && GradientCodings::has(codec.coding);
}
constexpr bool weight_codec_is_valid(const Codec& codec) {
  return codec_is_valid(codec) && WeightCodings::has(codec.coding);
}

}  // namespace sdp4bit
