// Conversions between every pair of number types: all 65,536 patterns of 16-bit types, all 8-bit ones, and
// every halfway case, overflow and special value on the way down.
#include <algorithm>

#include "instruction.h"

using namespace ptx_test;
using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;

namespace {

struct Mode {
  const char* name;
  Rounding rounding;
};
constexpr Mode kFloatModes[] = {{"rn", Rounding::nearest_even},
                                {"rz", Rounding::toward_zero},
                                {"rm", Rounding::down},
                                {"rp", Rounding::up}};
constexpr Mode kIntegerModes[] = {{"rni", Rounding::nearest_even},
                                  {"rzi", Rounding::toward_zero},
                                  {"rmi", Rounding::down},
                                  {"rpi", Rounding::up}};

std::vector<std::tuple<u16>> all_halves() {
  std::vector<std::tuple<u16>> all;
  for (u32 bits = 0; bits < 65536; ++bits) all.emplace_back(static_cast<u16>(bits));
  return all;
}

/// Every value of a narrow format, the points halfway between neighbors, and both neighbors of each of these.
std::vector<std::tuple<float>> floats_around(Format format) {
  std::vector<std::tuple<float>> result;
  const auto add = [&](float value) {
    for (int step = -1; step <= 1; ++step) {
      const u32 bits = bit_copy<u32>(value) + static_cast<u32>(step);
      result.emplace_back(bit_copy<float>(bits));
      result.emplace_back(bit_copy<float>(bits ^ 0x80000000u));
    }
  };
  const u64 patterns = u64{1} << (format.width() - 1);
  for (u64 bits = 0; bits < patterns; ++bits) {
    const Quad value = decode(bits, format), next = decode(bits + 1, format);
    if (is_nan(value)) continue;
    add(static_cast<float>(value));
    if (!is_nan(next)) add(static_cast<float>((value + next) / 2));
  }
  // Where the numbers end: up to one and a half units beyond the largest.
  const Quad largest = decode(encode(1e30, format, Rounding::nearest_even, true), format);
  const Quad before = decode(encode(1e30, format, Rounding::nearest_even, true) - 1, format);
  add(static_cast<float>(largest + (largest - before) / 2));
  add(static_cast<float>(largest + (largest - before)));
  for (const float value : interesting<float>()) result.emplace_back(value);
  return result;
}

template <class Integer>
Integer to_integer(Quad value, Rounding rounding) {
  if (is_nan(value)) return 0;
  const Quad rounded = round_to_integer(value, rounding);
  constexpr Quad low = std::numeric_limits<Integer>::min();
  constexpr Quad high = std::numeric_limits<Integer>::max();
  if (rounded <= low) return std::numeric_limits<Integer>::min();
  if (rounded >= high) return std::numeric_limits<Integer>::max();
  return static_cast<Integer>(rounded);
}

template <class Integer>
std::string type_name() {
  return (std::is_signed_v<Integer> ? "s" : "u") + std::to_string(sizeof(Integer) * 8);
}

float flush(float value) {
  return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0f, value) : value;
}

template <class Integer>
void check_to_integer() {
  const std::string type = type_name<Integer>();
  for (const Mode mode : kIntegerModes) {
    const auto cvt = [&](const char* from, const char* flags = "") {
      return std::string("cvt.") + mode.name + flags + "." + type + "." + from + " $r, $0;";
    };
    // The PTX manual: NaN gives zero between narrow types, and the top bit alone where the source is .f64 or
    // the result has 64 bits.
    const auto top_bit = static_cast<Integer>(std::uint64_t{1} << (sizeof(Integer) * 8 - 1));
    const Integer nan = sizeof(Integer) == 8 ? top_bit : Integer{0};
    const auto convert = [=](Quad a, Integer of_nan) {
      return is_nan(a) ? of_nan : to_integer<Integer>(a, mode.rounding);
    };
    check_instruction(cvt("f32"), [=](float a) { return convert(a, nan); });
    check_instruction(cvt("f32", ".ftz"), [=](float a) { return convert(flush(a), nan); });
    check_instruction(cvt("f64"), [=](double a) { return convert(a, top_bit); });
    check_instruction(
        cvt("f16"), [=](u16 a) { return convert(decode(a, kF16), nan); }, all_halves());
  }
}

