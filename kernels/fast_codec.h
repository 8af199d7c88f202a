// The codec of a 32-element block without divisions and, with 4 bits, without conversions: the bits of
// codec.h.
//
// Host tests compare it with codec.h; the numbers it relies on:
//  - x / s, correctly rounded, is one product and two fused multiply-adds once 1 / s is known (Brisebarre,
//  Muller and
//    Raina, IEEE Trans. Computers 53(8), 2004), as long as nothing underflows: very small and very large
//    groups are moved by a power of two first.
//  - Adding 1.5 * 2^23 rounds to an integer, which is then the low bits of the sum.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/codec.h"
#include "kernels/host_device.h"
#include "kernels/random.h"
#include "kernels/wire_format.h"

namespace sdp4bit {

/// 32-bit words of a block's codes.
template <unsigned Bits>
inline constexpr unsigned kCodeWords = kBlock* Bits / 32;

inline constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23
inline constexpr std::uint32_t kRounderBits = 0x4b400000u;

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

/// x / scale, correctly rounded, for scales that are far from the ends of the exponent range.
SDP4BIT_HOST_DEVICE float divide(float x, float scale, float inverse) {
  const float quotient = x * inverse;
  return fmaf(fmaf(-scale, quotient, x), inverse, quotient);
}

/// Brings a group whose scale is near an end of the exponent range to its middle; codes do not change. A
/// subnormal scale may have been rounded down, so that values exceed L scales: they are clamped.
template <unsigned Bits>
SDP4BIT_HOST_DEVICE float move_to_middle(float (&value)[kBlock], float scale) {
  if (scale < 0x1p-60f) {
    scale *= 0x1p80f;
    const float limit = static_cast<float>(largest_code(Bits)) * scale;
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kBlock; ++i) value[i] = fminf(fmaxf(value[i] * 0x1p80f, -limit), limit);
  } else if (scale > 0x1p60f) {
    scale *= 0x1p-70f;
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < kBlock; ++i) value[i] *= 0x1p-70f;
  }
  return scale;
}

/// The 32-bit words of 8 codes, noise 16 bits each, or of nearest codes. `t` is the value over the scale.
template <unsigned Bits>
SDP4BIT_HOST_DEVICE std::uint32_t nearest_field(float t) {
  return bits_of(t + kRounder);  // kRounderBits + code
}
template <unsigned Bits>
SDP4BIT_HOST_DEVICE std::uint32_t stochastic_field(float t, std::uint32_t noise16) {
  if constexpr (Bits == 4) {
    return (bits_of(fmaf(t, 65536.0f, kRounder)) + noise16) >> 16;  // (kRounderBits >> 16) + code
  } else {
#ifdef __CUDA_ARCH__
    const int fixed = __float2int_rn(t * 65536.0f);
#else
    const int fixed = static_cast<int>(rintf(t * 65536.0f));
#endif
    return static_cast<std::uint32_t>((fixed + static_cast<int>(noise16)) >> 16);  // code
  }
}

template <unsigned Bits>
SDP4BIT_HOST_DEVICE void encode_block_nearest(std::uint32_t (&words)[kCodeWords<Bits>],
                                              float (&value)[kBlock], float scale) {
  scale = move_to_middle<Bits>(value, scale);
  const float inverse = 1.0f / scale;
  constexpr unsigned per_word = 32 / Bits;
  constexpr std::uint32_t excess = in_every_field<Bits>(kRounderBits - (1u << (Bits - 1)));
  SDP4BIT_UNROLL
  for (unsigned w = 0; w < kCodeWords<Bits>; ++w) {
    std::uint32_t sum = 0u - excess;
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < per_word; ++i) {
      sum += nearest_field<Bits>(divide(value[w * per_word + i], scale, inverse)) << (i * Bits);
    }
    words[w] = sum ^ kSignBits<Bits>;
  }
}

/// `noise(first)` gives the random bits of the 8 elements that begin at `first` of the block.
template <unsigned Bits, typename Noise>
SDP4BIT_HOST_DEVICE void encode_block_stochastic(std::uint32_t (&words)[kCodeWords<Bits>],
                                                 float (&value)[kBlock], float scale, Noise&& noise) {
  scale = move_to_middle<Bits>(value, scale);
  const float inverse = 1.0f / scale;
  constexpr unsigned per_word = 32 / Bits;
  constexpr std::uint32_t offset = Bits == 4 ? kRounderBits >> 16 : 0;
  constexpr std::uint32_t excess = in_every_field<Bits>(offset - (1u << (Bits - 1)));
  SDP4BIT_UNROLL
  for (unsigned first = 0; first < kBlock; first += kElementsPerNoise) {
    const Philox4 random = noise(first);
    SDP4BIT_UNROLL
    for (unsigned begin = 0; begin < kElementsPerNoise; begin += per_word) {
      std::uint32_t sum = 0u - excess;
      SDP4BIT_UNROLL
      for (unsigned i = 0; i < per_word; ++i) {
        const float t = divide(value[first + begin + i], scale, inverse);
        sum += stochastic_field<Bits>(t, noise16(random, begin + i)) << (i * Bits);
      }
      words[(first + begin) / per_word] = sum ^ kSignBits<Bits>;
    }
  }
}

/// sum[i] += decoded element i.
template <unsigned Bits>
SDP4BIT_HOST_DEVICE void add_decoded_words(float (&sum)[kBlock],
                                           const std::uint32_t (&words)[kCodeWords<Bits>], float scale) {
  constexpr unsigned per_word = 32 / Bits;
  constexpr float zero = 8388608.0f + (1u << (Bits - 1));  // 2^23 and the offset of a code
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kBlock; ++i) {
    const std::uint32_t shifted = (words[i / per_word] ^ kSignBits<Bits>) >> (i % per_word * Bits);
    const float code = float_from_bits((shifted & ((1u << Bits) - 1)) | 0x4b000000u) - zero;
    sum[i] += code * scale;
  }
}

}  // namespace sdp4bit
