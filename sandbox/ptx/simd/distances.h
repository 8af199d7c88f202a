// Whether the values of all lanes lie at equal distances: value[l] == value[0] + l * step.
//
// In intrinsics, because GCC 12 compiles the obvious loops wrongly at -O3 for SSE2 and AVX2.
#pragma once

#include "sandbox/ptx/simd/lanes.h"

namespace sandbox::ptx::SIMD_NAMESPACE {
namespace {

#if defined(__AVX512F__)

LANE_INLINE bool equal_distances(const u64* value, u64 step) {
  const __m512i lane = _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7);
  const __m512i next = _mm512_set1_epi64(s64(8 * step));
  __m512i expected = _mm512_add_epi64(_mm512_set1_epi64(s64(value[0])),
                                      _mm512_mullo_epi64(lane, _mm512_set1_epi64(s64(step))));
  __m512i difference = _mm512_setzero_si512();
  for (int l = 0; l < kLanes; l += 8) {
    difference = _mm512_or_si512(difference, _mm512_xor_si512(expected, _mm512_load_si512(value + l)));
    expected = _mm512_add_epi64(expected, next);
  }
  return _mm512_test_epi64_mask(difference, difference) == 0;
}

LANE_INLINE bool equal_distances(const u32* value, u32 step) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i first = _mm512_add_epi32(_mm512_set1_epi32(s32(value[0])),
                                         _mm512_mullo_epi32(lane, _mm512_set1_epi32(s32(step))));
  const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(s32(16 * step)));
  const __m512i difference = _mm512_or_si512(_mm512_xor_si512(first, _mm512_load_si512(value)),
                                             _mm512_xor_si512(second, _mm512_load_si512(value + 16)));
  return _mm512_test_epi32_mask(difference, difference) == 0;
}

#elif defined(__AVX2__)

LANE_INLINE bool equal_distances(const u64* value, u64 step) {
  const __m256i next = _mm256_set1_epi64x(s64(4 * step));
  __m256i expected = _mm256_add_epi64(_mm256_set1_epi64x(s64(value[0])),
                                      _mm256_setr_epi64x(0, s64(step), s64(2 * step), s64(3 * step)));
  __m256i difference = _mm256_setzero_si256();
  for (int l = 0; l < kLanes; l += 4) {
    const __m256i found = _mm256_load_si256(reinterpret_cast<const __m256i*>(value + l));
    difference = _mm256_or_si256(difference, _mm256_xor_si256(expected, found));
    expected = _mm256_add_epi64(expected, next);
  }
  return _mm256_testz_si256(difference, difference) != 0;
}

LANE_INLINE bool equal_distances(const u32* value, u32 step) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  const __m256i next = _mm256_set1_epi32(s32(8 * step));
  __m256i expected = _mm256_add_epi32(_mm256_set1_epi32(s32(value[0])),
                                      _mm256_mullo_epi32(lane, _mm256_set1_epi32(s32(step))));
  __m256i difference = _mm256_setzero_si256();
  for (int l = 0; l < kLanes; l += 8) {
    const __m256i found = _mm256_load_si256(reinterpret_cast<const __m256i*>(value + l));
    difference = _mm256_or_si256(difference, _mm256_xor_si256(expected, found));
    expected = _mm256_add_epi32(expected, next);
  }
  return _mm256_testz_si256(difference, difference) != 0;
}

#else

LANE_INLINE bool is_zero(__m128i bits) {
  return _mm_movemask_epi8(_mm_cmpeq_epi8(bits, _mm_setzero_si128())) == 0xffff;
}

LANE_INLINE bool equal_distances(const u64* value, u64 step) {
  const __m128i next = _mm_set1_epi64x(s64(2 * step));
  __m128i expected = _mm_set_epi64x(s64(value[0] + step), s64(value[0]));
  __m128i difference = _mm_setzero_si128();
  for (int l = 0; l < kLanes; l += 2) {
    const __m128i found = _mm_load_si128(reinterpret_cast<const __m128i*>(value + l));
    difference = _mm_or_si128(difference, _mm_xor_si128(expected, found));
    expected = _mm_add_epi64(expected, next);
  }
  return is_zero(difference);
}

LANE_INLINE bool equal_distances(const u32* value, u32 step) {
  const u32 first = value[0];
  const __m128i next = _mm_set1_epi32(s32(4 * step));
  __m128i expected =
      _mm_setr_epi32(s32(first), s32(first + step), s32(first + 2 * step), s32(first + 3 * step));
  __m128i difference = _mm_setzero_si128();
  for (int l = 0; l < kLanes; l += 4) {
    const __m128i found = _mm_load_si128(reinterpret_cast<const __m128i*>(value + l));
    difference = _mm_or_si128(difference, _mm_xor_si128(expected, found));
    expected = _mm_add_epi32(expected, next);
  }
  return is_zero(difference);
}

#endif

}  // namespace
}  // namespace sandbox::ptx::SIMD_NAMESPACE
