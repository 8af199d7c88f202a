// The codings on single values: scale, encode, decode, pack. Plain functions, the same bits on host and
// device.
//
// A group of numbers shares one scale: fp32(amax / steps), where amax is the largest magnitude; with bfloat16
// scales rounded up, so that the maximum never clips. A group of zeros, or whose scale underflows, has scale
// 0 and codes 0 and decodes to +0; one with a NaN or Inf has a NaN scale and codes 0, and decodes to NaN.
// Codes are integers of `bits` bits, L = 2^(bits-1) - 1:
//
//  nearest     steps = L. t = fp32(x / scale) clamped to -L..L; code = rint(t); decoded = fp32(code * scale).
//  stochastic  The same steps and decoding. t = x / scale is rounded to 16 fractional bits (8 bits: 13) and
//              code = floor(t + u), u uniform on these bits, which is floor(t) + [1 - u <= t - floor(t)]: up
//              with exactly the probability of t's fraction. These two are the paper's.
//  dithered    All 2^bits levels, steps = L + 1/2 (less a hair, so that no rounding passes the last level).
//              t and u as for stochastic; code = rint(t + u - 1). The receiver draws the same u: decoded =
//              (code + 1 - u) * scale, added to a sum by one rounding. The error is uniform and independent
//              of x (subtractive dither: Roberts 1962, Schuchman 1964).
//  companded   4 bits, nearest, for numbers that are denser near zero; compand.h. Only for what is offered
//              again, such as differences of weights.
//
// Stochastic, dithered and companded take fp32(1 / scale) as a factor; where it could leave the range of
// floats, they first move value and scale by a power of two (middle_factor). To a quotient's rounding that is
// a difference of a sixteenth of t's last bit at most: multiples of the scale keep their codes, and no
// maximum passes L.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/compand.h"
#include "kernels/element.h"
#include "kernels/host_device.h"
#include "kernels/wire_format.h"

