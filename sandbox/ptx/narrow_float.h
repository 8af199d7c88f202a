// 16-bit floats on the host, for the few operations that are not vectorized.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace sandbox::ptx {

struct BFloat16 {
  static float widen(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }
  static std::uint16_t round(float value) {
    const auto x = std::bit_cast<std::uint32_t>(value);
    if (value != value) return 0x7fff;
    return static_cast<std::uint16_t>((x + 0x7fff + (x >> 16 & 1)) >> 16);
  }
};

struct Float16 {
  static float widen(std::uint16_t bits) {
    const std::uint32_t magnitude = static_cast<std::uint32_t>(bits & 0x7fff) << 13;
    const std::uint32_t scaled =
        (bits & 0x7c00) == 0x7c00 ? magnitude | 0x7f800000u
                                  : std::bit_cast<std::uint32_t>(std::bit_cast<float>(magnitude) * 0x1p112f);
    return std::bit_cast<float>(scaled | static_cast<std::uint32_t>(bits & 0x8000) << 16);
  }
  static std::uint16_t round(float value) {
    if (value != value) return 0x7fff;
    const std::uint32_t sign = std::bit_cast<std::uint32_t>(value) & 0x80000000u;
    const std::uint32_t x = std::bit_cast<std::uint32_t>(value) ^ sign;
    std::uint32_t r;
    if (x >= 0x477ff000u)
      r = 0x7c00u;
    else if (x < 0x38800000u)
      r = std::bit_cast<std::uint32_t>(std::bit_cast<float>(x) + 0.5f) - 0x3f000000u;
    else
      r = (x + 0xc8000fffu + (x >> 13 & 1)) >> 13;
    return static_cast<std::uint16_t>(r | sign >> 16);
  }
};

}  // namespace sandbox::ptx
