// Floating-point formats by their definition: see the header.
#include "binary_format.h"

namespace ptx_test {
namespace {

struct QuadBits {
  std::uint64_t low, high;
};

QuadBits quad_bits(Quad value) {
  return bit_copy<QuadBits>(value);
}

Quad power_of_two(int exponent) {
  return bit_copy<Quad>(QuadBits{0, static_cast<std::uint64_t>(exponent + 16383) << 48});
}

/// Exponent of the leading bit; values here are never quad subnormals except zero.
int leading_exponent(Quad value) {
  return static_cast<int>((quad_bits(value).high >> 48) & 0x7fff) - 16383;
}

Quad magnitude(Quad value) {
  return is_negative(value) ? -value : value;
}

Quad quad_infinity() {
  return static_cast<Quad>(__builtin_inf());
}

}  // namespace

bool is_negative(Quad value) {
  return (quad_bits(value).high >> 63) != 0;
}

std::uint64_t canonical_nan(Format format) {
  return (std::uint64_t{1} << (format.width() - 1)) - 1;
}

Quad decode(std::uint64_t bits, Format format) {
  const std::uint64_t mantissa_mask = (std::uint64_t{1} << format.mantissa_bits) - 1;
  const std::uint64_t exponent_mask = (std::uint64_t{1} << format.exponent_bits) - 1;
  const std::uint64_t mantissa = bits & mantissa_mask;
  const std::uint64_t exponent = (bits >> format.mantissa_bits) & exponent_mask;
  const bool negative = ((bits >> (format.width() - 1)) & 1) != 0;
  const int bias = static_cast<int>(exponent_mask >> 1);
  Quad value;
  if (format.has_infinity && exponent == exponent_mask) {
    value = mantissa == 0 ? quad_infinity() : static_cast<Quad>(__builtin_nan(""));
  } else if (!format.has_infinity && exponent == exponent_mask && mantissa == mantissa_mask) {
    value = static_cast<Quad>(__builtin_nan(""));
  } else if (exponent == 0) {
    value = static_cast<Quad>(mantissa) * power_of_two(1 - bias - format.mantissa_bits);
  } else {
    value = static_cast<Quad>(mantissa + mantissa_mask + 1) *
            power_of_two(static_cast<int>(exponent) - bias - format.mantissa_bits);
  }
  return negative ? -value : value;
}

Quad round_to_integer(Quad value, Rounding rounding) {
  const Quad size = magnitude(value);
  if (is_nan(value) || size >= power_of_two(112)) return value;
  // Split so that each part converts to an integer exactly.
  const Quad high_unit = power_of_two(60);
  const Quad high = static_cast<Quad>(static_cast<std::uint64_t>(size / high_unit)) * high_unit;
  const std::uint64_t low = static_cast<std::uint64_t>(size - high);
  const Quad fraction = size - high - static_cast<Quad>(low);
  const Quad half = 0.5;
  bool away = false;
  switch (rounding) {
    case Rounding::nearest_even:
      away = fraction > half || (fraction == half && (low & 1) != 0);
      break;
    case Rounding::nearest_away:
      away = fraction >= half;
      break;
    case Rounding::toward_zero:
      break;
    case Rounding::down:
      away = fraction > 0 && is_negative(value);
      break;
    case Rounding::up:
      away = fraction > 0 && !is_negative(value);
      break;
  }
  const Quad rounded = high + static_cast<Quad>(low) + (away ? 1 : 0);
  return is_negative(value) ? -rounded : rounded;
}

std::uint64_t encode(Quad value, Format format, Rounding rounding, bool saturate) {
  if (is_nan(value)) return canonical_nan(format);
  const std::uint64_t sign = std::uint64_t{is_negative(value)} << (format.width() - 1);
  const std::uint64_t exponent_mask = (std::uint64_t{1} << format.exponent_bits) - 1;
  const std::uint64_t mantissa_mask = (std::uint64_t{1} << format.mantissa_bits) - 1;
  const int bias = static_cast<int>(exponent_mask >> 1);
  const std::uint64_t infinity = exponent_mask << format.mantissa_bits;
  const std::uint64_t largest = format.has_infinity ? infinity - 1 : infinity + mantissa_mask - 1;
  if (value == 0) return sign;

  const Quad size = magnitude(value);
  std::uint64_t pattern = largest + 1;  // infinity, or NaN where there is none
  if (size != quad_infinity()) {
    int exponent = leading_exponent(value);
    if (exponent < 1 - bias) exponent = 1 - bias;
    const int unit = exponent - format.mantissa_bits;
    const Quad units = round_to_integer(value / power_of_two(unit), rounding);
    const auto count = static_cast<std::uint64_t>(magnitude(units));
    // Patterns of one sign are consecutive: a binade starts at count 2^mantissa_bits.
    const std::uint64_t start = static_cast<std::uint64_t>(exponent + bias - 1) << format.mantissa_bits;
    if (start + count <= largest) return sign | (start + count);
    const bool inward = rounding == Rounding::toward_zero || (rounding == Rounding::down && sign == 0) ||
                        (rounding == Rounding::up && sign != 0);
    if (inward) pattern = largest;
  }
  return sign | (saturate ? largest : pattern);
}

Quad multiply_add(Quad a, Quad b, Quad c) {
  const Quad product = a * b;  // exact: at most 106 bits
  const Quad sum = product + c;
  if (is_nan(sum) || magnitude(sum) == quad_infinity()) return sum;
  const Quad rest = sum - product;
  const Quad error = (product - (sum - rest)) + (c - rest);
  if (error == 0) return sum;
  // Round to odd: a value between two neighbors becomes the one with an odd last bit.
  QuadBits bits = quad_bits(sum);
  if ((bits.low & 1) == 0) {
    const bool outward = is_negative(error) == is_negative(sum);
    if (outward) {
      bits.low += 1;
    } else {
      if (bits.low == 0) bits.high -= 1;
      bits.low -= 1;
    }
  }
  return bit_copy<Quad>(bits);
}

}  // namespace ptx_test
