// Integer operations of PTX on single values.
#pragma once

#include "sandbox/ptx/simd/lanes.h"

namespace sandbox::ptx::SIMD_NAMESPACE {
namespace {

__extension__ using s128 = __int128;
__extension__ using u128 = unsigned __int128;

template <class T>
LANE_INLINE T multiply_high(T a, T b) {
  if constexpr (sizeof(T) == 8 && T(-1) < T(0))
    return T((s128(a) * b) >> 64);
  else if constexpr (sizeof(T) == 8)
    return T((u128(a) * b) >> 64);
  else
    return T((s64(a) * s64(b)) >> (8 * sizeof(T)));
}
template <>
LANE_INLINE u32 multiply_high<u32>(u32 a, u32 b) {
  return u32((u64(a) * b) >> 32);
}

/// Division by zero yields all ones, as on the device.
template <class T>
LANE_INLINE T divide(T a, T b) {
  if constexpr (sizeof(T) <= 4) {
    // Exact: a quotient of 32-bit integers never rounds up to the next integer in double precision.
    const double quotient = double(a) / double(b == 0 ? T(1) : b);
    return b == 0 ? T(-1) : T(s64(quotient));
  } else {
    if (b == 0) return T(-1);
    if constexpr (T(-1) < T(0))
      if (b == -1) return T(0 - u64(a));
    return a / b;
  }
}
template <class T>
LANE_INLINE T remainder_of(T a, T b) {
  if (b == 0) return a;
  if constexpr (T(-1) < T(0)) {
    if (b == -1) return 0;
  }
  return T(a % b);
}

LANE_INLINE s32 saturate_s32(s64 value) {
  return value > 0x7fffffff ? 0x7fffffff : value < -0x7fffffffLL - 1 ? s32(-0x7fffffff - 1) : s32(value);
}

LANE_INLINE u32 reverse_bits(u32 a) {
  a = (a >> 1 & 0x55555555u) | (a & 0x55555555u) << 1;
  a = (a >> 2 & 0x33333333u) | (a & 0x33333333u) << 2;
  a = (a >> 4 & 0x0f0f0f0fu) | (a & 0x0f0f0f0fu) << 4;
  return __builtin_bswap32(a);
}

LANE_INLINE u32 highest_bit(u32 a) {
  return a == 0 ? ~0u : 31u - u32(__builtin_clz(a));
}
LANE_INLINE u32 highest_bit(u64 a) {
  return a == 0 ? ~0u : 63u - u32(__builtin_clzll(a));
}

LANE_INLINE u64 extract_bits(u64 a, u32 position, u32 length) {
  const u64 shifted = position > 63 ? 0 : a >> position;
  return length > 63 ? shifted : shifted & ((u64(1) << length) - 1);
}

/// `top` is the index of the sign bit; bits beyond it repeat it (a is sign-extended).
LANE_INLINE s64 extract_signed(s64 a, u32 position, u32 length, u32 top) {
  if (length == 0) return 0;
  const u32 last = position + length - 1 < top ? position + length - 1 : top;
  const s64 sign = (a >> last & 1) ? -1 : 0;
  const u64 field = position > top ? u64(sign) : u64(a >> position);
  const u32 kept = position > last ? 0 : last - position + 1;
  const u64 mask = kept > 63 ? ~u64(0) : (u64(1) << kept) - 1;
  return s64((field & mask) | (u64(sign) & ~mask));
}

template <class T>
LANE_INLINE T insert_bits(T a, T b, u32 position, u32 length) {
  constexpr u32 width = 8 * sizeof(T);
  if (position >= width) return b;
  const T field = length >= width ? T(-1) : T((T(1) << length) - 1);
  const T mask = T(field << position);
  return T((b & ~mask) | (T(a << position) & mask));
}

LANE_INLINE u32 find_nth_set(u32 mask, u32 base, s32 offset) {
  if (offset == 0) return base < 32 && (mask >> base & 1) ? base : ~0u;
  s32 position = s32(base) - (offset > 0 ? 0 : 0);
  s32 wanted = offset > 0 ? offset : -offset;
  const s32 step = offset > 0 ? 1 : -1;
  for (; position >= 0 && position < 32; position += step) {
    if (mask >> position & 1) --wanted;
    if (wanted == 0) return u32(position);
  }
  return ~0u;
}

template <class A, class B>
LANE_INLINE u32 dot4(u32 a, u32 b, u32 c) {
  for (int k = 0; k < 4; ++k) c += u32(s32(A(a >> (8 * k))) * s32(B(b >> (8 * k))));
  return c;
}
template <class A, class B>
LANE_INLINE u32 dot2(u32 a, u32 b, u32 c) {
  for (int k = 0; k < 2; ++k) c += u32(s32(A(a >> (16 * k))) * s32(B(b >> (8 * k))));
  return c;
}

/// lop3: a tree of multiplexers over the eight bits of the table.
LANE_INLINE u32 look_up(u32 a, u32 b, u32 c, u32 table) {
  const auto bit = [table](int k) { return 0u - (table >> k & 1); };
  const u32 t0 = bit(0) ^ (c & (bit(0) ^ bit(1)));
  const u32 t1 = bit(2) ^ (c & (bit(2) ^ bit(3)));
  const u32 t2 = bit(4) ^ (c & (bit(4) ^ bit(5)));
  const u32 t3 = bit(6) ^ (c & (bit(6) ^ bit(7)));
  const u32 low = t0 ^ (b & (t0 ^ t1));
  const u32 high = t2 ^ (b & (t2 ^ t3));
  return low ^ (a & (low ^ high));
}

LANE_INLINE u32 permute_bytes(u32 a, u32 b, u32 selector) {
  const u64 bytes = u64(b) << 32 | a;
  u32 result = 0;
  for (int k = 0; k < 4; ++k) {
    const u32 choice = selector >> (4 * k);
    const u32 byte = u32(bytes >> (8 * (choice & 7))) & 255;
    const u32 sign = 0u - (byte >> 7);
    result |= ((choice & 8) ? sign & 255 : byte) << (8 * k);
  }
  return result;
}

/// The selector behind prmt's named modes: 1 f4e, 2 b4e, 3 rc8, 4 ecl, 5 ecr, 6 rc16.
LANE_INLINE u32 permute_selector(u32 mode, u32 c) {
  constexpr u16 table[7][4] = {{0, 0, 0, 0},
                               {0x3210, 0x4321, 0x5432, 0x6543},
                               {0x5670, 0x6701, 0x7012, 0x0123},
                               {0x0000, 0x1111, 0x2222, 0x3333},
                               {0x3210, 0x3211, 0x3222, 0x3333},
                               {0x0000, 0x1110, 0x2210, 0x3210},
                               {0x1010, 0x3232, 0x1010, 0x3232}};
  return table[mode][c];
}

LANE_INLINE u32 pairs(u16 low, u32 high) {
  return high << 16 | low;
}

}  // namespace
}  // namespace sandbox::ptx::SIMD_NAMESPACE