template <class Integer>
void check_from_integer() {
  const std::string type = type_name<Integer>();
  for (const Mode mode : kFloatModes) {
    const auto cvt = [&](const char* to) {
      return std::string("cvt.") + mode.name + "." + to + "." + type + " $r, $0;";
    };
    check_instruction(cvt("f32"), [=](Integer a) {
      return bit_copy<float>(static_cast<u32>(encode(Quad(a), kF32, mode.rounding)));
    });
    check_instruction(cvt("f64"),
                      [=](Integer a) { return bit_copy<double>(encode(Quad(a), kF64, mode.rounding)); });
    check_instruction(cvt("f16"),
                      [=](Integer a) { return static_cast<u16>(encode(Quad(a), kF16, mode.rounding)); });
  }
}

template <class To, class From>
void check_between_integers() {
  const std::string types = type_name<To>() + "." + type_name<From>();
  check_instruction("cvt." + types + " $r, $0;", [](From a) { return static_cast<To>(a); });
  // Where nothing can be clamped there is no such instruction.
  const bool fits = std::numeric_limits<To>::min() <= Quad(std::numeric_limits<From>::min()) &&
                    std::numeric_limits<To>::max() >= Quad(std::numeric_limits<From>::max());
  if (fits) return;
  check_instruction("cvt.sat." + types + " $r, $0;",
                    [](From a) { return to_integer<To>(Quad(a), Rounding::nearest_even); });
}
template <class From>
void check_from_one_integer() {
  check_between_integers<std::int8_t, From>();
  check_between_integers<u8, From>();
  check_between_integers<std::int16_t, From>();
  check_between_integers<u16, From>();
  check_between_integers<std::int32_t, From>();
  check_between_integers<u32, From>();
  check_between_integers<std::int64_t, From>();
  check_between_integers<u64, From>();
}

u16 narrow(float value, Format format, Rounding rounding, bool saturate = false) {
  return static_cast<u16>(encode(value, format, rounding, saturate));
}
u16 relu(u16 bits) {
  return bits & 0x8000 ? u16{0} : bits;
}

/// Pairs (a, b) so that both halves of a packed conversion see every value.
std::vector<std::tuple<float, float>> paired(const std::vector<std::tuple<float>>& values) {
  std::vector<std::tuple<float, float>> result;
  for (std::size_t at = 0; at < values.size(); ++at)
    result.emplace_back(std::get<0>(values[at]), std::get<0>(values[values.size() - 1 - at]));
  return result;
}

}  // namespace

TEST_CASE("Conversion.FloatsToIntegersRoundAndClamp") {
  check_to_integer<std::int16_t>();
  check_to_integer<u16>();
  check_to_integer<std::int32_t>();
  check_to_integer<u32>();
  check_to_integer<std::int64_t>();
  check_to_integer<u64>();
}

TEST_CASE("Conversion.FloatsToBytesClamp") {
  check_instruction("cvt.rni.s8.f32 $r, $0;",
                    [](float a) { return to_integer<std::int8_t>(a, Rounding::nearest_even); });
  check_instruction("cvt.rzi.u8.f32 $r, $0;",
                    [](float a) { return to_integer<u8>(a, Rounding::toward_zero); });
  check_instruction("cvt.rzi.u8.f64 $r, $0;", [](double a) {
    return std::isnan(a) ? u8{0x80} : to_integer<u8>(a, Rounding::toward_zero);
  });
  check_instruction("cvt.rmi.s8.f64 $r, $0;", [](double a) {
    return std::isnan(a) ? std::int8_t{-128} : to_integer<std::int8_t>(a, Rounding::down);
  });
  check_instruction("cvt.rni.sat.s8.f32 $r, $0;",
                    [](float a) { return to_integer<std::int8_t>(a, Rounding::nearest_even); });
}

TEST_CASE("Conversion.IntegersToFloatsRound") {
  check_from_integer<std::int8_t>();
  check_from_integer<u8>();
  check_from_integer<std::int16_t>();
  check_from_integer<u16>();
  check_from_integer<std::int32_t>();
  check_from_integer<u32>();
  check_from_integer<std::int64_t>();
  check_from_integer<u64>();
}

TEST_CASE("Conversion.BetweenIntegers") {
  check_from_one_integer<std::int8_t>();
  check_from_one_integer<u8>();
  check_from_one_integer<std::int16_t>();
  check_from_one_integer<u16>();
  check_from_one_integer<std::int32_t>();
  check_from_one_integer<u32>();
  check_from_one_integer<std::int64_t>();
  check_from_one_integer<u64>();
}

