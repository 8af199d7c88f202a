// The device math library and the headers of narrow types compute what the host computes.
#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "binary_format.h"
#include "program.h"
#include "support/catch.h"

using namespace ptx_test;
using u16 = std::uint16_t;
using u32 = std::uint32_t;

namespace {

const char* const kImages[] = {"math.ptx", "math_90.ptx", "math_debug.ptx"};
constexpr std::size_t kCount = 4 * 128;

template <class T>
struct Function {
  const char* kernel;
  T (*host)(T);
  double ulps;  // of the CUDA math library's documented bounds, plus one for the host's
  double low, high;
};

template <class T>
void check_functions(const char* image, const std::vector<Function<T>>& functions) {
  Program program = Program::from_file(image);
  for (const auto& function : functions) {
    INFO(image << " " << function.kernel);
    std::mt19937 random(17);
    std::uniform_real_distribution<T> range(static_cast<T>(function.low), static_cast<T>(function.high));
    std::vector<T> inputs(kCount);
    for (auto& input : inputs) input = range(random);
    const DeviceArray<T> from(inputs), to(kCount);
    program.launch(function.kernel, threads(4, 128), from.data(), to.data());
    double worst = 0;
    for (std::size_t at = 0; at < kCount; ++at) {
      const T expected = function.host(inputs[at]);
      const T ulp =
          std::nextafter(std::fabs(expected), std::numeric_limits<T>::infinity()) - std::fabs(expected);
      worst = std::max(worst, static_cast<double>(std::fabs(to[at] - expected) / ulp));
    }
    CHECK(worst <= function.ulps);
  }
}

std::vector<u16> random_patterns(Format format) {
  std::mt19937 random(23);
  std::vector<u16> patterns(kCount);
  for (auto& pattern : patterns)
    pattern = static_cast<u16>(
        encode(static_cast<double>(static_cast<int>(random() % 20001) - 10000) / 300, format));
  return patterns;
}

void check_narrow_arithmetic(const char* kernel, Format format) {
  std::vector<u16> left = random_patterns(format), right = left;
  std::reverse(right.begin(), right.end());
  const auto value = [&](u16 bits) { return decode(bits, format); };
  const auto round = [&](Quad exact) { return static_cast<u16>(encode(exact, format)); };
  for (const char* image : kImages) {
    INFO(image << " " << kernel);
    Program program = Program::from_file(image);
    const DeviceArray<u16> a(left), b(right), to(kCount * 6);
    program.launch(kernel, threads(4, 128), a.data(), b.data(), to.data());
    for (std::size_t at = 0; at < kCount; ++at) {
      const Quad x = value(left[at]), y = value(right[at]);
      REQUIRE(to[at * 6] == round(x + y));
      REQUIRE(to[at * 6 + 1] == round(x * y));
      REQUIRE(to[at * 6 + 2] == round(multiply_add(x, y, x)));
      REQUIRE(to[at * 6 + 3] == round(x > y ? x : y));
      REQUIRE(to[at * 6 + 4] == round(x - y));
      REQUIRE(to[at * 6 + 5] == round(static_cast<float>(x) * 1.1f));
    }
  }
}

}  // namespace

TEST_CASE("Math.SinglePrecisionLibrary") {
  const std::vector<Function<float>> functions{
      {"single_exp", std::exp, 3, -80, 80},
      {"single_log", std::log, 2, 1e-3, 1e6},
      {"single_sin", std::sin, 3, -1e6, 1e6},
      {"single_cos", std::cos, 3, -100, 100},
      {"single_tanh", std::tanh, 3, -5, 5},
      {"single_erf", std::erf, 3, -3, 3},
      {"single_pow", [](float x) { return std::pow(x, 1.7f); }, 5, 1e-3, 1e3},
      {"single_cbrt", std::cbrt, 2, -1e4, 1e4},
      {"single_fmod", [](float x) { return std::fmod(x, 0.37f); }, 0, -1e4, 1e4},
      {"single_round", std::round, 0, -100, 100},
      {"single_sqrt", std::sqrt, 0, 0, 1e9},
      {"single_divide", [](float x) { return 1 / x; }, 0, -50, 50},
      {"single_hypot", [](float x) { return std::hypot(x, 3.0f); }, 4, -50, 50},
      {"single_gamma", [](float x) { return std::lgamma(x); }, 8, 3, 50}};
  for (const char* image : kImages) check_functions<float>(image, functions);
}

TEST_CASE("Math.DoublePrecisionLibrary") {
  const std::vector<Function<double>> functions{
      {"double_exp", std::exp, 2, -700, 700},
      {"double_log", std::log, 2, 1e-3, 1e6},
      {"double_sin", std::sin, 3, -1e12, 1e12},
      {"double_pow", [](double x) { return std::pow(x, 1.7); }, 3, 1e-3, 1e3},
      {"double_sqrt", std::sqrt, 0, 0, 1e9},
      {"double_divide", [](double x) { return 1 / x; }, 0, -50, 50},
      {"double_rsqrt", [](double x) { return 1 / std::sqrt(x); }, 2, 1e-5, 1e5}};
  for (const char* image : kImages) check_functions<double>(image, functions);
}

