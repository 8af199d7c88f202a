// Companded codes and the arithmetic under them: sums rounded once, and codes of four bits for every scale.
#include <cmath>
#include <cstdint>
#include <random>

#include "catch.h"
#include "kernels/bfloat16.h"
#include "kernels/codec.h"

namespace {

using namespace sdp4bit;

BFloat16 random_bfloat16(std::mt19937& random, int exponents) {
  const auto exponent = 127 + static_cast<int>(random() % static_cast<unsigned>(2 * exponents)) - exponents;
  return {static_cast<std::uint16_t>((random() & 0x807fu) | static_cast<unsigned>(exponent) << 7)};
}

/// The nearest bfloat16 of a normal number, by its neighbours.
bool is_nearest(BFloat16 result, long double exact) {
  const auto distance = [&](int step) {
    const BFloat16 neighbour{static_cast<std::uint16_t>(result.bits + step)};
    return std::abs(static_cast<long double>(to_float(neighbour)) - exact);
  };
  const long double own = distance(0);
  if (own < distance(1) && own < distance(-1)) return true;
  return result.bits % 2 == 0 && own <= distance(1) && own <= distance(-1);
}

}  // namespace

TEST_CASE("Bfloat16.MultiplyAddRoundsOnce") {
  std::mt19937 random(5);
  unsigned wrong = 0;
  for (int i = 0; i < 2000000; ++i) {
    // 8 + 8 bits and a gap of at most 40: exact in 64 bits.
    const BFloat16 a = random_bfloat16(random, 8), b = random_bfloat16(random, 8);
    const BFloat16 c = random_bfloat16(random, 16);
    const long double exact =
        static_cast<long double>(to_float(a)) * to_float(b) + static_cast<long double>(to_float(c));
    if (exact != 0) wrong += !is_nearest(multiply_add(a, b, c), exact);
  }
  CHECK(wrong == 0);

  const auto sum = [](float a, float b, float c) {
    const auto narrow = [](float x) { return from_float<BFloat16>(x); };
    return to_float(multiply_add(narrow(a), narrow(b), narrow(c)));
  };
  // Halfway between two, and what is far below any float's last bit decides.
  CHECK(sum(1.0078125f, 1.5f, 0.0f) == 1.515625f);
  CHECK(sum(1.0078125f, 1.5f, -0x1p-100f) == 1.5078125f);
  CHECK(sum(1.0078125f, -1.5f, 0x1p-100f) == -1.5078125f);
  CHECK(sum(1.0078125f, 1.5f, 0x1p-100f) == 1.515625f);
  CHECK(sum(1.015625f, 1.25f, 0x1p-100f) == 1.2734375f);
  CHECK(std::isinf(sum(0x1.fep127f, 1.0f, 0x1p119f)));
  CHECK(sum(0x1.fep127f, 1.0f, 0x1p118f) == 0x1.fep127f);
  CHECK(sum(0x1.fep127f, 1.0f, -0x1.fep127f) == 0.0f);
  CHECK(std::isnan(sum(INFINITY, 1.0f, -INFINITY)));
}

TEST_CASE("Compand.EveryDifferenceOfEveryScaleHasACodeOfFourBits") {
  int least = 0, largest = 0;
  bool zero_is_zero = true, sign_is_kept = true;
  for (const int exponent : {-133, -126, -61, -60, -1, 0, 60, 61, 127}) {
    for (std::uint32_t mantissa = 0; mantissa < 128; ++mantissa) {
      const float scale =
          compandable(std::ldexp(1.0f + static_cast<float>(mantissa) / 128, exponent));  // subnormals round
      const std::uint32_t top = bits_of(scale) >> 16;
      for (std::uint32_t below = 0; below < 1300 && below < top; ++below) {
        const float difference = to_float(BFloat16{static_cast<std::uint16_t>(top - below)});
        const int up = encode_companded(difference, scale), down = encode_companded(-difference, scale);
        largest = std::max(largest, up);
        least = std::min(least, down);
        sign_is_kept = sign_is_kept && up >= 0 && down <= 0;
      }
      zero_is_zero = zero_is_zero && encode_companded(0.0f, scale) == 0;
    }
  }
  CHECK(largest == 7);
  CHECK(least == -8);
  CHECK(zero_is_zero);
  CHECK(sign_is_kept);
}

TEST_CASE("Compand.FiniteDifferencesStayFiniteAndOthersDoNot") {
  CHECK(compandable(0x1.fffffep127f) == 0x1.fep127f);
  CHECK(compandable(-0x1.fffffep127f) == -0x1.fep127f);
  CHECK(compandable(INFINITY) == INFINITY);
  CHECK(compandable(-INFINITY) == -INFINITY);
  CHECK(std::isnan(compandable(NAN)));
  CHECK(compandable(1.00390625f) == 1.0f);
}
