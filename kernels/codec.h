// The group codec on single values: scale, encode, decode, pack. Plain functions, the same bits on host and
// device.
//
// With L = 2^(bits-1) - 1 and amax the largest magnitude of a group: scale = fp32(amax / L), t = fp32(x /
// scale) clamped to -L..L. Nearest: code = rint(t). Stochastic: t is rounded to 16 fractional bits and code =
// floor(t + u) with u uniform in 0, 2^-16, ... 1 - 2^-16, which is floor(t) + [1 - u <= t - floor(t)]: up
// with exactly the probability of t's fraction. Decoded = fp32(code * scale). A group of zeros, or whose
// scale underflows, has scale 0 and codes 0; one with a NaN or Inf has a NaN scale and codes 0, and decodes
// to NaN.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/element.h"
#include "kernels/host_device.h"
#include "kernels/wire_format.h"

namespace sdp4bit {

SDP4BIT_HOST_DEVICE constexpr int largest_code(std::uint32_t bits) {
  return (1 << (bits - 1)) - 1;
}

/// Magnitudes compare as integers, and there a NaN is larger than Inf, which is larger than any number: a
/// maximum of these bits cannot lose a NaN.
SDP4BIT_HOST_DEVICE std::uint32_t magnitude_bits(float value) {
  return bits_of(value) & 0x7fffffffu;
}

/// Smallest bfloat16 not below a positive finite number, as float: a largest magnitude must not clip.
SDP4BIT_HOST_DEVICE float round_up_to_bfloat16(float value) {
  return float_from_bits((bits_of(value) + 0xffffu) & 0xffff0000u);
}

/// The scale of a group as the receiver will read it, from the maximum of its magnitude_bits.
SDP4BIT_HOST_DEVICE float group_scale(std::uint32_t largest_magnitude, std::uint32_t bits, ScaleType type) {
  if (largest_magnitude >= 0x7f800000u)
    return float_from_bits(type == ScaleType::float32 ? kNanBits : 0x7fff0000u);
  const float scale = float_from_bits(largest_magnitude) / static_cast<float>(largest_code(bits));
  return type == ScaleType::float32 ? scale : round_up_to_bfloat16(scale);
}

/// False where all codes of the group are 0: the scale is zero or NaN.
SDP4BIT_HOST_DEVICE bool has_codes(float scale) {
  return scale > 0.0f;
}

/// t of the definition; only a subnormal scale, which may have been rounded down, lets it exceed L notably.
SDP4BIT_HOST_DEVICE float over_scale(float value, float scale, std::uint32_t bits) {
  const float largest = static_cast<float>(largest_code(bits));
  return fminf(fmaxf(value / scale, -largest), largest);
}

/// Requires has_codes(scale), as encode_stochastic does.
SDP4BIT_HOST_DEVICE int encode_nearest(float value, float scale, std::uint32_t bits) {
  return static_cast<int>(rintf(over_scale(value, scale, bits)));
}

SDP4BIT_HOST_DEVICE int encode_stochastic(float value, float scale, std::uint32_t noise16,
                                          std::uint32_t bits) {
  const int fixed = static_cast<int>(rintf(over_scale(value, scale, bits) * 65536.0f));
  return (fixed + static_cast<int>(noise16)) >> 16;
}

SDP4BIT_HOST_DEVICE float decode(int code, float scale) {
  return static_cast<float>(code) * scale;
}

/// Place of the code of element `i` in the 32-bit words of a group's codes: word i / codes_per_word(bits).
SDP4BIT_HOST_DEVICE constexpr std::uint32_t codes_per_word(std::uint32_t bits) {
  return 32 / bits;
}
SDP4BIT_HOST_DEVICE constexpr std::uint32_t pack_code(int code, std::uint32_t i, std::uint32_t bits) {
  return (static_cast<std::uint32_t>(code) & ((1u << bits) - 1)) << (i % codes_per_word(bits) * bits);
}
SDP4BIT_HOST_DEVICE constexpr int unpack_code(std::uint32_t word, std::uint32_t i, std::uint32_t bits) {
  const std::uint32_t left = word << (32 - bits - i % codes_per_word(bits) * bits);
  return static_cast<int>(left) >> (32 - bits);
}

}  // namespace sdp4bit
