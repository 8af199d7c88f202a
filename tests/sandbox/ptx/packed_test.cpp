// Half and brain-float arithmetic, scalar and packed, is rounded once from the exact result.
#include "instruction.h"

using namespace ptx_test;
using u16 = std::uint16_t;
using u32 = std::uint32_t;

namespace {

/// Patterns at which 16-bit formats behave oddly, both signs.
std::vector<u16> odd_patterns(Format format) {
  std::vector<u16> patterns;
  const u32 infinity = (u32{1} << (format.width() - 1)) - (u32{1} << format.mantissa_bits);
  const u32 one = static_cast<u32>(encode(1, format));
  for (const u32 bits : {0u,
                         1u,
                         2u,
                         3u,
                         (1u << format.mantissa_bits) - 1,
                         1u << format.mantissa_bits,
                         (1u << format.mantissa_bits) + 1,
                         one - 1,
                         one,
                         one + 1,
                         one + (1u << format.mantissa_bits) - 1,
                         one + (2u << format.mantissa_bits) + 1,
                         infinity - 1,
                         infinity - 2,
                         infinity,
                         infinity + 1,
                         infinity / 2 + 5,
                         infinity / 4 + 3,
                         infinity / 4 * 3 + 77,
                         0x7fffu}) {
    patterns.push_back(static_cast<u16>(bits));
    patterns.push_back(static_cast<u16>(bits | 0x8000));
  }
  return patterns;
}

std::vector<std::tuple<u16, u16>> pairs(Format format) {
  std::vector<std::tuple<u16, u16>> result;
  for (const u16 a : odd_patterns(format))
    for (const u16 b : odd_patterns(format)) result.emplace_back(a, b);
  std::mt19937 random(3);
  for (int at = 0; at < 20000; ++at)
    result.emplace_back(static_cast<u16>(random()), static_cast<u16>(random()));
  return result;
}

std::vector<std::tuple<u16, u16, u16>> triples(Format format) {
  std::vector<std::tuple<u16, u16, u16>> result;
  const auto odd = odd_patterns(format);
  std::mt19937 random(4);
  for (const u16 a : odd)
    for (const u16 b : odd)
      for (int at = 0; at < 6; ++at) result.emplace_back(a, b, odd[random() % odd.size()]);
  for (int at = 0; at < 20000; ++at)
    result.emplace_back(static_cast<u16>(random()), static_cast<u16>(random()), static_cast<u16>(random()));
  // Cases where a product rounded first would decide the last bit: c far from a * b.
  for (int at = 0; at < 20000; ++at) {
    const u16 a = static_cast<u16>(random()), b = static_cast<u16>(random());
    const u16 product = static_cast<u16>(encode(decode(a, format) * decode(b, format), format));
    const u32 distance = (static_cast<u32>(random()) % (2u * static_cast<u32>(format.mantissa_bits + 3)))
                         << format.mantissa_bits;
    result.emplace_back(a, b, static_cast<u16>(((product + distance) & 0x7fff) | (random() & 0x8000)));
  }
  return result;
}

struct Kind {
  std::string name;
  Format format;
};
const Kind kKinds[] = {{"f16", kF16}, {"bf16", kBf16}};

u16 round16(Quad value, Format format) {
  return static_cast<u16>(encode(value, format));
}
u16 fused(u16 a, u16 b, u16 c, Format format) {
  return round16(multiply_add(decode(a, format), decode(b, format), decode(c, format)), format);
}
u16 sum(u16 a, u16 b, Format format) {
  return fused(a, static_cast<u16>(encode(1, format)), b, format);
}
u16 product(u16 a, u16 b, Format format) {
  return round16(decode(a, format) * decode(b, format), format);
}
u16 negated(u16 a) {
  return static_cast<u16>(a ^ 0x8000);
}
u16 flush(u16 a, Format format) {
  return (a & 0x7fff) >> format.mantissa_bits == 0 ? static_cast<u16>(a & 0x8000) : a;
}

u16 extreme(u16 a, u16 b, Format format, bool larger, bool keep_nan) {
  const Quad left = decode(a, format), right = decode(b, format);
  const u16 nan = static_cast<u16>(canonical_nan(format));
  if (is_nan(left) && is_nan(right)) return nan;
  if (is_nan(left) || is_nan(right)) return keep_nan ? nan : is_nan(left) ? b : a;
  if (left == right) return is_negative(left) != larger ? a : b;
  return (left < right) != larger ? a : b;
}

/// Applies a two- or three-operand form to both halves of packed words.
template <class Function>
void check_pair(const Kind& kind, const std::string& instruction, const Function& scalar) {
  check_instruction(
      "mov.b32 %t0, {$0, $1}; mov.b32 %t1, {$1, $0}; " + instruction + " $r, %t0, %t1;",
      [=](u16 a, u16 b) { return static_cast<u32>(scalar(a, b)) | (static_cast<u32>(scalar(b, a)) << 16); },
      pairs(kind.format));
}

}  // namespace

