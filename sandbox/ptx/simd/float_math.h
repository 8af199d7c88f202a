// Floating-point operations of PTX on single values: canonical NaNs, ordered zeros, narrow formats.
#pragma once

#include "sandbox/ptx/simd/lanes.h"

namespace sandbox::ptx::SIMD_NAMESPACE {
namespace {

struct f16;  // names of formats that are held in u16
struct bf16;

LANE_INLINE u32 bits_of(f32 a) {
  return __builtin_bit_cast(u32, a);
}
LANE_INLINE u64 bits_of(f64 a) {
  return __builtin_bit_cast(u64, a);
}
LANE_INLINE f32 from_bits(u32 a) {
  return __builtin_bit_cast(f32, a);
}
LANE_INLINE f64 from_bits(u64 a) {
  return __builtin_bit_cast(f64, a);
}

/// Single-precision results that are NaN are all the same NaN.
LANE_INLINE f32 canonical(f32 a) {
  return from_bits(a != a ? 0x7fffffffu : bits_of(a));
}
LANE_INLINE f64 canonical(f64 a) {
  return a;
}

LANE_INLINE f32 fused(f32 a, f32 b, f32 c) {
  return __builtin_fmaf(a, b, c);
}
LANE_INLINE f64 fused(f64 a, f64 b, f64 c) {
  return __builtin_fma(a, b, c);
}
LANE_INLINE f32 square_root(f32 a) {
  return __builtin_sqrtf(a);
}
LANE_INLINE f64 square_root(f64 a) {
  return __builtin_sqrt(a);
}

LANE_INLINE u32 sign_bits(f32 a) {
  return bits_of(a) & 0x80000000u;
}
LANE_INLINE f32 magnitude(f32 a) {
  return from_bits(bits_of(a) & 0x7fffffffu);
}
LANE_INLINE f32 with_sign(f32 a, u32 sign) {
  return a != a ? from_bits(0x7fffffffu) : from_bits(bits_of(a) | sign);
}

/// One NaN operand is ignored; -0 is smaller than +0. Both orders of a comparison agree but for zeros, whose
/// signs then decide, and for a NaN, which each order passes on from another side.
template <class T>
LANE_INLINE T minimum(T a, T b) {
  const T if_a_is_nan = a < b ? a : b, if_b_is_nan = b < a ? b : a;
  const T ordered = __builtin_bit_cast(T, bits_of(if_a_is_nan) | bits_of(if_b_is_nan));
  return canonical(a != a ? if_a_is_nan : b != b ? if_b_is_nan : ordered);
}
template <class T>
LANE_INLINE T maximum(T a, T b) {
  const T if_a_is_nan = a > b ? a : b, if_b_is_nan = b > a ? b : a;
  const T ordered = __builtin_bit_cast(T, bits_of(if_a_is_nan) & bits_of(if_b_is_nan));
  return canonical(a != a ? if_a_is_nan : b != b ? if_b_is_nan : ordered);
}

LANE_INLINE u64 upper_word(f64 a) {
  return a != a ? 0x7fffffff00000000ull : bits_of(a) & ~u64(0xffffffff);
}

template <class T>
LANE_INLINE f32 widen(u16 h);
template <>
LANE_INLINE f32 widen<bf16>(u16 h) {
  return from_bits(u32(h) << 16);
}
template <>
LANE_INLINE f32 widen<f16>(u16 h) {
  // Scaling by 2^112 moves the exponent and normalizes subnormals, exactly.
  const u32 magnitude_bits = u32(h & 0x7fff) << 13;
  const u32 scaled = bits_of(from_bits(magnitude_bits) * 0x1p112f);
  const u32 special = magnitude_bits | 0x7f800000u;
  return from_bits(((h & 0x7c00) == 0x7c00 ? special : scaled) | u32(h & 0x8000) << 16);
}

/// To the nearest, ties to even.
template <class T>
LANE_INLINE u16 rounded(f32 value);
template <>
LANE_INLINE u16 rounded<bf16>(f32 value) {
  const u32 x = bits_of(value);
  const u32 r = (x + 0x7fff + (x >> 16 & 1)) >> 16;
  return u16(value != value ? 0x7fff : r);
}
template <>
LANE_INLINE u16 rounded<f16>(f32 value) {
  const u32 sign = bits_of(value) & 0x80000000u;
  const u32 x = bits_of(value) ^ sign;
  const u32 normal = (x + 0xc8000fffu + (x >> 13 & 1)) >> 13;
  const u32 subnormal =
      bits_of(from_bits(x) + 0.5f) - 0x3f000000u;  // the addition rounds to multiples of 2^-24
  u32 r = x < 0x38800000u ? subnormal : normal;
  r = x >= 0x477ff000u ? 0x7c00u : r;
  return u16(x > 0x7f800000u ? 0x7fffu : r | sign >> 16);
}

template <class T>
LANE_INLINE f32 flush_half(f32 a) {
  const f32 smallest = __is_same(T, f16) ? 0x1p-14f : 0x1p-126f;
  return magnitude(a) < smallest ? from_bits(sign_bits(a)) : a;
}

/// The sum of two doubles rounded to odd: a later rounding to far fewer bits is then correct.
LANE_INLINE f64 add_odd(f64 a, f64 b) {
  const f64 sum = a + b;
  const f64 part = sum - a;
  const f64 error = (a - (sum - part)) + (b - part);
  const u64 bits = bits_of(sum);
  // Step toward the exact value where the sum's last bit is even and something was lost.
  const bool inexact = error != 0 && sum - sum == 0 && !(bits & 1);
  const bool away = (error > 0) == (sum > 0);
  return inexact ? from_bits(away ? bits + 1 : bits - 1) : sum;
}

/// Rounds a double once to `precision` bits with exponents [lowest, highest]; mode as in cvt's imm.
template <int precision, int lowest, int highest>
struct encode {
  f64 value;
  bool overflow;

