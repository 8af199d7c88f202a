// Arithmetic of float and double: correctly rounded in every mode, with NaN, infinities, zeros and
// subnormals.
#include <algorithm>
#include <cmath>

#include "instruction.h"

using namespace ptx_test;
using u32 = std::uint32_t;

namespace {

struct Mode {
  const char* name;
  Rounding rounding;
};
constexpr Mode kModes[] = {{"rn", Rounding::nearest_even},
                           {"rz", Rounding::toward_zero},
                           {"rm", Rounding::down},
                           {"rp", Rounding::up}};

float flush(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}
float saturate(float value) {
  return std::isnan(value) ? 0.0f : std::clamp(value, 0.0f, 1.0f) + 0.0f;
}

template <class T>
constexpr Format kFormat = sizeof(T) == 4 ? kF32 : kF64;

template <class T>
T round_to(Quad value, Rounding rounding) {
  return bit_copy<T>(static_cast<BitsOf<sizeof(T)>>(encode(value, kFormat<T>, rounding)));
}

/// Rounded as if exponents had no end, then flushed: a result is judged before it is fitted into the format.
/// The manual leaves open which comes first; this is the host processor's order, not one seen on a GPU.
float round_and_flush(Quad value) {
  const Quad scale = decode(0x5f800000u, kF32);  // 2^64
  const Quad unbounded = decode(encode(value * scale, kF32), kF32) / scale;
  const bool small = unbounded > -Quad{0x1p-126f} && unbounded < Quad{0x1p-126f};
  return small ? (is_negative(value) ? -0.0f : 0.0f) : round_to<float>(value, Rounding::nearest_even);
}

/// a * b + c with the sign that IEEE 754 gives to exact zeros in each mode.
template <class T>
T fused(T a, T b, T c, Rounding rounding) {
  Quad sum = multiply_add(a, b, c);
  const Quad product = Quad{a} * Quad{b};
  if (sum == 0 && rounding == Rounding::down && is_negative(product) != is_negative(Quad{c})) sum = -Quad{0};
  return round_to<T>(sum, rounding);
}
template <class T>
T sum(T a, T b, Rounding rounding) {
  return fused<T>(a, T{1}, b, rounding);
}

template <class T>
void check_rounded_arithmetic(const std::string& type) {
  const Tolerance exact{.any_nan = sizeof(T) == 8};
  for (const Mode mode : kModes) {
    const std::string suffix = std::string(".") + mode.name + "." + type;
    check_instruction(
        "add" + suffix + " $r, $0, $1;", [=](T a, T b) { return sum<T>(a, b, mode.rounding); }, exact);
    check_instruction(
        "sub" + suffix + " $r, $0, $1;", [=](T a, T b) { return sum<T>(a, -b, mode.rounding); }, exact);
    check_instruction(
        "mul" + suffix + " $r, $0, $1;",
        [=](T a, T b) { return round_to<T>(Quad{a} * Quad{b}, mode.rounding); }, exact);
    check_instruction(
        "fma" + suffix + " $r, $0, $1, $2;", [=](T a, T b, T c) { return fused<T>(a, b, c, mode.rounding); },
        exact);
    check_instruction(
        "div" + suffix + " $r, $0, $1;",
        [=](T a, T b) { return round_to<T>(Quad{a} / Quad{b}, mode.rounding); }, exact);
    check_instruction(
        "rcp" + suffix + " $r, $0;", [=](T a) { return round_to<T>(Quad{1} / Quad{a}, mode.rounding); },
        exact);
  }
  check_instruction(
      "sqrt.rn." + type + " $r, $0;",
      [](T a) {
        return a < 0           ? bit_copy<T>(static_cast<BitsOf<sizeof(T)>>(canonical_nan(kFormat<T>)))
               : std::isnan(a) ? bit_copy<T>(static_cast<BitsOf<sizeof(T)>>(canonical_nan(kFormat<T>)))
                               : std::sqrt(a);
      },
      exact);
  check_instruction(
      "mad.rn." + type + " $r, $0, $1, $2;",
      [](T a, T b, T c) { return fused<T>(a, b, c, Rounding::nearest_even); }, exact);
}

template <class T>
void check_selection(const std::string& type) {
  const Tolerance any{.any_nan = sizeof(T) == 8};
  const T nan = bit_copy<T>(static_cast<BitsOf<sizeof(T)>>(canonical_nan(kFormat<T>)));
  const auto smaller = [=](T a, T b) -> T {
    if (std::isnan(a) && std::isnan(b)) return nan;
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    return a < b || (a == b && std::signbit(a)) ? a : b;
  };
  const auto larger = [=](T a, T b) -> T {
    if (std::isnan(a) && std::isnan(b)) return nan;
    if (std::isnan(a)) return b;
    if (std::isnan(b)) return a;
    return a > b || (a == b && !std::signbit(a)) ? a : b;
  };
  check_instruction("min." + type + " $r, $0, $1;", smaller, any);
  check_instruction("max." + type + " $r, $0, $1;", larger, any);
  check_instruction(
      "abs." + type + " $r, $0;", [](T a) { return std::fabs(a); }, Tolerance{.any_nan = true});
  check_instruction(
      "neg." + type + " $r, $0;", [](T a) { return -a; }, Tolerance{.any_nan = true});
  check_instruction("copysign." + type + " $r, $0, $1;", [](T a, T b) { return std::copysign(b, a); });
  check_instruction("mov." + type + " $r, $0;", [](T a) { return a; });
  check_instruction("selp." + type + " $r, $0, $1, $2;", [](T a, T b, bool c) { return c ? a : b; });
  check_instruction("testp.finite." + type + " $r, $0;", [](T a) { return std::isfinite(a); });
  check_instruction("testp.infinite." + type + " $r, $0;", [](T a) { return std::isinf(a); });
  check_instruction("testp.notanumber." + type + " $r, $0;", [](T a) { return std::isnan(a); });
  check_instruction("testp.number." + type + " $r, $0;", [](T a) { return !std::isnan(a); });
  check_instruction("testp.subnormal." + type + " $r, $0;",
                    [](T a) { return std::fpclassify(a) == FP_SUBNORMAL; });
  check_instruction("testp.normal." + type + " $r, $0;", [](T a) { return std::isnormal(a); });
  if constexpr (sizeof(T) == 4) {
    check_instruction("min.NaN.f32 $r, $0, $1;",
                      [=](T a, T b) { return std::isnan(a) || std::isnan(b) ? nan : smaller(a, b); });
    check_instruction("max.NaN.f32 $r, $0, $1;",
                      [=](T a, T b) { return std::isnan(a) || std::isnan(b) ? nan : larger(a, b); });
    check_instruction(
        "max.xorsign.abs.f32 $r, $0, $1;",
        [=](T a, T b) {
          const T size = larger(std::fabs(a), std::fabs(b));
          return std::isnan(size) ? nan
                                  : std::copysign(size, std::signbit(a) != std::signbit(b) ? -1.0f : 1.0f);
        },
        Tolerance{.any_nan = true});
    check_instruction("min.ftz.f32 $r, $0, $1;", [=](T a, T b) { return smaller(flush(a), flush(b)); });
  }
}

template <class T>
void check_float_comparisons(const std::string& type) {
  const auto unordered = [](T a, T b) { return std::isnan(a) || std::isnan(b); };
  check_instruction("setp.eq." + type + " $r, $0, $1;", [](T a, T b) { return a == b; });
  check_instruction("setp.ne." + type + " $r, $0, $1;", [=](T a, T b) { return !unordered(a, b) && a != b; });
  check_instruction("setp.lt." + type + " $r, $0, $1;", [](T a, T b) { return a < b; });
  check_instruction("setp.le." + type + " $r, $0, $1;", [](T a, T b) { return a <= b; });
  check_instruction("setp.gt." + type + " $r, $0, $1;", [](T a, T b) { return a > b; });
  check_instruction("setp.ge." + type + " $r, $0, $1;", [](T a, T b) { return a >= b; });
  check_instruction("setp.equ." + type + " $r, $0, $1;", [=](T a, T b) { return unordered(a, b) || a == b; });
  check_instruction("setp.neu." + type + " $r, $0, $1;", [](T a, T b) { return a != b; });
  check_instruction("setp.ltu." + type + " $r, $0, $1;", [](T a, T b) { return !(a >= b); });
  check_instruction("setp.leu." + type + " $r, $0, $1;", [](T a, T b) { return !(a > b); });
  check_instruction("setp.gtu." + type + " $r, $0, $1;", [](T a, T b) { return !(a <= b); });
  check_instruction("setp.geu." + type + " $r, $0, $1;", [](T a, T b) { return !(a < b); });
  check_instruction("setp.num." + type + " $r, $0, $1;", [=](T a, T b) { return !unordered(a, b); });
  check_instruction("setp.nan." + type + " $r, $0, $1;", [=](T a, T b) { return unordered(a, b); });
  check_instruction("set.ltu.u32." + type + " $r, $0, $1;",
                    [](T a, T b) { return !(a >= b) ? 0xffffffffu : 0u; });
  check_instruction("setp.lt.or." + type + " %p0|$r, $0, $1, $2;",
                    [](T a, T b, bool c) { return !(a < b) || c; });
}

}  // namespace