TEST_CASE("Packed.ScalarArithmeticIsRoundedOnce") {
  for (const Kind& kind : kKinds) {
    const Format format = kind.format;
    const std::string suffix = ".rn." + kind.name + " $r, $0, $1";
    check_instruction(
        "add" + suffix + ";", [=](u16 a, u16 b) { return sum(a, b, format); }, pairs(format));
    check_instruction(
        "sub" + suffix + ";", [=](u16 a, u16 b) { return sum(a, negated(b), format); }, pairs(format));
    check_instruction(
        "mul" + suffix + ";", [=](u16 a, u16 b) { return product(a, b, format); }, pairs(format));
    check_instruction(
        "fma" + suffix + ", $2;", [=](u16 a, u16 b, u16 c) { return fused(a, b, c, format); },
        triples(format));
    check_instruction(
        "fma.rn.relu." + kind.name + " $r, $0, $1, $2;",
        [=](u16 a, u16 b, u16 c) {
          const u16 result = fused(a, b, c, format);
          return result & 0x8000 ? u16{0} : result;
        },
        triples(format));
  }
  check_instruction(
      "fma.rn.ftz.f16 $r, $0, $1, $2;",
      [](u16 a, u16 b, u16 c) {
        return flush(fused(flush(a, kF16), flush(b, kF16), flush(c, kF16), kF16), kF16);
      },
      triples(kF16));
  check_instruction(
      "fma.rn.sat.f16 $r, $0, $1, $2;",
      [](u16 a, u16 b, u16 c) {
        const u16 result = fused(a, b, c, kF16);
        if (is_nan(decode(result, kF16)) || result & 0x8000) return u16{0};
        return std::min<u16>(result, 0x3c00);
      },
      triples(kF16));
}

TEST_CASE("Packed.PairsComputeBothHalves") {
  for (const Kind& kind : kKinds) {
    const Format format = kind.format;
    const std::string suffix = ".rn." + kind.name + "x2";
    check_pair(kind, "add" + suffix, [=](u16 a, u16 b) { return sum(a, b, format); });
    check_pair(kind, "sub" + suffix, [=](u16 a, u16 b) { return sum(a, negated(b), format); });
    check_pair(kind, "mul" + suffix, [=](u16 a, u16 b) { return product(a, b, format); });
    check_instruction(
        "mov.b32 %t0, {$0, $1}; mov.b32 %t1, {$1, $2}; mov.b32 %t2, {$2, $0}; fma" + suffix +
            " $r, %t0, %t1, %t2;",
        [=](u16 a, u16 b, u16 c) {
          return static_cast<u32>(fused(a, b, c, format)) | (static_cast<u32>(fused(b, c, a, format)) << 16);
        },
        triples(format));
    for (const bool larger : {false, true}) {
      const std::string name = larger ? "max" : "min";
      check_pair(kind, name + "." + kind.name + "x2",
                 [=](u16 a, u16 b) { return extreme(a, b, format, larger, false); });
      check_pair(kind, name + ".NaN." + kind.name + "x2",
                 [=](u16 a, u16 b) { return extreme(a, b, format, larger, true); });
    }
  }
}