TEST_CASE("Conversion.WideningIsExactForAllPatterns") {
  const Tolerance nan{.any_nan = true};
  const auto f32 = [](Quad value) { return bit_copy<float>(static_cast<u32>(encode(value, kF32))); };
  check_instruction(
      "cvt.f32.f16 $r, $0;", [=](u16 a) { return f32(decode(a, kF16)); }, all_halves(), nan);
  check_instruction(
      "cvt.ftz.f32.f16 $r, $0;", [=](u16 a) { return f32(decode(a, kF16)); }, all_halves(), nan);
  check_instruction(
      "cvt.f64.f16 $r, $0;", [](u16 a) { return bit_copy<double>(encode(decode(a, kF16), kF64)); },
      all_halves(), nan);
  check_instruction(
      "cvt.f32.bf16 $r, $0;", [=](u16 a) { return f32(decode(a, kBf16)); }, all_halves(), nan);
  check_instruction(
      "mov.b32 $r, {0, $0};", [=](u16 a) { return f32(decode(a, kBf16)); }, all_halves(), nan);
  check_instruction(
      "cvt.f64.f32 $r, $0;", [](float a) { return bit_copy<double>(encode(a, kF64)); }, nan);
}

TEST_CASE("Conversion.NarrowingRoundsOnceFromEveryHalfwayCase") {
  const auto halves = floats_around(kF16), brains = floats_around(kBf16);
  for (const Mode mode : {kFloatModes[0], kFloatModes[1], kFloatModes[2], kFloatModes[3]})
    check_instruction(
        std::string("cvt.") + mode.name + ".f16.f32 $r, $0;",
        [=](float a) { return narrow(a, kF16, mode.rounding); }, halves);
  check_instruction(
      "cvt.rn.ftz.f16.f32 $r, $0;", [](float a) { return narrow(flush(a), kF16, Rounding::nearest_even); },
      halves);
  check_instruction(
      "cvt.rn.relu.f16.f32 $r, $0;", [](float a) { return relu(narrow(a, kF16, Rounding::nearest_even)); },
      halves);
  check_instruction(
      "cvt.rn.sat.f16.f32 $r, $0;",
      [](float a) {
        return std::isnan(a) ? u16{0}
                             : narrow(std::clamp(a, 0.0f, 1.0f) + 0.0f, kF16, Rounding::nearest_even);
      },
      halves);
  for (const Mode mode : {kFloatModes[0], kFloatModes[1]}) {
    const std::string name = mode.name;
    check_instruction(
        "cvt." + name + ".bf16.f32 $r, $0;", [=](float a) { return narrow(a, kBf16, mode.rounding); },
        brains);
    check_instruction(
        "cvt." + name + ".relu.bf16.f32 $r, $0;",
        [=](float a) { return relu(narrow(a, kBf16, mode.rounding)); }, brains);
    for (const auto& [type, format, inputs] :
         {std::tuple{"f16x2", kF16, halves}, std::tuple{"bf16x2", kBf16, brains}}) {
      const Format to = format;
      const auto both = [=](float a, float b) {
        return (u32{narrow(a, to, mode.rounding)} << 16) | narrow(b, to, mode.rounding);
      };
      check_instruction("cvt." + name + "." + type + ".f32 $r, $0, $1;", both, paired(inputs));
      check_instruction(
          "cvt." + name + ".relu." + type + ".f32 $r, $0, $1;",
          [=](float a, float b) {
            return (u32{relu(narrow(a, to, mode.rounding))} << 16) | relu(narrow(b, to, mode.rounding));
          },
          paired(inputs));
    }
  }
  check_instruction("cvt.rn.f16.f64 $r, $0;", [](double a) { return static_cast<u16>(encode(a, kF16)); });
  check_instruction("cvt.rn.bf16.f64 $r, $0;", [](double a) { return static_cast<u16>(encode(a, kBf16)); });
  for (const Mode mode : kFloatModes)
    check_instruction(std::string("cvt.") + mode.name + ".f32.f64 $r, $0;", [=](double a) {
      return bit_copy<float>(static_cast<u32>(encode(a, kF32, mode.rounding)));
    });
  check_instruction("cvt.rn.ftz.f32.f64 $r, $0;",
                    [](double a) { return flush(bit_copy<float>(static_cast<u32>(encode(a, kF32)))); });
  check_instruction("cvt.rna.tf32.f32 $r, $0;", [](float a) {
    return std::isnan(a) ? 0x7fffffffu : static_cast<u32>(encode(a, kTf32, Rounding::nearest_away)) << 13;
  });
}

