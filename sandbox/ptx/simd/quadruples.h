// Four words a lane, as one 16-byte access moves them, to and from four registers: transposes in vectors.
#pragma once

#include "sandbox/ptx/simd/lanes.h"

namespace sandbox::ptx::SIMD_NAMESPACE {
namespace {

/// d[v][l] = memory[4 * l + v]
LANE_INLINE void split_quadruples(u32* const* d, const u32* memory) {
#if defined(__AVX512F__)
  const __m512i first = _mm512_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28, 1, 5, 9, 13, 17, 21, 25, 29);
  const __m512i last = _mm512_setr_epi32(2, 6, 10, 14, 18, 22, 26, 30, 3, 7, 11, 15, 19, 23, 27, 31);
  for (int half = 0; half < 2; ++half) {
    const u32* from = memory + 64 * half;
    const __m512i a = _mm512_loadu_si512(from), b = _mm512_loadu_si512(from + 16);
    const __m512i c = _mm512_loadu_si512(from + 32), e = _mm512_loadu_si512(from + 48);
    const __m512i low_xy = _mm512_permutex2var_epi32(a, first, b);
    const __m512i low_zw = _mm512_permutex2var_epi32(a, last, b);
    const __m512i high_xy = _mm512_permutex2var_epi32(c, first, e);
    const __m512i high_zw = _mm512_permutex2var_epi32(c, last, e);
    _mm512_store_si512(d[0] + 16 * half, _mm512_shuffle_i64x2(low_xy, high_xy, 0x44));
    _mm512_store_si512(d[1] + 16 * half, _mm512_shuffle_i64x2(low_xy, high_xy, 0xee));
    _mm512_store_si512(d[2] + 16 * half, _mm512_shuffle_i64x2(low_zw, high_zw, 0x44));
    _mm512_store_si512(d[3] + 16 * half, _mm512_shuffle_i64x2(low_zw, high_zw, 0xee));
  }
#else
  for (int l = 0; l < kLanes; l += 4) {
    const auto* from = reinterpret_cast<const __m128i*>(memory + 4 * l);
    const __m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
    const __m128i c = _mm_loadu_si128(from + 2), e = _mm_loadu_si128(from + 3);
    const __m128i xy_low = _mm_unpacklo_epi32(a, b), zw_low = _mm_unpackhi_epi32(a, b);
    const __m128i xy_high = _mm_unpacklo_epi32(c, e), zw_high = _mm_unpackhi_epi32(c, e);
    const auto store = [&](int v, __m128i value) {
      _mm_store_si128(reinterpret_cast<__m128i*>(d[v] + l), value);
    };
    store(0, _mm_unpacklo_epi64(xy_low, xy_high));
    store(1, _mm_unpackhi_epi64(xy_low, xy_high));
    store(2, _mm_unpacklo_epi64(zw_low, zw_high));
    store(3, _mm_unpackhi_epi64(zw_low, zw_high));
  }
#endif
}

/// memory[4 * l + v] = s[v][l]
LANE_INLINE void join_quadruples(u32* memory, const u32* const* s) {
#if defined(__AVX512F__)
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  const __m512i low_pairs = _mm512_setr_epi64(0, 8, 1, 9, 2, 10, 3, 11);
  const __m512i high_pairs = _mm512_setr_epi64(4, 12, 5, 13, 6, 14, 7, 15);
  for (int half = 0; half < 2; ++half) {
    u32* to = memory + 64 * half;
    const auto row = [&](int v) { return _mm512_load_si512(s[v] + 16 * half); };
    const __m512i x = row(0), y = row(1), z = row(2), t = row(3);
    const __m512i xy_low = _mm512_permutex2var_epi32(x, low, y);
    const __m512i xy_high = _mm512_permutex2var_epi32(x, high, y);
    const __m512i zt_low = _mm512_permutex2var_epi32(z, low, t);
    const __m512i zt_high = _mm512_permutex2var_epi32(z, high, t);
    _mm512_storeu_si512(to, _mm512_permutex2var_epi64(xy_low, low_pairs, zt_low));
    _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi64(xy_low, high_pairs, zt_low));
    _mm512_storeu_si512(to + 32, _mm512_permutex2var_epi64(xy_high, low_pairs, zt_high));
    _mm512_storeu_si512(to + 48, _mm512_permutex2var_epi64(xy_high, high_pairs, zt_high));
  }
#else
  for (int l = 0; l < kLanes; l += 4) {
    const auto row = [&](int v) { return _mm_load_si128(reinterpret_cast<const __m128i*>(s[v] + l)); };
    const __m128i x = row(0), y = row(1), z = row(2), t = row(3);
    const __m128i xy_low = _mm_unpacklo_epi32(x, y), xy_high = _mm_unpackhi_epi32(x, y);
    const __m128i zt_low = _mm_unpacklo_epi32(z, t), zt_high = _mm_unpackhi_epi32(z, t);
    auto* to = reinterpret_cast<__m128i*>(memory + 4 * l);
    _mm_storeu_si128(to, _mm_unpacklo_epi64(xy_low, zt_low));
    _mm_storeu_si128(to + 1, _mm_unpackhi_epi64(xy_low, zt_low));
    _mm_storeu_si128(to + 2, _mm_unpacklo_epi64(xy_high, zt_high));
    _mm_storeu_si128(to + 3, _mm_unpackhi_epi64(xy_high, zt_high));
  }
#endif
}

