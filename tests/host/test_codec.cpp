// The group codec on values: what a scale, a code and a decoded element must be.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "catch.h"
#include "kernels/codec.h"

namespace {

using namespace sdp4bit;

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr ScaleType kScaleTypes[] = {ScaleType::float32, ScaleType::bfloat16};

std::uint32_t largest_magnitude(const std::vector<float>& group) {
  std::uint32_t largest = 0;
  for (const float value : group) largest = std::max(largest, magnitude_bits(value));
  return largest;
}

float scale_of(const std::vector<float>& group, std::uint32_t bits, ScaleType type = ScaleType::float32) {
  return group_scale(largest_magnitude(group), scale_steps(Coding::nearest, bits), type);
}

}  // namespace

TEST_CASE("Codec.LargestMagnitudeSurvivesRoundTrip") {
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> mantissa(1.0f, 2.0f);
  unsigned wrong = 0;
  for (const std::uint32_t bits : {4u, 8u}) {
    const int largest = largest_code(bits);
    for (int exponent = -118; exponent < 127; ++exponent) {
      for (int i = 0; i < 100; ++i) {
        const float value = std::ldexp(mantissa(generator), exponent) * (i % 2 == 0 ? 1.0f : -1.0f);
        const float scale = scale_of({value}, bits);
        const int code = encode_nearest(value, scale, bits);
        wrong += std::abs(code) != largest || (code < 0) != (value < 0);
        // One rounding in the scale and one in the product.
        wrong += std::abs(decode(code, scale) - value) > std::ldexp(std::abs(value), -23);
        for (const std::uint32_t noise : {0u, 0x8000u, 0xffffu}) {
          wrong += encode_stochastic(value, scale, noise, bits) != code;
        }
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("Codec.ScaleIsTheRoundedQuotient") {
  CHECK(scale_of({-3.5f, 1.0f}, 4) == 0.5f);
  CHECK(scale_of({0.1f, -0.3f}, 4) == 0.3f / 7.0f);
  CHECK(scale_of({0.1f, -0.3f}, 8) == 0.3f / 127.0f);
}

TEST_CASE("Codec.Bfloat16ScaleNeverClips") {
  std::mt19937 generator(2);
  unsigned wrong = 0;
  for (int i = 0; i < 100000; ++i) {
    const std::uint32_t magnitude = static_cast<std::uint32_t>(generator()) % 0x7f800000u;
    for (const std::uint32_t bits : {4u, 8u}) {
      const float exact = group_scale(magnitude, scale_steps(Coding::nearest, bits), ScaleType::float32);
      const float scale = group_scale(magnitude, scale_steps(Coding::nearest, bits), ScaleType::bfloat16);
      wrong += scale < exact || bits_of(scale) % 0x10000 != 0;
      wrong += bits_of(scale) - bits_of(exact) >= 0x10000;  // the smallest such
      wrong += !std::isfinite(scale);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("Codec.NanOrInfinityAnywhereMakesTheScaleNan") {
  for (const ScaleType type : kScaleTypes) {
    for (const std::uint32_t bits : {4u, 8u}) {
      for (const float bad : {kNan, -kNan, kInf, -kInf}) {
        CHECK(std::isnan(scale_of({1.0f, bad, 3.0f}, bits, type)));
        CHECK(std::isnan(scale_of({bad, 1.0f, 3.0f}, bits, type)));
        CHECK_FALSE(has_codes(scale_of({bad}, bits, type)));
      }
      CHECK(std::isfinite(scale_of({std::numeric_limits<float>::max()}, bits, type)));
    }
  }
  CHECK(std::isnan(decode(0, scale_of({kNan}, 4))));
}

TEST_CASE("Codec.ZerosAndUnderflowHaveScaleZero") {
  for (const ScaleType type : kScaleTypes) {
    CHECK(bits_of(scale_of({0.0f, -0.0f}, 4, type)) == 0);
    CHECK(bits_of(scale_of({3 * 0x1p-149f}, 4, type)) == 0);  // 3/7 of the smallest subnormal rounds to zero
    CHECK(bits_of(scale_of({63 * 0x1p-149f}, 8, type)) == 0);
    CHECK_FALSE(has_codes(scale_of({0.0f}, 4, type)));
  }
  CHECK(bits_of(decode(0, 0.0f)) == 0);
}

TEST_CASE("Codec.SubnormalScalesStayFinite") {
  std::mt19937 generator(3);
  unsigned wrong = 0;
  for (int i = 0; i < 100000; ++i) {
    const std::uint32_t magnitude = static_cast<std::uint32_t>(generator()) % 0x04000000u;  // below 2^-119
    const float value = float_from_bits(magnitude);
    for (const std::uint32_t bits : {4u, 8u}) {
      for (const ScaleType type : kScaleTypes) {
        const float scale = group_scale(magnitude, scale_steps(Coding::nearest, bits), type);
        if (!has_codes(scale)) continue;
        const float decoded = decode(encode_nearest(value, scale, bits), scale);
        // Half a step of the scale, and L half units of the last place for a scale that rounds down.
        const double bound = 0.5 * scale + 0.5 * largest_code(bits) * 0x1p-149 + std::ldexp(value, -23);
        wrong += !(std::abs(static_cast<double>(decoded) - value) <= bound);
        wrong += std::abs(encode_stochastic(-value, scale, 0x4000, bits)) > largest_code(bits);
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("Codec.NearestRoundsTiesToEven") {
  CHECK(encode_nearest(0.5f, 1.0f, 4) == 0);
  CHECK(encode_nearest(1.5f, 1.0f, 4) == 2);
  CHECK(encode_nearest(2.5f, 1.0f, 4) == 2);
  CHECK(encode_nearest(-2.5f, 1.0f, 4) == -2);
  CHECK(encode_nearest(-3.5f, 1.0f, 4) == -4);
}

TEST_CASE("Codec.StochasticRoundsUpWithProbabilityOfTheFraction") {
  for (const float t : {0.25f, 2.75f, -0.25f, -2.75f, -6.5f, 3.0f, -3.0f, 0.0f}) {
    std::int64_t sum = 0;
    for (std::uint32_t noise = 0; noise < 65536; ++noise) {
      const int code = encode_stochastic(t, 1.0f, noise, 4);
      REQUIRE(std::abs(static_cast<float>(code) - t) < 1.0f);
      sum += code;
    }
    CHECK(static_cast<double>(sum) == static_cast<double>(t) * 65536);
  }
}

TEST_CASE("Codec.PackedCodesComeBack") {
  for (const std::uint32_t bits : {4u, 8u}) {
    for (std::uint32_t i = 0; i < 2 * codes_per_word(bits); ++i) {
      for (int code = -largest_code(bits); code <= largest_code(bits); ++code) {
        const std::uint32_t others = ~pack_code(-1, i, bits);  // neighbours all ones
        REQUIRE(unpack_code(pack_code(code, i, bits) | others, i, bits) == code);
        REQUIRE((pack_code(code, i, bits) & others) == 0);
      }
    }
  }
}

TEST_CASE("Codec.CodesLieAsTheWireFormatSays") {
  CHECK(pack_code(-7, 0, 4) == 0x00000009u);  // element 0: low nibble of byte 0
  CHECK(pack_code(5, 1, 4) == 0x00000050u);   // element 1: high nibble of byte 0
  CHECK(pack_code(5, 7, 4) == 0x50000000u);
  CHECK(pack_code(-1, 2, 8) == 0x00ff0000u);
}