  LANE_INLINE encode(f64 a, u32 mode) {
    const u64 bits = bits_of(a) & 0x7fffffffffffffffull;
    s32 exponent = s32(bits >> 52) - 1023;
    exponent = exponent < lowest ? lowest : exponent;
    const f64 unit = from_bits(u64(exponent - (precision - 1) + 1023) << 52);
    const f64 scaled = a / unit;  // exact: a power of two; at most `precision` bits before the point
    f64 whole = __builtin_trunc(scaled);
    const f64 rest = scaled - whole;
    const f64 one = a < 0 ? -1.0 : 1.0;
    const f64 half = rest * one;
    const f64 next = whole + one;
    const bool odd = whole * 0.5 != __builtin_trunc(whole * 0.5);
    const bool up = mode == 0   ? half > 0.5 || (half == 0.5 && odd)
                    : mode == 2 ? half > 0 && a < 0
                    : mode == 3 ? half > 0 && a > 0
                    : mode == 4 ? half >= 0.5
                                : false;
    whole = up ? next : whole;
    value = a - a != 0 ? a : whole == 0 ? a * 0.0 : whole * unit;
    const f64 largest =
        (2.0 - from_bits(u64(1 - precision + 1023) << 52)) * from_bits(u64(highest + 1023) << 52);
    const bool toward_zero = mode == 1 || (mode == 2 && a > 0) || (mode == 3 && a < 0);
    const bool large = (value < 0 ? -value : value) > largest && a - a == 0;
    value = large ? (toward_zero ? one * largest : one * __builtin_inf()) : value;
    overflow = large;
  }

