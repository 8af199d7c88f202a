// Instructions that GPUs have from compute capability 8.0 on, and the same bits on older ones (7.0 and 7.5).
//
// For code that both host and device compile: the host has plain C++ for each of these.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

#ifdef __CUDACC__

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 700
#error "sdp4bit needs compute capability 7.0 or later: set CMAKE_CUDA_ARCHITECTURES to 70 or more"
#endif
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 800  // undefined: nvcc reads this for the host
#define SDP4BIT_HAS_SM80 1
#else
#define SDP4BIT_HAS_SM80 0
#endif

namespace sdp4bit::instructions {

/// Two numbers of 16 bits in a word.
__device__ __forceinline__ std::uint32_t join(std::uint32_t low, std::uint32_t high) {
  return __byte_perm(low, high, 0x5410);
}

/// The upper halves of two floats in a word.
__device__ __forceinline__ std::uint32_t join_upper(float low, float high) {
  return __byte_perm(__float_as_uint(low), __float_as_uint(high), 0x7632);
}

/// The halves of a word, as bfloat16, in floats.
__device__ __forceinline__ float low_half(std::uint32_t pair) {
  return __uint_as_float(pair << 16);
}
__device__ __forceinline__ float high_half(std::uint32_t pair) {
  return __uint_as_float(pair & 0xffff0000u);
}

/// The nearest bfloat16, ties to even.
__device__ __forceinline__ std::uint16_t to_bfloat16(float value) {
#if SDP4BIT_HAS_SM80
  std::uint16_t result;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(result) : "f"(value));
  return result;
#else
  const std::uint32_t bits = __float_as_uint(value);
  return static_cast<std::uint16_t>(value != value ? 0x7fffu : (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}
__device__ __forceinline__ std::uint32_t to_bfloat16_pair(float low, float high) {
#if SDP4BIT_HAS_SM80
  std::uint32_t result;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
#else
  return join(to_bfloat16(low), to_bfloat16(high));
#endif
}

/// Two floats as two of 16 bits, to the nearest or towards zero.
__device__ __forceinline__ std::uint32_t to_float16_pair(float low, float high) {
#if SDP4BIT_HAS_SM80
  std::uint32_t result;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
#else
  std::uint16_t halves[2];
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(halves[0]) : "f"(low));
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(halves[1]) : "f"(high));
  return join(halves[0], halves[1]);
#endif
}
__device__ __forceinline__ std::uint32_t to_float16_pair_towards_zero(float low, float high) {
#if SDP4BIT_HAS_SM80
  std::uint32_t result;
  asm("cvt.rz.f16x2.f32 %0, %1, %2;" : "=r"(result) : "f"(high), "f"(low));
  return result;
#else
  std::uint16_t halves[2];
  asm("cvt.rz.f16.f32 %0, %1;" : "=h"(halves[0]) : "f"(low));
  asm("cvt.rz.f16.f32 %0, %1;" : "=h"(halves[1]) : "f"(high));
  return join(halves[0], halves[1]);
#endif
}

#if !SDP4BIT_HAS_SM80
/// a * b + c of numbers that are bfloat16, rounded to an odd float where it is none: who rounds that to fewer
/// bits has rounded once (see add_to_odd in bfloat16.h).
__device__ __forceinline__ float multiply_add_to_odd(float a, float b, float c) {
  const bool is_exact = __fmaf_rd(a, b, c) == __fmaf_ru(a, b, c);
  return __uint_as_float(__float_as_uint(__fmaf_rz(a, b, c)) | (is_exact ? 0u : 1u));
}
#endif

/// a * b + c of bfloat16, rounded once.
__device__ __forceinline__ std::uint16_t multiply_add_bfloat16(std::uint16_t a, std::uint16_t b,
                                                               std::uint16_t c) {
#if SDP4BIT_HAS_SM80
  std::uint16_t result;
  asm("fma.rn.bf16 %0, %1, %2, %3;" : "=h"(result) : "h"(a), "h"(b), "h"(c));
  return result;
#else
  return to_bfloat16(multiply_add_to_odd(low_half(a), low_half(b), low_half(c)));
#endif
}
__device__ __forceinline__ std::uint32_t multiply_add_bfloat16_pair(std::uint32_t a, std::uint32_t b,
                                                                    std::uint32_t c) {
#if SDP4BIT_HAS_SM80
  std::uint32_t result;
  asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(result) : "r"(a), "r"(b), "r"(c));
  return result;
#else
  return to_bfloat16_pair(multiply_add_to_odd(low_half(a), low_half(b), low_half(c)),
                          multiply_add_to_odd(high_half(a), high_half(b), high_half(c)));
#endif
}

/// The larger and the smaller; a NaN wins.
__device__ __forceinline__ float max_or_nan(float a, float b) {
#if SDP4BIT_HAS_SM80
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return a != a || b != b ? __uint_as_float(0x7fffffffu) : fmaxf(a, b);
#endif
}
__device__ __forceinline__ float min_or_nan(float a, float b) {
#if SDP4BIT_HAS_SM80
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
#else
  return a != a || b != b ? __uint_as_float(0x7fffffffu) : fminf(a, b);
#endif
}
__device__ __forceinline__ std::uint32_t max_or_nan_bfloat16_pair(std::uint32_t a, std::uint32_t b) {
#if SDP4BIT_HAS_SM80
  std::uint32_t result;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
#else
  return join_upper(max_or_nan(low_half(a), low_half(b)), max_or_nan(high_half(a), high_half(b)));
#endif
}
__device__ __forceinline__ std::uint32_t min_or_nan_bfloat16_pair(std::uint32_t a, std::uint32_t b) {
#if SDP4BIT_HAS_SM80
  std::uint32_t result;
  asm("min.NaN.bf16x2 %0, %1, %2;" : "=r"(result) : "r"(a), "r"(b));
  return result;
#else
  return join_upper(min_or_nan(low_half(a), low_half(b)), min_or_nan(high_half(a), high_half(b)));
#endif
}

/// The largest of a whole warp's numbers.
__device__ __forceinline__ std::uint32_t max_of_warp(std::uint32_t value) {
#if SDP4BIT_HAS_SM80
  return __reduce_max_sync(0xffffffffu, value);
#else
#pragma unroll
  for (unsigned distance = 16; distance != 0; distance /= 2)
    value = max(value, __shfl_xor_sync(0xffffffffu, value, distance));
  return value;
#endif
}

}  // namespace sdp4bit::instructions

#undef SDP4BIT_HAS_SM80

#endif