TEST_CASE("Float.SinglePrecisionIsRoundedOnceInEveryMode") {
  check_rounded_arithmetic<float>("f32");
}
TEST_CASE("Float.DoublePrecisionIsRoundedOnceInEveryMode") {
  check_rounded_arithmetic<double>("f64");
}

TEST_CASE("Float.FlushToZeroFlushesOperandsAndResults") {
  const auto even = Rounding::nearest_even;
  check_instruction("add.ftz.f32 $r, $0, $1;",
                    [=](float a, float b) { return flush(sum<float>(flush(a), flush(b), even)); });
  check_instruction("mul.ftz.f32 $r, $0, $1;",
                    [=](float a, float b) { return round_and_flush(Quad{flush(a)} * Quad{flush(b)}); });
  check_instruction("fma.rn.ftz.f32 $r, $0, $1, $2;", [=](float a, float b, float c) {
    return round_and_flush(multiply_add(flush(a), flush(b), flush(c)));
  });
  check_instruction(
      "abs.ftz.f32 $r, $0;", [](float a) { return std::fabs(flush(a)); }, Tolerance{.any_nan = true});
  check_instruction(
      "neg.ftz.f32 $r, $0;", [](float a) { return -flush(a); }, Tolerance{.any_nan = true});
  check_instruction("setp.lt.ftz.f32 $r, $0, $1;", [](float a, float b) { return flush(a) < flush(b); });
  check_instruction("setp.eq.ftz.f32 $r, $0, $1;", [](float a, float b) { return flush(a) == flush(b); });
  check_instruction("div.rn.ftz.f32 $r, $0, $1;",
                    [=](float a, float b) { return round_and_flush(Quad{flush(a)} / Quad{flush(b)}); });
}

