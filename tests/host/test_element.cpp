// Element types: every bit pattern, and an independent conversion (CUDA's host headers) as oracle.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include "catch.h"
#include "kernels/element.h"

namespace {

using namespace sdp4bit;

std::uint16_t pattern(const void* value) {
  std::uint16_t bits;
  std::memcpy(&bits, value, sizeof(bits));
  return bits;
}

std::uint16_t oracle_float16(float value) {
  const __half narrow = __float2half_rn(value);
  return pattern(&narrow);
}

std::uint16_t oracle_bfloat16(float value) {
  const __nv_bfloat16 bfloat = __float2bfloat16_rn(value);
  return pattern(&bfloat);
}

template <typename Visit>
void visit_interesting_floats(Visit visit) {
  std::mt19937 generator(1);
  for (std::uint32_t high = 0; high < 0x10000; ++high) {
    for (const std::uint32_t low : {0u, 1u, 0x0fffu, 0x1000u, 0x1001u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      visit(float_from_bits(high << 16 | low));
    }
    visit(float_from_bits(static_cast<std::uint32_t>(generator())));
  }
}

}  // namespace

TEST_CASE("Element.EverySixteenBitPatternSurvivesTheWayToFloatAndBack") {
  unsigned wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto narrow = static_cast<std::uint16_t>(bits);
    const bool is_float16_nan = (bits & 0x7fffu) > 0x7c00u;
    const bool is_bfloat16_nan = (bits & 0x7fffu) > 0x7f80u;
    wrong += from_float<Float16>(to_float(Float16{narrow})).bits != (is_float16_nan ? kNanBits16 : narrow);
    wrong += from_float<BFloat16>(to_float(BFloat16{narrow})).bits != (is_bfloat16_nan ? kNanBits16 : narrow);
  }
  CHECK(wrong == 0);
}

TEST_CASE("Element.WideningIsExact") {
  unsigned wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto narrow = static_cast<std::uint16_t>(bits);
    __half oracle;
    std::memcpy(static_cast<void*>(&oracle), &narrow, sizeof(narrow));
    const float expected = __half2float(oracle);
    const float actual = to_float(Float16{narrow});
    wrong += std::isnan(expected) ? bits_of(actual) != kNanBits : bits_of(actual) != bits_of(expected);
  }
  CHECK(wrong == 0);
}

TEST_CASE("Element.NarrowingRoundsToNearestEven") {
  unsigned wrong = 0;
  visit_interesting_floats([&](float value) {
    wrong += from_float<Float16>(value).bits != oracle_float16(value);
    wrong += from_float<BFloat16>(value).bits != oracle_bfloat16(value);
  });
  CHECK(wrong == 0);
}

TEST_CASE("Element.NanIsTheDevicesNan") {
  for (const std::uint32_t bits : {0x7f800001u, 0x7fc00000u, 0xffc00000u, 0xffffffffu}) {
    CHECK(from_float<Float16>(float_from_bits(bits)).bits == kNanBits16);
    CHECK(from_float<BFloat16>(float_from_bits(bits)).bits == kNanBits16);
    CHECK(bits_of(from_float<float>(float_from_bits(bits))) == kNanBits);
  }
}

TEST_CASE("Element.TooLargeBecomesInfinity") {
  CHECK(from_float<Float16>(65519.996f).bits == 0x7bff);
  CHECK(from_float<Float16>(65520.0f).bits == 0x7c00);
  CHECK(from_float<Float16>(-1e30f).bits == 0xfc00);
  CHECK(from_float<BFloat16>(std::numeric_limits<float>::max()).bits == 0x7f80);
}