TEST_CASE("Math.ExponentsAndIntegerDivision") {
  std::mt19937 random(4);
  std::vector<int> values(128);
  std::vector<float> reals(128);
  for (auto& value : values) value = static_cast<int>(random());
  for (auto& real : reals) real = bit_copy<float>((static_cast<u32>(random()) & 0xbfffffffu) | 1u);
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    const DeviceArray<int> from(values), to(128 * 6), exponents(128);
    const int divisor = -12345;
    const long long wide = 98765432101ll;
    program.launch("integer_division", threads(1, 128), from.data(), to.data(), divisor, wide);
    for (std::size_t at = 0; at < 128; ++at) {
      const int value = values[at];
      const int* out = to.data() + at * 6;
      REQUIRE(out[0] == value / 7);
      REQUIRE(out[1] == value % 10);
      REQUIRE(out[2] == static_cast<int>(static_cast<u32>(value) / 641u));
      REQUIRE(out[3] == value / divisor);
      REQUIRE(out[4] == static_cast<int>(value * 1000003ll / wide));
      REQUIRE(out[5] == static_cast<int>(static_cast<unsigned long long>(value) %
                                         static_cast<unsigned long long>(wide)));
    }
    const DeviceArray<float> inputs(reals), back(128);
    program.launch("frexp_and_back", threads(1, 128), inputs.data(), back.data(), exponents.data());
    for (std::size_t at = 0; at < 128; ++at) {
      int exponent;
      std::frexp(reals[at], &exponent);
      REQUIRE(exponents[at] == exponent);
      REQUIRE(back[at] == reals[at]);
    }
  }
}

TEST_CASE("Math.NarrowTypesByTheirHeaders") {
  check_narrow_arithmetic("half_arithmetic", kF16);
  check_narrow_arithmetic("brain_arithmetic", kBf16);
  const auto halves = random_patterns(kF16), brains = random_patterns(kBf16);
  for (const char* image : kImages) {
    INFO(image);
    Program program = Program::from_file(image);
    const DeviceArray<u16> half_in(halves), brain_in(brains), half_out(kCount), brain_out(kCount);
    program.launch("packed_arithmetic", threads(2, 128), half_in.data(), brain_in.data(), half_out.data(),
                   brain_out.data());
    for (std::size_t at = 0; at < kCount; ++at) {
      const auto expected = [&](u16 bits, Format format) {
        const Quad product =
            decode(encode(decode(bits, format) * (at % 2 == 0 ? 1.5 : -2.0), format), format);
        return static_cast<u16>(encode(product + (at % 2 == 0 ? 0.25 : 3.0), format));
      };
      REQUIRE(half_out[at] == expected(halves[at], kF16));
      REQUIRE(brain_out[at] == expected(brains[at], kBf16));
    }
  }
}

TEST_CASE("Math.EightBitFloatsByTheirHeader") {
  std::mt19937 random(41);
  std::vector<float> values(kCount);
  for (auto& value : values)
    value = bit_copy<float>((static_cast<u32>(random()) & 0x8fffffffu) | 0x38000000u);
  values[0] = 0.0f;
  values[1] = -0.0f;
  values[2] = 448.0f;
  values[3] = 1e10f;
  for (const char* image : kImages) {
    INFO(image);
    Program program = Program::from_file(image);
    const DeviceArray<float> from(values), back(kCount * 2);
    const DeviceArray<unsigned char> codes(kCount * 2);
    program.launch("eight_bit_floats", threads(4, 128), from.data(), codes.data(), back.data());
    for (std::size_t at = 0; at < kCount; ++at) {
      const auto small = encode(values[at], kE4m3, Rounding::nearest_even, true),
                 wide = encode(values[at], kE5m2, Rounding::nearest_even, true);
      REQUIRE(codes[at * 2] == small);
      REQUIRE(codes[at * 2 + 1] == wide);
      REQUIRE(back[at * 2] == static_cast<float>(decode(small, kE4m3)));
      REQUIRE(back[at * 2 + 1] == static_cast<float>(decode(wide, kE5m2)));
    }
  }
}

TEST_CASE("Math.DivisionOf128Bits") {
  __extension__ typedef unsigned __int128 Wide;
  constexpr std::size_t kPairs = 256;
  std::mt19937_64 random(8);
  std::vector<Wide> numbers;
  for (std::size_t at = 0; at < 2 * kPairs; ++at) {
    const Wide value = (Wide{random()} << 64 | random()) >> (random() % 128);
    numbers.push_back(at % 2 == 1 && value == 0 ? 13 : value);
  }
  std::vector<Wide> expected;
  for (std::size_t at = 0; at < 2 * kPairs; at += 2) {
    expected.push_back(numbers[at] / numbers[at + 1]);
    expected.push_back(numbers[at] % numbers[at + 1]);
  }
  for (const char* image : kImages) {
    INFO(image);
    Program program = Program::from_file(image);
    const DeviceArray<Wide> from(numbers);
    DeviceArray<Wide> to(2 * kPairs);
    program.launch("divide_wide", threads(kPairs / 64, 64), from.data(), to.data());
    CHECK((to.values() == expected));
  }
}