TEST_CASE("Float.SaturationClampsToTheUnitInterval") {
  const auto even = Rounding::nearest_even;
  check_instruction("add.sat.f32 $r, $0, $1;",
                    [=](float a, float b) { return saturate(sum<float>(a, b, even)); });
  check_instruction("mul.sat.f32 $r, $0, $1;",
                    [=](float a, float b) { return saturate(round_to<float>(Quad{a} * Quad{b}, even)); });
  check_instruction("fma.rn.sat.f32 $r, $0, $1, $2;",
                    [=](float a, float b, float c) { return saturate(fused<float>(a, b, c, even)); });
}

TEST_CASE("Float.MinimaMaximaSignsAndClasses") {
  check_selection<float>("f32");
  check_selection<double>("f64");
}

TEST_CASE("Float.OrderedAndUnorderedComparisons") {
  check_float_comparisons<float>("f32");
  check_float_comparisons<double>("f64");
}

TEST_CASE("Float.ConstantsKeepTheirBits") {
  check_instruction("add.f32 $r, $0, 0f3F800001;",
                    [](float a) { return sum<float>(a, 0x1.000002p0f, Rounding::nearest_even); });
  check_instruction(
      "add.f64 $r, $0, 0d3FF0000000000001;",
      [](double a) { return sum<double>(a, 0x1.0000000000001p0, Rounding::nearest_even); },
      Tolerance{.any_nan = true});
  check_instruction("mul.f32 $r, $0, 0fFF800000;", [](float a) {
    return round_to<float>(Quad{a} * -Quad(__builtin_inf()), Rounding::nearest_even);
  });
}