TEST_CASE("Packed.MinimaComparisonsAndSigns") {
  for (const Kind& kind : kKinds) {
    const Format format = kind.format;
    const auto value = [=](u16 a) { return decode(a, format); };
    const std::string type = kind.name;
    check_instruction(
        "min." + type + " $r, $0, $1;", [=](u16 a, u16 b) { return extreme(a, b, format, false, false); },
        pairs(format));
    check_instruction(
        "max." + type + " $r, $0, $1;", [=](u16 a, u16 b) { return extreme(a, b, format, true, false); },
        pairs(format));
    check_instruction(
        "max.NaN." + type + " $r, $0, $1;", [=](u16 a, u16 b) { return extreme(a, b, format, true, true); },
        pairs(format));
    check_instruction(
        "setp.lt." + type + " $r, $0, $1;", [=](u16 a, u16 b) { return value(a) < value(b); }, pairs(format));
    check_instruction(
        "setp.eq." + type + " $r, $0, $1;", [=](u16 a, u16 b) { return value(a) == value(b); },
        pairs(format));
    check_instruction(
        "setp.gtu." + type + " $r, $0, $1;", [=](u16 a, u16 b) { return !(value(a) <= value(b)); },
        pairs(format));
    check_instruction(
        "setp.nan." + type + " $r, $0, $1;",
        [=](u16 a, u16 b) { return is_nan(value(a)) || is_nan(value(b)); }, pairs(format));
    // Signs of NaN are not specified.
    const auto number = [=](u16 a, u16 result) { return is_nan(value(a)) ? u16{0} : result; };
    const std::string mask = " setp.nan." + type + " %p0, $0, $0; selp.b16 $r, 0, $r, %p0;";
    check_instruction(
        "neg." + type + " $r, $0;" + mask, [=](u16 a, u16) { return number(a, negated(a)); }, pairs(format));
    check_instruction(
        "abs." + type + " $r, $0;" + mask, [=](u16 a, u16) { return number(a, a & 0x7fff); }, pairs(format));
    check_instruction(
        "mov.b32 %t0, {$0, $1}; mov.b32 %t1, {$1, $0}; setp.lt." + type +
            "x2 %p0|%p1, %t0, %t1; selp.b32 $r, 1, 0, %p0; @%p1 or.b32 $r, $r, 2;",
        [=](u16 a, u16 b) { return u32{value(a) < value(b)} | (u32{value(b) < value(a)} << 1); },
        pairs(format));
    check_instruction(
        "set.lt.f16.f16 $r, $0, $1;",
        [](u16 a, u16 b) { return decode(a, kF16) < decode(b, kF16) ? u16{0x3c00} : u16{0}; }, pairs(kF16));
  }
}

TEST_CASE("Packed.HalfApproximationsAreClose") {
  // Compared as floats, since a tolerance on patterns means nothing.
  std::vector<std::tuple<u16>> inputs;
  for (u32 bits = 0x2000; bits < 0x4800; bits += 7) inputs.emplace_back(static_cast<u16>(bits));
  const auto value = [](u16 a) { return static_cast<float>(decode(a, kF16)); };
  check_instruction(
      "ex2.approx.f16 %h0, $0; cvt.f32.f16 $r, %h0;", [=](u16 a) { return std::exp2(value(a)); }, inputs,
      Tolerance{.relative = 0x1.2p-9});
  check_instruction(
      "tanh.approx.f16 %h0, $0; cvt.f32.f16 $r, %h0;", [=](u16 a) { return std::tanh(value(a)); }, inputs,
      Tolerance{.absolute = 0x1.2p-10});
}
