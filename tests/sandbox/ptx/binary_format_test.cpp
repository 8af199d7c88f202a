// The tests' own idea of floating point agrees with the host's arithmetic.
#include <cfenv>

#include "instruction.h"

using namespace ptx_test;
using u32 = std::uint32_t;

TEST_CASE("BinaryFormat.AgreesWithTheHost") {
  for (const auto& [a, b] : operands<float, float>(20000)) {
    const auto rounded = [](Quad value) { return static_cast<u32>(encode(value, kF32)); };
    const auto same = [&](u32 bits, float value) {
      return std::isnan(value) ? bits == 0x7fffffffu : bits == raw_bits(value);
    };
    REQUIRE(same(rounded(a), a));
    REQUIRE(same(rounded(Quad{a} * Quad{b}), a * b));
    REQUIRE(same(rounded(Quad{a} / Quad{b}), a / b));
    REQUIRE(same(rounded(multiply_add(a, b, a)), std::fma(a, b, a)));
    if (!std::isnan(a)) REQUIRE(decode(raw_bits(a), kF32) == Quad{a});
  }
  for (const auto& [a, b] : operands<double, double>(20000)) {
    const std::uint64_t sum = encode(multiply_add(a, 1, b), kF64),
                        product = encode(multiply_add(a, b, 1.0), kF64);
    if (!std::isnan(a + b)) REQUIRE(sum == raw_bits(a + b));
    if (!std::isnan(std::fma(a, b, 1.0))) REQUIRE(product == raw_bits(std::fma(a, b, 1.0)));
    const float narrow = static_cast<float>(a);
    if (!std::isnan(narrow)) REQUIRE(encode(a, kF32) == raw_bits(narrow));
  }
}

TEST_CASE("BinaryFormat.RoundsInEveryDirection") {
  const std::pair<Rounding, int> modes[] = {{Rounding::nearest_even, FE_TONEAREST},
                                            {Rounding::toward_zero, FE_TOWARDZERO},
                                            {Rounding::down, FE_DOWNWARD},
                                            {Rounding::up, FE_UPWARD}};
  for (const auto& [rounding, mode] : modes)
    for (const auto& [value] : operands<double>(5000)) {
      if (std::isnan(value)) continue;
      std::fesetround(mode);
      const volatile double input = value;
      const volatile float output = static_cast<float>(input);
      const volatile double integral = std::nearbyint(input);
      std::fesetround(FE_TONEAREST);
      REQUIRE(encode(value, kF32, rounding) == raw_bits(static_cast<float>(output)));
      REQUIRE(static_cast<double>(round_to_integer(value, rounding)) == integral);
    }
}

TEST_CASE("BinaryFormat.KnownPatterns") {
  CHECK(encode(65504, kF16) == 0x7bff);
  CHECK(encode(65519.99, kF16) == 0x7bff);
  CHECK(encode(65520, kF16) == 0x7c00);
  CHECK(encode(65520, kF16, Rounding::toward_zero) == 0x7bff);
  CHECK(encode(448, kE4m3) == 0x7e);
  CHECK(encode(1e9, kE4m3) == 0x7f);
  CHECK(encode(-1e9, kE4m3, Rounding::nearest_even, true) == 0xfe);
  CHECK(encode(57344, kE5m2) == 0x7b);
  CHECK(encode(0x1p-24, kF16) == 1);
  CHECK(encode(0x1p-25, kF16) == 0);
  CHECK(encode(0x1.8p-25, kF16) == 1);
  CHECK(encode(-0.0, kBf16) == 0x8000);
  CHECK(encode(1.00390625, kBf16) == 0x3f80);
  CHECK(encode(1.01171875, kBf16) == 0x3f82);
  CHECK(decode(0x3c00, kF16) == 1);
  CHECK(decode(0x08, kE4m3) == 0x1p-6);
}