  template <class T>
  LANE_INLINE u16 half() const {
    return rounded<T>(f32(value));  // exact
  }
};

template <class T>
LANE_INLINE u16 fused_half(f32 a, f32 b, f32 c);
template <>
LANE_INLINE u16 fused_half<f16>(f32 a, f32 b, f32 c) {
  return encode<11, -14, 15>(add_odd(f64(a) * f64(b), f64(c)), 0).template half<f16>();
}
template <>
LANE_INLINE u16 fused_half<bf16>(f32 a, f32 b, f32 c) {
  return encode<8, -126, 127>(add_odd(f64(a) * f64(b), f64(c)), 0).template half<bf16>();
}

/// The caller has rounded to an integer in the wanted direction, or wants truncation. NaN becomes 0
/// between single precision and 32 bits, the top bit alone where one side is wider.
template <class D>
LANE_INLINE D to_integer(f32 a) {
  constexpr bool is_signed = D(-1) < D(0);
  constexpr f32 above =
      is_signed ? (sizeof(D) == 4 ? 0x1p31f : 0x1p63f) : (sizeof(D) == 4 ? 0x1p32f : 0x1p64f);
  constexpr D largest = is_signed ? D(~(u64(1) << (8 * sizeof(D) - 1))) : D(-1);
  constexpr D smallest = is_signed ? D(u64(1) << (8 * sizeof(D) - 1)) : D(0);
  const bool fits = a < above && a > (is_signed ? -above : -1.0f);
  const D inside = is_signed || sizeof(D) == 4 ? D(s64(fits ? a : 0.0f)) : D(fits ? a : 0.0f);
  constexpr D nan = sizeof(D) == 8 ? D(u64(1) << 63) : D(0);
  return fits ? inside : a != a ? nan : a > 0 ? largest : smallest;
}
template <>
LANE_INLINE s32 to_integer<s32>(f32 a) {
  const bool fits = a < 0x1p31f && a >= -0x1p31f;
  const s32 inside = s32(fits ? a : 0.0f);
  return fits ? inside : a != a ? 0 : a > 0 ? 0x7fffffff : s32(0x80000000u);
}
template <class D>
LANE_INLINE D to_integer(f64 a) {
  constexpr bool is_signed = D(-1) < D(0);
  constexpr f64 above = is_signed ? (sizeof(D) == 4 ? 0x1p31 : 0x1p63) : (sizeof(D) == 4 ? 0x1p32 : 0x1p64);
  constexpr D largest = is_signed ? D(~(u64(1) << (8 * sizeof(D) - 1))) : D(-1);
  constexpr D smallest = is_signed ? D(u64(1) << (8 * sizeof(D) - 1)) : D(0);
  const bool fits = a < above && (is_signed ? a >= -above : a > -1.0);
  const D inside = is_signed || sizeof(D) == 4 ? D(s64(fits ? a : 0.0)) : D(fits ? a : 0.0);
  constexpr D nan = D(u64(1) << (8 * sizeof(D) - 1));
  return fits ? inside : a != a ? nan : a > 0 ? largest : smallest;
}

template <class T>
LANE_INLINE f64 odd_double(T a) {
  constexpr bool is_signed = T(-1) < T(0);
  const bool negative = is_signed && a < 0;
  u64 m = negative ? 0 - u64(a) : u64(a);
  // Keep 53 bits and fold what falls off into the last one.
  const int spare = m == 0 ? 0 : 11 - __builtin_clzll(m | 1);
  if (spare > 0) m = ((m >> spare) | ((m & ((u64(1) << spare) - 1)) != 0)) << spare;
  return negative ? -f64(m) : f64(m);
}

template <class T, class S>
LANE_INLINE s64 clamp_to(S a) {
  constexpr bool to_signed = T(-1) < T(0);
  constexpr u64 largest = to_signed ? (u64(1) << (8 * sizeof(T) - 1)) - 1 : u64(T(-1));
  if constexpr (S(-1) < S(0)) {
    constexpr s64 smallest = to_signed ? -s64(largest) - 1 : 0;
    if (a < smallest) return smallest;
    return a > 0 && u64(a) > largest ? s64(largest) : a;
  } else {
    return u64(a) > largest ? s64(largest) : s64(a);
  }
}

LANE_INLINE u32 tf32_of(f32 a, u32 mode) {
  if (a != a) return 0x7fffffffu;
  const u32 x = bits_of(a);
  if ((x & 0x7f800000u) == 0x7f800000u) return x;
  if (mode == 1) return x & ~0x1fffu;
  const u32 increment = mode == 4 ? 0x1000u : 0xfffu + (x >> 13 & 1);
  return (x + increment) & ~0x1fffu;
}

/// 8-bit floats: NaN is 0x7f; what is too large becomes the largest finite value (.satfinite).
LANE_INLINE u8 to_e4m3(f32 a) {
  if (a != a) return 0x7f;
  const u8 sign = u8(sign_bits(a) >> 24);
  const f32 m = magnitude(a);
  if (m >= 448.0f) return u8(sign | 0x7e);
  if (m < 0x1p-6f) return u8(sign | u8(__builtin_rintf(m * 0x1p9f)));  // subnormals; 8 is the smallest normal
  const u32 x = bits_of(m);
  const u32 r = (x + 0x7ffffu + (x >> 20 & 1)) >> 20;  // 3 bits of fraction
  const u32 code = r - ((127 - 7) << 3);
  return u8(sign | (code > 0x7e ? 0x7e : code));
}
LANE_INLINE u8 to_e5m2(f32 a) {
  if (a != a) return 0x7f;
  const u8 sign = u8(sign_bits(a) >> 24);
  const f32 m = magnitude(a);
  if (m >= 57344.0f) return u8(sign | 0x7b);
  if (m < 0x1p-14f) return u8(sign | u8(__builtin_rintf(m * 0x1p16f)));
  const u32 x = bits_of(m);
  const u32 r = (x + 0xfffffu + (x >> 21 & 1)) >> 21;
  const u32 code = r - ((127 - 15) << 2);
  return u8(sign | (code > 0x7b ? 0x7b : code));
}
LANE_INLINE u16 from_e4m3(u8 a) {
  const u32 m = a & 0x7f;
  if (m == 0x7f) return 0x7fff;
  const f32 value = m < 8 ? f32(m) * 0x1p-9f : from_bits((m << 20) + ((127u - 7) << 23));
  return u16(rounded<f16>(value) | u16(a & 0x80) << 8);
}
LANE_INLINE u16 from_e5m2(u8 a) {
  const u32 m = a & 0x7f;
  return u16((m > 0x7c ? 0x7fff : (a << 8)));
}

}  // namespace
}  // namespace sandbox::ptx::SIMD_NAMESPACE
