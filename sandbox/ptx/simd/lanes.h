// Loops over the 32 lanes of a warp, written so that the compiler vectorizes them.
//
// Included only by files that are compiled once per instruction set. Everything is in an anonymous namespace
// inside that set's namespace: no function compiled for AVX-512 may be shared with the other builds by the
// linker.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "sandbox/ptx/ir.h"
#include "sandbox/ptx/warp.h"

#define LANE_INLINE inline __attribute__((always_inline))
#define LANE_LAMBDA __attribute__((always_inline))

namespace sandbox::ptx::SIMD_NAMESPACE {
namespace {

using u8 = std::uint8_t;
using s8 = std::int8_t;
using u16 = std::uint16_t;
using s16 = std::int16_t;
using u32 = std::uint32_t;
using s32 = std::int32_t;
using u64 = std::uint64_t;
using s64 = std::int64_t;
using f32 = float;
using f64 = double;

template <class T>
LANE_INLINE T* lanes(Warp& w, u32 offset) {
  return reinterpret_cast<T*>(__builtin_assume_aligned(w.regs + offset, 64));
}

/// d = mask ? r : d, for each lane.
template <class T>
LANE_INLINE void blend(T* d, const T* r, u32 mask) {
#pragma GCC ivdep
  for (int l = 0; l < kLanes; ++l) d[l] = (mask >> l & 1) ? r[l] : d[l];
}

LANE_INLINE u32& predicate(Warp& w, u32 offset) {
  return *reinterpret_cast<u32*>(w.regs + offset);
}

LANE_INLINE void set_predicate(Warp& w, u32 offset, u32 bits, u32 mask) {
  u32& p = predicate(w, offset);
  p = (p & ~mask) | (bits & mask);
}

template <class D, class A, class F>
LANE_INLINE const Instr* unary(Warp& w, const Instr* i, F f) {
  const u32 mask = guarded_lanes(w, i);
  D* d = lanes<D>(w, i->r[0]);
  const A* a = lanes<A>(w, i->r[1]);
  if (__builtin_expect(mask == kAllLanes, 1)) {
#pragma GCC ivdep
    for (int l = 0; l < kLanes; ++l) d[l] = f(a[l]);
  } else if (mask != 0) {
    alignas(64) D r[kLanes];
    for (int l = 0; l < kLanes; ++l) r[l] = f(a[l]);
    blend(d, r, mask);
  }
  return i + 1;
}

template <class D, class A, class B, class F>
LANE_INLINE const Instr* binary(Warp& w, const Instr* i, F f) {
  const u32 mask = guarded_lanes(w, i);
  D* d = lanes<D>(w, i->r[0]);
  const A* a = lanes<A>(w, i->r[1]);
  const B* b = lanes<B>(w, i->r[2]);
  if (__builtin_expect(mask == kAllLanes, 1)) {
#pragma GCC ivdep
    for (int l = 0; l < kLanes; ++l) d[l] = f(a[l], b[l]);
  } else if (mask != 0) {
    alignas(64) D r[kLanes];
    for (int l = 0; l < kLanes; ++l) r[l] = f(a[l], b[l]);
    blend(d, r, mask);
  }
  return i + 1;
}

template <class D, class A, class B, class C, class F>
LANE_INLINE const Instr* ternary(Warp& w, const Instr* i, F f) {
  const u32 mask = guarded_lanes(w, i);
  D* d = lanes<D>(w, i->r[0]);
  const A* a = lanes<A>(w, i->r[1]);
  const B* b = lanes<B>(w, i->r[2]);
  const C* c = lanes<C>(w, i->r[3]);
  if (__builtin_expect(mask == kAllLanes, 1)) {
#pragma GCC ivdep
    for (int l = 0; l < kLanes; ++l) d[l] = f(a[l], b[l], c[l]);
  } else if (mask != 0) {
    alignas(64) D r[kLanes];
    for (int l = 0; l < kLanes; ++l) r[l] = f(a[l], b[l], c[l]);
    blend(d, r, mask);
  }
  return i + 1;
}

template <class D, class A, class B, class C, class E, class F>
LANE_INLINE const Instr* quaternary(Warp& w, const Instr* i, F f) {
  const u32 mask = guarded_lanes(w, i);
  D* d = lanes<D>(w, i->r[0]);
  const A* a = lanes<A>(w, i->r[1]);
  const B* b = lanes<B>(w, i->r[2]);
  const C* c = lanes<C>(w, i->r[3]);
  const E* e = lanes<E>(w, i->r[4]);
  alignas(64) D r[kLanes];
  for (int l = 0; l < kLanes; ++l) r[l] = f(a[l], b[l], c[l], e[l]);
  if (mask == kAllLanes) {
    for (int l = 0; l < kLanes; ++l) d[l] = r[l];
  } else {
    blend(d, r, mask);
  }
  return i + 1;
}

/// The sign bit of each lane.
LANE_INLINE u32 sign_mask(const s32* t) {
#if defined(__AVX512DQ__)
  return static_cast<u32>(_mm512_movepi32_mask(_mm512_load_si512(t))) |
         static_cast<u32>(_mm512_movepi32_mask(_mm512_load_si512(t + 16))) << 16;
#elif defined(__AVX2__)
  u32 bits = 0;
  for (int k = 0; k < 4; ++k)
    bits |= static_cast<u32>(_mm256_movemask_ps(_mm256_load_ps(reinterpret_cast<const float*>(t) + 8 * k)))
            << (8 * k);
  return bits;
#else
  u32 bits = 0;
  for (int k = 0; k < 8; ++k)
    bits |= static_cast<u32>(_mm_movemask_ps(_mm_load_ps(reinterpret_cast<const float*>(t) + 4 * k)))
            << (4 * k);
  return bits;
#endif
}

/// Comparisons leave one bit a lane. The width of the intermediate lanes follows the operand's, which
/// vectorizes best.
template <class A, class F>
LANE_INLINE u32 compare_bits(const A* a, const A* b, F f) {
  alignas(64) s32 t[kLanes];
  if constexpr (sizeof(A) == 8) {
    alignas(64) s64 wide[kLanes];
    for (int l = 0; l < kLanes; ++l) wide[l] = f(a[l], b[l]) ? -1 : 0;
    for (int l = 0; l < kLanes; ++l) t[l] = static_cast<s32>(wide[l]);
  } else {
    for (int l = 0; l < kLanes; ++l) t[l] = f(a[l], b[l]) ? -1 : 0;
  }
  return sign_mask(t);
}

template <class A, class F>
LANE_INLINE const Instr* compare(Warp& w, const Instr* i, F f) {
  const u32 bits = compare_bits(lanes<A>(w, i->r[1]), lanes<A>(w, i->r[2]), f);
  set_predicate(w, i->r[0], bits, guarded_lanes(w, i));
  return i + 1;
}

template <class T>
LANE_INLINE const Instr* select(Warp& w, const Instr* i) {
  const u32 mask = guarded_lanes(w, i);
  const u32 choose = predicate(w, i->r[3]) ^ static_cast<u32>(i->imm);
  T* d = lanes<T>(w, i->r[0]);
  const T* a = lanes<T>(w, i->r[1]);
  const T* b = lanes<T>(w, i->r[2]);
  alignas(64) T r[kLanes];
  for (int l = 0; l < kLanes; ++l) r[l] = (choose >> l & 1) ? a[l] : b[l];
  if (mask == kAllLanes) {
    for (int l = 0; l < kLanes; ++l) d[l] = r[l];
  } else {
    blend(d, r, mask);
  }
  return i + 1;
}

}  // namespace
}  // namespace sandbox::ptx::SIMD_NAMESPACE