TEST_CASE("Float.ApproximationsAreClose") {
  // The bounds are those of the PTX manual, for operands where it gives relative or absolute ones.
  std::vector<std::tuple<float>> ordinary;
  std::mt19937_64 random(7);
  std::uniform_real_distribution<float> exponent(-20, 20);
  for (int at = 0; at < 2000; ++at) ordinary.emplace_back(std::exp2(exponent(random)));
  std::vector<std::tuple<float>> angles;
  std::uniform_real_distribution<float> angle(-3.14f, 3.14f);
  for (int at = 0; at < 2000; ++at) angles.emplace_back(angle(random));
  const Tolerance two_ulp{.relative = 0x1p-22};
  check_instruction(
      "rcp.approx.f32 $r, $0;", [](float a) { return 1 / a; }, ordinary, two_ulp);
  check_instruction(
      "rsqrt.approx.f32 $r, $0;",
      [](float a) { return static_cast<float>(1 / std::sqrt(static_cast<double>(a))); }, ordinary, two_ulp);
  check_instruction(
      "sqrt.approx.f32 $r, $0;", [](float a) { return std::sqrt(a); }, ordinary, two_ulp);
  check_instruction(
      "div.approx.f32 $r, 0f40490FDB, $0;", [](float a) { return 3.1415927f / a; }, ordinary, two_ulp);
  check_instruction(
      "div.full.f32 $r, 0f40490FDB, $0;", [](float a) { return 3.1415927f / a; }, ordinary, two_ulp);
  check_instruction(
      "ex2.approx.f32 $r, $0;", [](float a) { return std::exp2(a); }, angles, Tolerance{.relative = 0x1p-21});
  check_instruction(
      "lg2.approx.f32 $r, $0;", [](float a) { return std::log2(a); }, ordinary,
      Tolerance{.relative = 0x1p-21, .absolute = 0x1p-22});
  check_instruction(
      "sin.approx.f32 $r, $0;", [](float a) { return std::sin(a); }, angles, Tolerance{.absolute = 0x1p-20});
  check_instruction(
      "cos.approx.f32 $r, $0;", [](float a) { return std::cos(a); }, angles, Tolerance{.absolute = 0x1p-20});
  check_instruction(
      "tanh.approx.f32 $r, $0;", [](float a) { return std::tanh(a); }, angles,
      Tolerance{.relative = 0x1p-10});
  // Special values are exact in all of them.
  std::vector<std::tuple<float>> special{
      {0.0f}, {-0.0f}, {std::numeric_limits<float>::infinity()}, {-std::numeric_limits<float>::infinity()}};
  check_instruction(
      "rcp.approx.ftz.f32 $r, $0;", [](float a) { return 1 / a; }, special);
  check_instruction(
      "ex2.approx.ftz.f32 $r, $0;", [](float a) { return std::exp2(a); }, special);
  check_instruction(
      "rsqrt.approx.ftz.f32 $r, $0;",
      [](float a) {
        return a == 0  ? std::copysign(std::numeric_limits<float>::infinity(), a)
               : a > 0 ? 0.0f
                       : bit_copy<float>(0x7fffffffu);
      },
      special);
  check_instruction(
      "lg2.approx.ftz.f32 $r, $0;",
      [](float a) {
        return a == 0 ? -std::numeric_limits<float>::infinity() : a > 0 ? a : bit_copy<float>(0x7fffffffu);
      },
      special);
}
