// Floating-point formats by their definition: the exact value of a pattern, and the rounding of an exact
// value.
//
// Slow and free of bit tricks on purpose: values are 113-bit floats, rounding counts units in the last place.
#pragma once

#include <cstdint>

namespace ptx_test {

__extension__ typedef __float128 Quad;

enum class Rounding { nearest_even, toward_zero, down, up, nearest_away };

struct Format {
  int exponent_bits;
  int mantissa_bits;
  bool has_infinity = true;  // e4m3: no infinities, one NaN pattern per sign
  int width() const { return 1 + exponent_bits + mantissa_bits; }
};

inline constexpr Format kF64{11, 52}, kF32{8, 23}, kF16{5, 10}, kBf16{8, 7}, kTf32{8, 10}, kE5m2{5, 2},
    kE4m3{4, 3, false};

/// The value of a pattern; NaN for NaN patterns.
Quad decode(std::uint64_t bits, Format format);
/// The pattern of the rounded value. Overflow gives infinity (or the largest number, by mode); with
/// `saturate`, the largest number always. NaN gives the canonical pattern of the format.
std::uint64_t encode(Quad value, Format format, Rounding rounding = Rounding::nearest_even,
                     bool saturate = false);
/// The canonical NaN: all ones except the sign.
std::uint64_t canonical_nan(Format format);
/// Rounds to an integer value.
Quad round_to_integer(Quad value, Rounding rounding);

/// a * b + c such that a later rounding to a format of at most 53 bits is a single rounding.
Quad multiply_add(Quad a, Quad b, Quad c);

inline bool is_nan(Quad value) {
  return !(value == value);
}
bool is_negative(Quad value);  // true for -0 and for negative NaN

template <class To, class From>
To bit_copy(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}

}  // namespace ptx_test
