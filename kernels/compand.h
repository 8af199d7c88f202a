// Companded codes: 16 levels that are denser near zero, for differences of weights.
//
// All arithmetic is that of bfloat16, because the numbers are short-lived: what rounding loses is a
// thousandth of what 4 bits lose, and is offered again with the next difference. A difference d is rounded to
// bfloat16, and its group's scale s is the largest |d|, exactly. With t = d / s the code is
//
//   rint(t * (14.65 - 7 |t| - 0.75 t))      -8 to 7: 0.75 gives the larger half to the negative side
//
// computed as d * (|d| * B + (d * C + A)) + 192, each step a multiply-add rounded once, with A = 14.65 / s,
// B = -7 / s^2 and C = -0.75 / s^2: the low bits of the sum are the code. It decodes to s * level, where the
// levels are the means of what each code stands for, taken over recorded differences and a Gaussian, groups
// of 1024. The outermost lie inside the range. The sum of decoded difference and ledger entry is rounded to
// the buffer's type; to bfloat16, once.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/bfloat16.h"
#include "kernels/element.h"
#include "kernels/host_device.h"

namespace sdp4bit {

/// Adding it to a small bfloat16 leaves its nearest integer, to even, in the low bits.
inline constexpr std::uint16_t kCompandRounder = 0x4340;  // 192

/// The curve's coefficients for one scale, given its inverse; scales stand in the middle of the exponents'
/// range (middle_factor), so that no square leaves it.
struct CompandCurve {
  BFloat16 a, b, c;
};
SDP4BIT_HOST_DEVICE CompandCurve compand_curve(float inverse) {
  const float square = inverse * inverse;
  return {from_float<BFloat16>(14.65f * inverse), from_float<BFloat16>(-7.0f * square),
          from_float<BFloat16>(-0.75f * square)};
}

/// kCompandRounder + code, for a difference and the curve of its group.
SDP4BIT_HOST_DEVICE std::uint16_t compand(BFloat16 difference, const CompandCurve& curve) {
  const BFloat16 slope =
      multiply_add(magnitude(difference), curve.b, multiply_add(difference, curve.c, curve.a));
  return multiply_add(difference, slope, {kCompandRounder}).bits;
}

/// Levels of the codes -8 to 7, in 1/128 of the scale: 8 bits each, so bfloat16 holds them.
inline constexpr std::array<float, 16> kCompandLevels{-108.5f, -84.5f,   -67.0f, -52.75f, -40.25f, -28.875f,
                                                      -18.5f,  -8.8125f, 0.0f,   8.9375f, 18.75f,  29.75f,
                                                      42.25f,  56.75f,   76.0f,  104.0f};

/// Four of them as bfloat16, the first in the lowest bits: registers can be indexed by shifts only.
consteval std::uint64_t four_compand_levels(unsigned first) {
  std::uint64_t four = 0;
  for (unsigned i = 0; i < 4; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(kCompandLevels[first + i] / 128);
    if ((bits & 0xffffu) != 0) throw "a level is no bfloat16";
    four |= std::uint64_t{bits >> 16} << (16 * i);
  }
  return four;
}

/// The level of code + 8.
SDP4BIT_HOST_DEVICE BFloat16 compand_level(std::uint32_t offset_code) {
  constexpr std::uint64_t levels[4] = {four_compand_levels(0), four_compand_levels(4), four_compand_levels(8),
                                       four_compand_levels(12)};
  const std::uint64_t low = offset_code < 4 ? levels[0] : levels[1];
  const std::uint64_t high = offset_code < 12 ? levels[2] : levels[3];
  return {static_cast<std::uint16_t>((offset_code < 8 ? low : high) >> (16 * (offset_code % 4)))};
}

/// What is coded in place of a difference; a finite one stays finite.
SDP4BIT_HOST_DEVICE float compandable(float difference) {
  const std::uint32_t rounded = std::uint32_t{from_float<BFloat16>(difference).bits} << 16;
  const bool overflows = rounded << 1 == 0xff000000u && bits_of(difference) << 1 != 0xff000000u;
  return float_from_bits(overflows ? rounded - 0x10000u : rounded);
}

/// The scale of companded codes, as decoding sees it: only a damaged one is no bfloat16.
SDP4BIT_HOST_DEVICE float expanding_scale(float scale) {
  return to_float(from_float<BFloat16>(scale));
}

/// entry + decoded, rounded to T. level * scale is exact in fp32.
template <typename T>
SDP4BIT_HOST_DEVICE T add_expanded(T entry, BFloat16 level, float scale) {
  return from_float<T>(fmaf(to_float(level), expanding_scale(scale), to_float(entry)));
}
template <>
SDP4BIT_HOST_DEVICE BFloat16 add_expanded(BFloat16 entry, BFloat16 level, float scale) {
  return multiply_add(level, from_float<BFloat16>(scale), entry);
}

}  // namespace sdp4bit
