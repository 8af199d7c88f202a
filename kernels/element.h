// Element types as bit patterns, and their exact conversions from and to float: the same bits on host and
// device.
//
// A NaN leaves every conversion as the one NaN that the device's instructions give (0x7fffffff, 16 bits:
// 0x7fff), so that outputs can be compared as bytes.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/instructions.h"
#include "kernels/wire_format.h"

namespace sdp4bit {

struct Float16 {
  std::uint16_t bits;
};
struct BFloat16 {
  std::uint16_t bits;
};

inline constexpr std::uint32_t kNanBits = 0x7fffffffu;
inline constexpr std::uint16_t kNanBits16 = 0x7fffu;

template <typename T>
inline constexpr ElementType kElementType = ElementType::float32;
template <>
inline constexpr ElementType kElementType<Float16> = ElementType::float16;
template <>
inline constexpr ElementType kElementType<BFloat16> = ElementType::bfloat16;

SDP4BIT_HOST_DEVICE float float_from_bits(std::uint32_t bits) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}
SDP4BIT_HOST_DEVICE std::uint32_t bits_of(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  return std::bit_cast<std::uint32_t>(value);
#endif
}
SDP4BIT_HOST_DEVICE bool is_nan(float value) {
  return value != value;
}

/// The result of float arithmetic with its NaN made the device's. Arithmetic on the device gives no other.
SDP4BIT_HOST_DEVICE float canonical(float value) {
#ifdef __CUDA_ARCH__
  return value;
#else
  return is_nan(value) ? float_from_bits(kNanBits) : value;
#endif
}

SDP4BIT_HOST_DEVICE float to_float(float value) {
  return value;
}
SDP4BIT_HOST_DEVICE float to_float(BFloat16 value) {
  return float_from_bits(std::uint32_t{value.bits} << 16);
}
SDP4BIT_HOST_DEVICE float to_float(Float16 value) {
#ifdef __CUDA_ARCH__
  float result;
  asm("cvt.f32.f16 %0, %1;" : "=f"(result) : "h"(value.bits));
  return result;
#else
  const std::uint32_t sign = (value.bits & 0x8000u) << 16;
  const std::uint32_t magnitude = value.bits & 0x7fffu;
  if (magnitude > 0x7c00u) return float_from_bits(kNanBits);
  if (magnitude == 0x7c00u) return float_from_bits(sign | 0x7f800000u);
  if (magnitude >= 0x0400u) return float_from_bits(sign | ((magnitude << 13) + (112u << 23)));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
  return float_from_bits(sign | bits_of(subnormal));
#endif
}

/// Rounds to the nearest T, ties to even; what is too large becomes Inf.
template <typename T>
SDP4BIT_HOST_DEVICE T from_float(float value);

template <>
SDP4BIT_HOST_DEVICE float from_float<float>(float value) {
  return canonical(value);
}

template <>
SDP4BIT_HOST_DEVICE BFloat16 from_float<BFloat16>(float value) {
#ifdef __CUDA_ARCH__
  return {instructions::to_bfloat16(value)};
#else
  if (is_nan(value)) return {kNanBits16};
  const std::uint32_t bits = bits_of(value);
  return {static_cast<std::uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
#endif
}

template <>
SDP4BIT_HOST_DEVICE Float16 from_float<Float16>(float value) {
#ifdef __CUDA_ARCH__
  Float16 result;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(result.bits) : "f"(value));
  return result;
#else
  if (is_nan(value)) return {kNanBits16};
  const std::uint32_t sign = (bits_of(value) >> 16) & 0x8000u;
  const std::uint32_t magnitude = bits_of(value) & 0x7fffffffu;
  std::uint32_t rounded = 0x7c00u;  // 65520 and above, halfway to the next power of two: Inf
  if (magnitude < 0x38800000u) {  // below the smallest normal 2^-14: units of 2^-24, rounded by one addition
    rounded = bits_of(float_from_bits(magnitude) + 0.5f) - bits_of(0.5f);
  } else if (magnitude < 0x477ff000u) {
    rounded = (magnitude - (112u << 23) + 0x0fffu + ((magnitude >> 13) & 1u)) >> 13;
  }
  return {static_cast<std::uint16_t>(sign | rounded)};
#endif
}

}  // namespace sdp4bit