namespace sdp4bit {

SDP4BIT_HOST_DEVICE constexpr int largest_code(std::uint32_t bits) {
  return (1 << (bits - 1)) - 1;
}

/// Adding it rounds a small float to an integer, to even; the sum's low bits are that integer.
inline constexpr float kRounder = 12582912.0f;  // 1.5 * 2^23
inline constexpr std::uint32_t kRounderBits = 0x4b400000u;

/// Magnitudes compare as integers, and there a NaN is larger than Inf, which is larger than any number: a
/// maximum of these bits cannot lose a NaN.
SDP4BIT_HOST_DEVICE std::uint32_t magnitude_bits(float value) {
  return bits_of(value) & 0x7fffffffu;
}

/// Smallest bfloat16 not below a positive finite number, as float: a largest magnitude must not clip. Above
/// the largest bfloat16 it is that: Inf is no scale.
SDP4BIT_HOST_DEVICE float round_up_to_bfloat16(float value) {
  const std::uint32_t rounded = (bits_of(value) + 0xffffu) & 0xffff0000u;
  return float_from_bits(rounded < 0x7f800000u ? rounded : 0x7f7f0000u);
}

/// Largest magnitude of a group over its scale.
SDP4BIT_HOST_DEVICE constexpr float scale_steps(Coding coding, std::uint32_t bits) {
  const auto largest = static_cast<float>(largest_code(bits));
  if (coding == Coding::dithered) return largest + 0.5f - 0x1p-10f;
  return coding == Coding::companded ? 1.0f : largest;
}

/// The scale of a group as the receiver will read it, from the maximum of its magnitude_bits.
SDP4BIT_HOST_DEVICE float group_scale(std::uint32_t largest_magnitude, float steps, ScaleType type) {
  if (largest_magnitude >= 0x7f800000u)
    return float_from_bits(type == ScaleType::float32 ? kNanBits : 0x7fff0000u);
  const float scale = float_from_bits(largest_magnitude) / steps;
  return type == ScaleType::float32 ? scale : round_up_to_bfloat16(scale);
}

/// What a largest magnitude needs for quick_scale: neither the scale nor what is done with it comes near an
/// end of the exponent range.
SDP4BIT_HOST_DEVICE bool is_middle_magnitude(std::uint32_t magnitude) {
  constexpr std::uint32_t least = 0x27000000u, beyond = 0x5d800000u;  // 2^-49, 2^60
  return magnitude - least < beyond - least;
}

/// group_scale for such a magnitude: the quotient by one product and two fused multiply-adds (fast_codec.h).
SDP4BIT_HOST_DEVICE float quick_scale(std::uint32_t magnitude, float steps, ScaleType type) {
  const float x = float_from_bits(magnitude), inverse = 1.0f / steps;
  const float quotient = x * inverse;
  const float scale = fmaf(fmaf(-steps, quotient, x), inverse, quotient);
  return type == ScaleType::float32 ? scale : float_from_bits((bits_of(scale) + 0xffffu) & 0xffff0000u);
}

/// 1 / x, correctly rounded, for x from 2^-100 to 2^100: the device's approximation after one step of
/// Newton's, as its own division does.
SDP4BIT_HOST_DEVICE float quick_inverse(float x) {
#ifdef __CUDA_ARCH__
  float approximate;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(approximate) : "f"(x));
  return fmaf(-fmaf(x, approximate, -1.0f), approximate, approximate);
#else
  return 1.0f / x;
#endif
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

/// Requires has_codes(scale), as all that encode do.
SDP4BIT_HOST_DEVICE int encode_nearest(float value, float scale, std::uint32_t bits) {
  return static_cast<int>(rintf(over_scale(value, scale, bits)));
}

SDP4BIT_HOST_DEVICE float decode(int code, float scale) {
  return static_cast<float>(code) * scale;
}

/// A power of two that brings a scale near an end of the exponent range to its middle, its values with it.
SDP4BIT_HOST_DEVICE float middle_factor(float scale) {
  return scale < 0x1p-60f ? 0x1p80f : scale > 0x1p60f ? 0x1p-70f : 1.0f;
}

/// The value that goes with scale * middle_factor(scale). A subnormal scale may have been rounded down, so
/// that values exceed its steps: they are clamped.
SDP4BIT_HOST_DEVICE float to_middle(float value, float scale, float steps) {
  const float factor = middle_factor(scale);
  const float limit = factor > 1.0f ? steps * (scale * factor) : 0x1.fffffep127f;
  return fminf(fmaxf(value * factor, -limit), limit);
}

/// Where a code gets its integer part and fraction from one sum: 1.5 * 2^n, whose unit in the last place is
/// that of u.
SDP4BIT_HOST_DEVICE constexpr float noise_base(std::uint32_t bits) {
  return bits == 4 ? 192.0f : 1536.0f;
}
/// u of a code: 16 bits, or the lower 13.
SDP4BIT_HOST_DEVICE float uniform(std::uint32_t noise16, std::uint32_t bits) {
  return bits == 4 ? static_cast<float>(noise16) * 0x1p-16f
                   : static_cast<float>(noise16 & 0x1fffu) * 0x1p-13f;
}

/// noise_base + t + u.
SDP4BIT_HOST_DEVICE float noisy_over_scale(float value, float scale, Coding coding, std::uint32_t noise16,
                                           std::uint32_t bits) {
  const float inverse = 1.0f / (scale * middle_factor(scale));
  const float moved = to_middle(value, scale, scale_steps(coding, bits));
  return fmaf(moved, inverse, noise_base(bits) + uniform(noise16, bits));
}

SDP4BIT_HOST_DEVICE int encode_stochastic(float value, float scale, std::uint32_t noise16,
                                          std::uint32_t bits) {
  return static_cast<int>(floorf(noisy_over_scale(value, scale, Coding::stochastic, noise16, bits)) -
                          noise_base(bits));
}

SDP4BIT_HOST_DEVICE int encode_dithered(float value, float scale, std::uint32_t noise16, std::uint32_t bits) {
  return static_cast<int>(rintf(noisy_over_scale(value, scale, Coding::dithered, noise16, bits) - 1.0f) -
                          noise_base(bits));
}

/// sum + decoded, rounded once.
SDP4BIT_HOST_DEVICE float add_dithered(float sum, int code, float scale, std::uint32_t noise16,
                                       std::uint32_t bits) {
  return fmaf(static_cast<float>(code + 1) - uniform(noise16, bits), scale, sum);
}

/// `value` is a difference as compandable() leaves it.
SDP4BIT_HOST_DEVICE int encode_companded(float value, float scale) {
  const CompandCurve curve = compand_curve(1.0f / (scale * middle_factor(scale)));
  const BFloat16 moved = from_float<BFloat16>(to_middle(value, scale, 1.0f));
  return static_cast<int>(compand(moved, curve)) - int{kCompandRounder};
}

SDP4BIT_HOST_DEVICE float decode_companded(int code, float scale) {
  return to_float(compand_level(static_cast<std::uint32_t>(code + 8))) * expanding_scale(scale);
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