TEST_CASE("Conversion.BrainFloatsToAndFromIntegers") {
  check_instruction(
      "cvt.rni.s32.bf16 $r, $0;",
      [](u16 a) { return to_integer<std::int32_t>(decode(a, kBf16), Rounding::nearest_even); }, all_halves());
  check_instruction(
      "cvt.rzi.u16.bf16 $r, $0;",
      [](u16 a) { return to_integer<u16>(decode(a, kBf16), Rounding::toward_zero); }, all_halves());
  check_instruction("cvt.rn.bf16.s32 $r, $0;",
                    [](std::int32_t a) { return static_cast<u16>(encode(Quad(a), kBf16)); });
  check_instruction("cvt.rn.bf16.u64 $r, $0;",
                    [](u64 a) { return static_cast<u16>(encode(Quad(a), kBf16)); });
  check_instruction(
      "cvt.rz.bf16.u16 $r, $0;",
      [](u16 a) { return static_cast<u16>(encode(Quad(a), kBf16, Rounding::toward_zero)); }, all_halves());
  check_instruction(
      "cvt.rn.bf16.f16 $r, $0;", [](u16 a) { return static_cast<u16>(encode(decode(a, kF16), kBf16)); },
      all_halves());
  check_instruction(
      "cvt.rn.f16.bf16 $r, $0;", [](u16 a) { return static_cast<u16>(encode(decode(a, kBf16), kF16)); },
      all_halves());
}

TEST_CASE("Conversion.RoundingToIntegralFloats") {
  for (const Mode mode : kIntegerModes) {
    const auto cvt = [&](const std::string& type) {
      return std::string("cvt.") + mode.name + "." + type + "." + type + " $r, $0;";
    };
    const auto integral = [=](Quad value) {
      return is_nan(value) ? value : round_to_integer(value, mode.rounding);
    };
    check_instruction(
        cvt("f32"), [=](float a) { return bit_copy<float>(static_cast<u32>(encode(integral(a), kF32))); },
        Tolerance{.any_nan = true});
    check_instruction(
        cvt("f64"), [=](double a) { return bit_copy<double>(encode(integral(a), kF64)); },
        Tolerance{.any_nan = true});
    check_instruction(
        cvt("f16"), [=](u16 a) { return static_cast<u16>(encode(integral(decode(a, kF16)), kF16)); },
        all_halves());
  }
  check_instruction("cvt.sat.f32.f32 $r, $0;",
                    [](float a) { return std::isnan(a) ? 0.0f : std::clamp(a, 0.0f, 1.0f) + 0.0f; });
  check_instruction(
      "cvt.ftz.f32.f32 $r, $0;", [](float a) { return flush(a); }, Tolerance{.any_nan = true});
}

TEST_CASE("Conversion.EightBitFloats") {
  const auto byte = [](float value, Format format) {
    return static_cast<u32>(encode(value, format, Rounding::nearest_even, true));
  };
  // An infinity saturates too; only NaN stays NaN.
  for (const auto& [name, format] : {std::pair{"e4m3x2", kE4m3}, std::pair{"e5m2x2", kE5m2}}) {
    const Format to = format;
    const std::string type = name;
    const auto pair = [=](float a, float b) { return static_cast<u16>((byte(a, to) << 8) | byte(b, to)); };
    auto inputs = floats_around(to);
    check_instruction("cvt.rn.satfinite." + type + ".f32 $r, $0, $1;", pair, paired(inputs));
    const auto positive = [=](u32 bits) { return bits & 0x80 ? 0u : bits; };
    check_instruction(
        "cvt.rn.satfinite.relu." + type + ".f32 $r, $0, $1;",
        [=](float a, float b) {
          return static_cast<u16>((positive(byte(a, to)) << 8) | positive(byte(b, to)));
        },
        paired(inputs));
    check_instruction(
        "mov.b32 %t0, {$0, $1}; cvt.rn.satfinite." + type + ".f16x2 $r, %t0;",
        [=](u16 low, u16 high) {
          return static_cast<u16>((encode(decode(high, kF16), to, Rounding::nearest_even, true) << 8) |
                                  encode(decode(low, kF16), to, Rounding::nearest_even, true));
        },
        [] {
          std::vector<std::tuple<u16, u16>> all;
          for (u32 bits = 0; bits < 65536; ++bits)
            all.emplace_back(static_cast<u16>(bits), static_cast<u16>(bits * 40503u));
          return all;
        }());
    check_instruction(
        "cvt.rn.f16x2." + type + " $r, $0;",
        [=](u16 a) {
          return static_cast<u32>((encode(decode(a >> 8, to), kF16) << 16) |
                                  encode(decode(a & 0xff, to), kF16));
        },
        all_halves());
  }
}