/// d[v][l] = word v of the 16 bytes at place(l)
template <class Place>
LANE_INLINE void split_rows(u32* const* d, Place place) {
#if defined(__AVX2__)
  for (u32 l = 0; l < kLanes; l += 8) {
    const auto row = [&](u32 k) LANE_LAMBDA {
      return _mm256_inserti128_si256(_mm256_castsi128_si256(_mm_loadu_si128(place(l + k))),
                                     _mm_loadu_si128(place(l + k + 4)), 1);
    };
    const __m256i a = row(0), b = row(1), c = row(2), e = row(3);
    const __m256i xy_low = _mm256_unpacklo_epi32(a, b), zw_low = _mm256_unpackhi_epi32(a, b);
    const __m256i xy_high = _mm256_unpacklo_epi32(c, e), zw_high = _mm256_unpackhi_epi32(c, e);
    const auto store = [&](int v, __m256i value)
                           LANE_LAMBDA { _mm256_store_si256(reinterpret_cast<__m256i*>(d[v] + l), value); };
    store(0, _mm256_unpacklo_epi64(xy_low, xy_high));
    store(1, _mm256_unpackhi_epi64(xy_low, xy_high));
    store(2, _mm256_unpacklo_epi64(zw_low, zw_high));
    store(3, _mm256_unpackhi_epi64(zw_low, zw_high));
  }
#else
  for (u32 l = 0; l < kLanes; l += 4) {
    const __m128i a = _mm_loadu_si128(place(l)), b = _mm_loadu_si128(place(l + 1));
    const __m128i c = _mm_loadu_si128(place(l + 2)), e = _mm_loadu_si128(place(l + 3));
    const __m128i xy_low = _mm_unpacklo_epi32(a, b), zw_low = _mm_unpackhi_epi32(a, b);
    const __m128i xy_high = _mm_unpacklo_epi32(c, e), zw_high = _mm_unpackhi_epi32(c, e);
    const auto store = [&](int v, __m128i value)
                           LANE_LAMBDA { _mm_store_si128(reinterpret_cast<__m128i*>(d[v] + l), value); };
    store(0, _mm_unpacklo_epi64(xy_low, xy_high));
    store(1, _mm_unpackhi_epi64(xy_low, xy_high));
    store(2, _mm_unpacklo_epi64(zw_low, zw_high));
    store(3, _mm_unpackhi_epi64(zw_low, zw_high));
  }
#endif
}

/// The 16 bytes at place(l) = s[0..3][l], in the order of the lanes.
template <class Place>
LANE_INLINE void join_rows(Place place, const u32* const* s) {
  for (u32 l = 0; l < kLanes; l += 4) {
    const auto row = [&](int v)
                         LANE_LAMBDA { return _mm_load_si128(reinterpret_cast<const __m128i*>(s[v] + l)); };
    const __m128i x = row(0), y = row(1), z = row(2), t = row(3);
    const __m128i xy_low = _mm_unpacklo_epi32(x, y), xy_high = _mm_unpackhi_epi32(x, y);
    const __m128i zt_low = _mm_unpacklo_epi32(z, t), zt_high = _mm_unpackhi_epi32(z, t);
    _mm_storeu_si128(place(l), _mm_unpacklo_epi64(xy_low, zt_low));
    _mm_storeu_si128(place(l + 1), _mm_unpackhi_epi64(xy_low, zt_low));
    _mm_storeu_si128(place(l + 2), _mm_unpacklo_epi64(xy_high, zt_high));
    _mm_storeu_si128(place(l + 3), _mm_unpackhi_epi64(xy_high, zt_high));
  }
}

}  // namespace
}  // namespace sandbox::ptx::SIMD_NAMESPACE
