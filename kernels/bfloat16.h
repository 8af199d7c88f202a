// Arithmetic of bfloat16, rounded once: the same bits on host and device.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/element.h"
#include "kernels/host_device.h"
#include "kernels/instructions.h"

namespace sdp4bit {

#ifndef __CUDA_ARCH__
/// a + b, rounded to an odd float: who rounds that to fewer bits has rounded once (Boldo and Melquiond, IEEE
/// Trans. Computers 57(4), 2008).
inline float add_to_odd(double a, double b) {
  const double sum = a + b;
  const double part = sum - a;
  const double error = (a - (sum - part)) + (b - part);
  const auto rounded = static_cast<float>(sum);
  if (std::isnan(rounded)) return canonical(rounded);
  if (std::isinf(rounded)) return std::isinf(sum) ? rounded : std::copysign(0x1.fffffep127f, rounded);
  const double lost = sum - static_cast<double>(rounded);
  const double missing = lost != 0.0 ? lost : error;
  const std::uint32_t bits = bits_of(rounded);
  if (missing == 0.0 || bits % 2 != 0) return rounded;
  const bool is_larger = (missing > 0.0) == (bits >> 31 == 0);  // in magnitude
  return float_from_bits(is_larger ? bits + 1 : bits - 1);
}
#endif

/// a * b + c.
SDP4BIT_HOST_DEVICE BFloat16 multiply_add(BFloat16 a, BFloat16 b, BFloat16 c) {
#ifdef __CUDA_ARCH__
  return {instructions::multiply_add_bfloat16(a.bits, b.bits, c.bits)};
#else
  const double product = double{to_float(a)} * double{to_float(b)};  // 16 bits: exact
  return from_float<BFloat16>(add_to_odd(product, to_float(c)));
#endif
}

SDP4BIT_HOST_DEVICE BFloat16 magnitude(BFloat16 value) {
  return {static_cast<std::uint16_t>(value.bits & 0x7fffu)};
}

}  // namespace sdp4bit
