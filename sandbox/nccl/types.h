// The element types: their sizes, their names, and the conversions between the small floats and float.
#pragma once

#include <nccl.h>

#include <bit>
#include <cstddef>
#include <cstdint>

namespace sandbox::nccl {

[[nodiscard]] bool is_type(ncclDataType_t type);
[[nodiscard]] size_t size_of(ncclDataType_t type);
[[nodiscard]] const char* name_of(ncclDataType_t type);
[[nodiscard]] bool is_float(ncclDataType_t type);

// Branch-free where possible, so that loops over them vectorize. All round to nearest even; NaN stays NaN.
inline float float_from_bfloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t bfloat16_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<uint16_t>((bits & 0x7fffffffu) > 0x7f800000u ? 0x7fffu : rounded);
}

inline float float_from_half(uint16_t bits) {
  const uint32_t magnitude = static_cast<uint32_t>(bits & 0x7fffu) << 13;
  // Multiplying by 2^112 moves the exponent and makes half subnormals normal; Inf and NaN need their exponent
  // back.
  const float scaled = std::bit_cast<float>(magnitude) * 0x1p112f;
  const uint32_t special = magnitude >= 0x0f800000u ? 0x7f800000u : 0u;
  return std::bit_cast<float>(std::bit_cast<uint32_t>(scaled) | special |
                              static_cast<uint32_t>(bits & 0x8000u) << 16);
}

inline uint16_t half_from_float(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  // Below 2^-14 the result is subnormal: adding 0.5 rounds at 2^-24 in float arithmetic.
  const float small = std::bit_cast<float>(magnitude) + 0.5f;
  const uint32_t subnormal = std::bit_cast<uint32_t>(small) - 0x3f000000u;
  const uint32_t normal = (magnitude + 0xc8000fffu + ((magnitude >> 13) & 1u)) >> 13;
  uint32_t result = magnitude < 0x38800000u ? subnormal : normal;
  result = magnitude >= 0x477ff000u ? 0x7c00u : result;
  result = magnitude > 0x7f800000u ? 0x7fffu : result;
  return static_cast<uint16_t>(magnitude > 0x7f800000u ? result : result | sign);
}

float float_from_fp8(uint8_t bits, bool e5m2);
uint8_t fp8_from_float(float value,
                       bool e5m2);  // saturates to the largest finite value, as the GPU's conversion

}  // namespace sandbox::nccl
