// Integer instructions equal plain C++ at every width, edge values included.
#include <algorithm>
#include <bit>
#include <cstdlib>

#include "instruction.h"

using namespace ptx_test;
using s8 = std::int8_t;
using u8 = std::uint8_t;
using s16 = std::int16_t;
using u16 = std::uint16_t;
using s32 = std::int32_t;
using u32 = std::uint32_t;
using s64 = std::int64_t;
using u64 = std::uint64_t;
__extension__ typedef __int128 s128;
__extension__ typedef unsigned __int128 u128;

namespace {

template <class T>
using Wide = std::conditional_t<std::is_signed_v<T>, s128, u128>;
template <class T>
using Double = std::conditional_t<sizeof(T) == 2, std::conditional_t<std::is_signed_v<T>, s32, u32>,
                                  std::conditional_t<std::is_signed_v<T>, s64, u64>>;
template <class T>
constexpr int kWidth = static_cast<int>(sizeof(T) * 8);

template <class T>
std::string type_name() {
  return (std::is_signed_v<T> ? "s" : "u") + std::to_string(kWidth<T>);
}
template <class T>
std::string bits_name() {
  return "b" + std::to_string(kWidth<T>);
}

template <class T>
void check_arithmetic() {
  const std::string type = type_name<T>();
  using W = Wide<T>;
  check_instruction("add." + type + " $r, $0, $1;", [](T a, T b) { return static_cast<T>(W{a} + W{b}); });
  check_instruction("sub." + type + " $r, $0, $1;", [](T a, T b) { return static_cast<T>(W{a} - W{b}); });
  check_instruction("mul.lo." + type + " $r, $0, $1;", [](T a, T b) { return static_cast<T>(W{a} * W{b}); });
  check_instruction("mul.hi." + type + " $r, $0, $1;",
                    [](T a, T b) { return static_cast<T>((W{a} * W{b}) >> kWidth<T>); });
  check_instruction("mad.lo." + type + " $r, $0, $1, $2;", [](T a, T b, T c) {
    return static_cast<T>(static_cast<u128>(W{a} * W{b}) + static_cast<u128>(W{c}));
  });
  check_instruction("mad.hi." + type + " $r, $0, $1, $2;", [](T a, T b, T c) {
    return static_cast<T>(static_cast<u128>((W{a} * W{b}) >> kWidth<T>) + static_cast<u128>(W{c}));
  });
  check_instruction("min." + type + " $r, $0, $1;", [](T a, T b) { return std::min(a, b); });
  check_instruction("max." + type + " $r, $0, $1;", [](T a, T b) { return std::max(a, b); });
  check_instruction("sad." + type + " $r, $0, $1, $2;",
                    [](T a, T b, T c) { return static_cast<T>(W{c} + (a < b ? W{b} - W{a} : W{a} - W{b})); });
  // Division by zero is undefined: only that it does no harm is asked for, with a result that is then
  // ignored.
  check_instruction("setp.ne." + type + " %p0, $1, 0; div." + type + " $r, $0, $1; @!%p0 mov.b" +
                        std::to_string(kWidth<T>) + " $r, 77;",
                    [](T a, T b) { return b == 0 ? T{77} : static_cast<T>(W{a} / W{b}); });
  check_instruction("setp.ne." + type + " %p0, $1, 0; rem." + type + " $r, $0, $1; @!%p0 mov.b" +
                        std::to_string(kWidth<T>) + " $r, 77;",
                    [](T a, T b) { return b == 0 ? T{77} : static_cast<T>(W{a} % W{b}); });
  if constexpr (sizeof(T) < 8) {
    check_instruction("mul.wide." + type + " $r, $0, $1;",
                      [](T a, T b) { return static_cast<Double<T>>(W{a} * W{b}); });
    check_instruction("mad.wide." + type + " $r, $0, $1, $2;", [](T a, T b, Double<T> c) {
      return static_cast<Double<T>>(static_cast<u128>(W{a} * W{b}) + static_cast<u128>(Wide<T>{c}));
    });
  }
  if constexpr (std::is_signed_v<T>) {
    check_instruction("abs." + type + " $r, $0;", [](T a) { return static_cast<T>(a < 0 ? -W{a} : W{a}); });
    check_instruction("neg." + type + " $r, $0;", [](T a) { return static_cast<T>(-W{a}); });
  }
}

template <class T>
void check_shifts() {
  const std::string type = type_name<T>(), bits = bits_name<T>();
  check_instruction("shl." + bits + " $r, $0, $1;", [](T a, u32 n) {
    return static_cast<T>(n >= kWidth<T> ? u64{0} : static_cast<u64>(a) << n);
  });
  check_instruction("shr." + type + " $r, $0, $1;", [](T a, u32 n) {
    const u32 clamped = std::min<u32>(n, kWidth<T> - 1);
    if (std::is_signed_v<T>) return static_cast<T>(a >> clamped);
    return static_cast<T>(n >= kWidth<T> ? T{0} : static_cast<T>(a >> n));
  });
}

template <class T>
void check_comparisons() {
  const std::string type = type_name<T>();
  using U = std::make_unsigned_t<T>;
  check_instruction("setp.eq." + type + " $r, $0, $1;", [](T a, T b) { return a == b; });
  check_instruction("setp.ne." + type + " $r, $0, $1;", [](T a, T b) { return a != b; });
  check_instruction("setp.lt." + type + " $r, $0, $1;", [](T a, T b) { return a < b; });
  check_instruction("setp.le." + type + " $r, $0, $1;", [](T a, T b) { return a <= b; });
  check_instruction("setp.gt." + type + " $r, $0, $1;", [](T a, T b) { return a > b; });
  check_instruction("setp.ge." + type + " $r, $0, $1;", [](T a, T b) { return a >= b; });
  if constexpr (!std::is_signed_v<T>) {
    check_instruction("setp.lo." + type + " $r, $0, $1;", [](T a, T b) { return a < b; });
    check_instruction("setp.ls." + type + " $r, $0, $1;", [](T a, T b) { return a <= b; });
    check_instruction("setp.hi." + type + " $r, $0, $1;", [](T a, T b) { return a > b; });
    check_instruction("setp.hs." + type + " $r, $0, $1;", [](T a, T b) { return a >= b; });
  }
  check_instruction("setp.lt.and." + type + " $r, $0, $1, $2;", [](T a, T b, bool c) { return a < b && c; });
  check_instruction("setp.lt.or." + type + " $r, $0, $1, !$2;", [](T a, T b, bool c) { return a < b || !c; });
  check_instruction("setp.lt.xor." + type + " $r, $0, $1, $2;",
                    [](T a, T b, bool c) { return (a < b) != c; });
  check_instruction("setp.ge." + type + " %p0|$r, $0, $1;", [](T a, T b) { return a < b; });
  check_instruction("setp.ge.and." + type + " %p0|$r, $0, $1, $2;",
                    [](T a, T b, bool c) { return !(a >= b) && c; });
  check_instruction("set.lt.u32." + type + " $r, $0, $1;", [](T a, T b) { return a < b ? 0xffffffffu : 0u; });
  check_instruction("set.lt.f32." + type + " $r, $0, $1;", [](T a, T b) { return a < b ? 1.0f : 0.0f; });
  check_instruction("selp.b" + std::to_string(kWidth<T>) + " $r, $0, $1, $2;",
                    [](T a, T b, bool c) { return c ? a : b; });
  check_instruction("slct." + type + ".s32 $r, $0, $1, $2;", [](T a, T b, s32 c) { return c >= 0 ? a : b; });
  check_instruction("slct." + type + ".f32 $r, $0, $1, $2;",
                    [](T a, T b, float c) { return c >= 0 ? a : b; });
  static_assert(sizeof(U) == sizeof(T));
}

template <class T>
void check_logic() {
  const std::string bits = bits_name<T>();
  check_instruction("and." + bits + " $r, $0, $1;", [](T a, T b) { return static_cast<T>(a & b); });
  check_instruction("or." + bits + " $r, $0, $1;", [](T a, T b) { return static_cast<T>(a | b); });
  check_instruction("xor." + bits + " $r, $0, $1;", [](T a, T b) { return static_cast<T>(a ^ b); });
  check_instruction("not." + bits + " $r, $0;", [](T a) { return static_cast<T>(~a); });
  check_instruction("cnot." + bits + " $r, $0;", [](T a) { return static_cast<T>(a == 0); });
}

template <class T>
void check_bit_fields() {
  const std::string type = type_name<T>();
  using U = std::make_unsigned_t<T>;
  check_instruction("bfe." + type + " $r, $0, $1, $2;", [](T a, u32 position_word, u32 length_word) {
    const u32 position = position_word & 0xff, length = length_word & 0xff;
    const int top = kWidth<T> - 1;
    const auto bit = [&](u32 at) { return (static_cast<U>(a) >> at) & 1; };
    U sign = 0;
    if (std::is_signed_v<T> && length > 0)
      sign = static_cast<U>(bit(std::min<u32>(position + length - 1, static_cast<u32>(top))));
    U result = 0;
    for (u32 at = 0; at <= static_cast<u32>(top); ++at) {
      const bool inside = at < length && position + at <= static_cast<u32>(top);
      result |= static_cast<U>((inside ? bit(position + at) : sign) << at);
    }
    return static_cast<T>(result);
  });
  const std::string unsigned_only = type;
  check_instruction("bfind." + type + " $r, $0;", [](T a) {
    const U value = static_cast<U>(std::is_signed_v<T> && a < 0 ? ~a : a);
    return value == 0 ? 0xffffffffu : static_cast<u32>(kWidth<T> - 1 - std::countl_zero(value));
  });
  check_instruction("bfind.shiftamt." + type + " $r, $0;", [](T a) {
    const U value = static_cast<U>(std::is_signed_v<T> && a < 0 ? ~a : a);
    return value == 0 ? 0xffffffffu : static_cast<u32>(std::countl_zero(value));
  });
}

template <class U>
void check_bit_counts() {
  const std::string bits = bits_name<U>();
  check_instruction("popc." + bits + " $r, $0;", [](U a) { return static_cast<u32>(std::popcount(a)); });
  check_instruction("clz." + bits + " $r, $0;", [](U a) { return static_cast<u32>(std::countl_zero(a)); });
  check_instruction("brev." + bits + " $r, $0;", [](U a) {
    U result = 0;
    for (int bit = 0; bit < kWidth<U>; ++bit)
      result |= static_cast<U>(((a >> bit) & 1) << (kWidth<U> - 1 - bit));
    return result;
  });
  check_instruction(
      "bfi." + bits + " $r, $0, $1, $2, $3;", [](U from, U into, u32 position_word, u32 length_word) {
        const u32 position = position_word & 0xff, length = length_word & 0xff;
        U result = into;
        for (u32 at = 0; at < length && position + at < kWidth<U>; ++at) {
          const U mask = static_cast<U>(U{1} << (position + at));
          result = static_cast<U>((result & ~mask) | ((at < kWidth<U> && ((from >> at) & 1)) ? mask : U{0}));
        }
        return result;
      });
}

u32 permute(u32 a, u32 b, u32 selector, const std::string& mode) {
  const u64 pool = (u64{b} << 32) | a;
  const auto byte = [&](u32 index) { return static_cast<u32>((pool >> (8 * index)) & 0xff); };
  u32 result = 0;
  for (u32 at = 0; at < 4; ++at) {
    u32 value;
    const u32 two = selector & 3;
    if (mode.empty()) {
      const u32 nibble = (selector >> (4 * at)) & 0xf;
      value = byte(nibble & 7);
      if (nibble & 8) value = (value & 0x80) ? 0xff : 0;
    } else if (mode == "f4e") {
      value = byte(two + at);
    } else if (mode == "b4e") {
      value = byte((two + 8 - at) & 7);
    } else if (mode == "rc8") {
      value = byte(two);
    } else if (mode == "ecl") {
      value = byte(std::max(at, two));
    } else if (mode == "ecr") {
      value = byte(std::min(at, two));
    } else {  // rc16
      value = byte((two & 1) * 2 + (at & 1));
    }
    result |= value << (8 * at);
  }
  return result;
}

}  // namespace

TEST_CASE("Integer.ArithmeticOfEveryWidth") {
  check_arithmetic<s16>();
  check_arithmetic<u16>();
  check_arithmetic<s32>();
  check_arithmetic<u32>();
  check_arithmetic<s64>();
  check_arithmetic<u64>();
}

TEST_CASE("Integer.SaturatingForms") {
  const auto saturate = [](s64 value) {
    return static_cast<s32>(
        std::clamp<s64>(value, std::numeric_limits<s32>::min(), std::numeric_limits<s32>::max()));
  };
  check_instruction("add.sat.s32 $r, $0, $1;", [=](s32 a, s32 b) { return saturate(s64{a} + b); });
  check_instruction("sub.sat.s32 $r, $0, $1;", [=](s32 a, s32 b) { return saturate(s64{a} - b); });
  check_instruction("mad.hi.sat.s32 $r, $0, $1, $2;",
                    [=](s32 a, s32 b, s32 c) { return saturate(((s64{a} * b) >> 32) + c); });
  check_instruction("min.relu.s32 $r, $0, $1;", [](s32 a, s32 b) { return std::max(0, std::min(a, b)); });
  check_instruction("max.relu.s32 $r, $0, $1;", [](s32 a, s32 b) { return std::max(0, std::max(a, b)); });
}

TEST_CASE("Integer.TwentyFourBitForms") {
  const auto low24 = [](s32 a) { return static_cast<s32>(static_cast<u32>(a) << 8) >> 8; };
  check_instruction("mul24.lo.s32 $r, $0, $1;",
                    [=](s32 a, s32 b) { return static_cast<s32>(s64{low24(a)} * low24(b)); });
  check_instruction("mul24.lo.u32 $r, $0, $1;",
                    [](u32 a, u32 b) { return static_cast<u32>(u64{a & 0xffffff} * (b & 0xffffff)); });
  check_instruction("mul24.hi.u32 $r, $0, $1;", [](u32 a, u32 b) {
    return static_cast<u32>((u64{a & 0xffffff} * (b & 0xffffff)) >> 16);
  });
  check_instruction("mad24.lo.u32 $r, $0, $1, $2;", [](u32 a, u32 b, u32 c) {
    return static_cast<u32>(u64{a & 0xffffff} * (b & 0xffffff) + c);
  });
}

TEST_CASE("Integer.CarryChains") {
  check_instruction("add.cc.u32 %t0, $0, $1; addc.u32 $r, 0, 0;",
                    [](u32 a, u32 b) { return static_cast<u32>((u64{a} + b) >> 32); });
  check_instruction("add.cc.u32 %t0, $0, $1; addc.cc.u32 %t1, $0, $2; addc.u32 $r, $1, $2;",
                    [](u32 a, u32 b, u32 c) {
                      const u64 first = u64{a} + b;
                      const u64 second = u64{a} + c + (first >> 32);
                      return static_cast<u32>(u64{b} + c + (second >> 32));
                    });
  check_instruction("sub.cc.u32 %t0, $0, $1; subc.u32 $r, $2, $0;",
                    [](u32 a, u32 b, u32 c) { return static_cast<u32>(c - a - (a < b ? 1 : 0)); });
  check_instruction("sub.cc.u32 %t0, $0, $1; subc.cc.u32 %t1, $1, $2; subc.u32 $r, $2, $0;",
                    [](u32 a, u32 b, u32 c) {
                      const u32 first = a < b;
                      const u32 second = u64{b} < u64{c} + first;
                      return static_cast<u32>(c - a - second);
                    });
  // One flag serves both: after a subtraction it is set where nothing was borrowed.
  check_instruction("sub.cc.u32 %t0, $0, $1; addc.u32 $r, 0, 0;", [](u32 a, u32 b) { return u32{a >= b}; });
  check_instruction("add.cc.u32 %t0, $0, $1; subc.u32 $r, $2, $0;", [](u32 a, u32 b, u32 c) {
    return static_cast<u32>(c - a - (((u64{a} + b) >> 32) != 0 ? 0 : 1));
  });
  check_instruction("add.cc.u64 %w0, $0, $1; addc.u64 $r, $0, $1;", [](u64 a, u64 b) {
    return static_cast<u64>(a + b + static_cast<u64>((u128{a} + b) >> 64));
  });
  check_instruction("sub.cc.u64 %w0, $0, $1; subc.u64 $r, $0, $1;",
                    [](u64 a, u64 b) { return static_cast<u64>(a - b - (a < b ? 1 : 0)); });
  check_instruction("mad.lo.cc.u32 %t0, $0, $1, $2; madc.hi.u32 $r, $0, $1, $2;", [](u32 a, u32 b, u32 c) {
    const u64 low = u64{static_cast<u32>(a * b)} + c;
    return static_cast<u32>(((u64{a} * b) >> 32) + c + (low >> 32));
  });
  check_instruction("mad.lo.cc.u32 %t0, $0, $1, $2; madc.hi.cc.u32 %t1, $0, $1, $2; addc.u32 $r, 0, 0;",
                    [](u32 a, u32 b, u32 c) {
                      const u64 low = u64{static_cast<u32>(a * b)} + c;
                      return static_cast<u32>((((u64{a} * b) >> 32) + c + (low >> 32)) >> 32);
                    });
  check_instruction("mad.hi.cc.u32 %t0, $0, $1, $2; madc.lo.u32 $r, $0, $1, $2;", [](u32 a, u32 b, u32 c) {
    const u64 high = ((u64{a} * b) >> 32) + c;
    return static_cast<u32>(a * b + c + static_cast<u32>(high >> 32));
  });
}

TEST_CASE("Integer.ShiftsClampAtTheWidth") {
  check_shifts<s16>();
  check_shifts<u16>();
  check_shifts<s32>();
  check_shifts<u32>();
  check_shifts<s64>();
  check_shifts<u64>();
}

TEST_CASE("Integer.FunnelShifts") {
  const auto left = [](u32 low, u32 high, u32 amount) {
    return static_cast<u32>((((u64{high} << 32) | low) << amount) >> 32);
  };
  const auto right = [](u32 low, u32 high, u32 amount) {
    return static_cast<u32>(((u64{high} << 32) | low) >> amount);
  };
  check_instruction("shf.l.wrap.b32 $r, $0, $1, $2;",
                    [=](u32 a, u32 b, u32 c) { return left(a, b, c & 31); });
  check_instruction("shf.r.wrap.b32 $r, $0, $1, $2;",
                    [=](u32 a, u32 b, u32 c) { return right(a, b, c & 31); });
  check_instruction("shf.l.clamp.b32 $r, $0, $1, $2;",
                    [=](u32 a, u32 b, u32 c) { return left(a, b, std::min(c, 32u)); });
  check_instruction("shf.r.clamp.b32 $r, $0, $1, $2;",
                    [=](u32 a, u32 b, u32 c) { return right(a, b, std::min(c, 32u)); });
}

TEST_CASE("Integer.ComparisonsAndSelections") {
  check_comparisons<s16>();
  check_comparisons<u16>();
  check_comparisons<s32>();
  check_comparisons<u32>();
  check_comparisons<s64>();
  check_comparisons<u64>();
}

TEST_CASE("Integer.Logic") {
  check_logic<u16>();
  check_logic<u32>();
  check_logic<u64>();
  check_instruction("and.pred $r, $0, $1;", [](bool a, bool b) { return a && b; });
  check_instruction("or.pred $r, $0, $1;", [](bool a, bool b) { return a || b; });
  check_instruction("xor.pred $r, $0, $1;", [](bool a, bool b) { return a != b; });
  check_instruction("not.pred $r, $0;", [](bool a) { return !a; });
  check_instruction("mov.pred $r, $0;", [](bool a) { return a; });
}

TEST_CASE("Integer.EveryLogicTableOfThreeOperands") {
  const auto inputs = operands<u32, u32, u32>(100);
  const std::vector<std::tuple<u32, u32, u32>> few(inputs.end() - 100, inputs.end());
  for (u32 table = 0; table < 256; ++table) {
    check_instruction(
        "lop3.b32 $r, $0, $1, $2, " + std::to_string(table) + ";",
        [table](u32 a, u32 b, u32 c) {
          u32 result = 0;
          for (int bit = 0; bit < 32; ++bit) {
            const u32 row = (((a >> bit) & 1) << 2) | (((b >> bit) & 1) << 1) | ((c >> bit) & 1);
            result |= ((table >> row) & 1) << bit;
          }
          return result;
        },
        few);
  }
  check_instruction("lop3.or.b32 %t0|$r, $0, $1, $2, 0x80, $3;",
                    [](u32 a, u32 b, u32 c, bool q) { return (a & b & c) != 0 || q; });
}

TEST_CASE("Integer.BitFieldsAndCounts") {
  check_bit_fields<s32>();
  check_bit_fields<u32>();
  check_bit_fields<s64>();
  check_bit_fields<u64>();
  check_bit_counts<u32>();
  check_bit_counts<u64>();
  check_instruction("bmsk.clamp.b32 $r, $0, $1;", [](u32 position, u32 length) {
    u32 result = 0;
    for (u32 bit = 0; bit < 32; ++bit)
      if (bit >= position && bit - position < length) result |= 1u << bit;
    return result;
  });
  check_instruction("bmsk.wrap.b32 $r, $0, $1;", [](u32 position, u32 length) {
    u32 result = 0;
    for (u32 bit = 0; bit < 32; ++bit)
      if (bit >= (position & 31) && bit - (position & 31) < (length & 31)) result |= 1u << bit;
    return result;
  });
  check_instruction("szext.wrap.s32 $r, $0, $1;", [](s32 a, u32 bits) {
    const u32 width = bits & 31;
    return width == 0 ? 0 : static_cast<s32>(static_cast<u32>(a) << (32 - width)) >> (32 - width);
  });
  check_instruction("szext.clamp.u32 $r, $0, $1;",
                    [](u32 a, u32 bits) { return bits >= 32 ? a : a & ((u32{1} << bits) - 1); });
}

TEST_CASE("Integer.BytePermutesInEveryMode") {
  for (const std::string mode : {"", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) {
    const std::string name = mode.empty() ? "prmt.b32" : "prmt.b32." + mode;
    check_instruction(name + " $r, $0, $1, $2;", [=](u32 a, u32 b, u32 c) { return permute(a, b, c, mode); });
  }
  for (const u32 selector : {0x3210u, 0x7654u, 0x0123u, 0x5410u, 0x7632u, 0xba98u, 0x4140u, 0x8888u})
    check_instruction("prmt.b32 $r, $0, $1, " + std::to_string(selector) + ";",
                      [=](u32 a, u32 b) { return permute(a, b, selector, ""); });
}

TEST_CASE("Integer.DotProducts") {
  const auto byte = [](u32 word, int at, bool is_signed) {
    const u32 value = (word >> (8 * at)) & 0xff;
    return is_signed ? static_cast<s32>(static_cast<std::int8_t>(value)) : static_cast<s32>(value);
  };
  const auto half = [](u32 word, int at, bool is_signed) {
    const u32 value = (word >> (16 * at)) & 0xffff;
    return is_signed ? static_cast<s32>(static_cast<s16>(value)) : static_cast<s32>(value);
  };
  for (const bool a_signed : {false, true})
    for (const bool b_signed : {false, true}) {
      const std::string types = std::string(a_signed ? ".s32" : ".u32") + (b_signed ? ".s32" : ".u32");
      check_instruction("dp4a" + types + " $r, $0, $1, $2;", [=](u32 a, u32 b, u32 c) {
        u32 sum = c;
        for (int at = 0; at < 4; ++at) sum += static_cast<u32>(byte(a, at, a_signed) * byte(b, at, b_signed));
        return sum;
      });
      for (const int high : {0, 1})
        check_instruction(std::string("dp2a") + (high ? ".hi" : ".lo") + types + " $r, $0, $1, $2;",
                          [=](u32 a, u32 b, u32 c) {
                            u32 sum = c;
                            for (int at = 0; at < 2; ++at)
                              sum +=
                                  static_cast<u32>(half(a, at, a_signed) * byte(b, 2 * high + at, b_signed));
                            return sum;
                          });
    }
}

TEST_CASE("Integer.DifferencesOfBytes") {
  const auto difference = [](u32 a, u32 b, int at, bool is_signed) {
    const auto x = static_cast<u8>(a >> (8 * at)), y = static_cast<u8>(b >> (8 * at));
    return static_cast<u32>(is_signed ? std::abs(static_cast<s8>(x) - static_cast<s8>(y)) : std::abs(x - y));
  };
  for (const bool is_signed : {false, true}) {
    const std::string types = is_signed ? ".s32.s32.s32" : ".u32.u32.u32";
    check_instruction("vabsdiff4" + types + " $r, $0, $1, $1;", [=](u32 a, u32 b) {
      u32 result = 0;
      for (int at = 0; at < 4; ++at) result |= (difference(a, b, at, is_signed) & 0xff) << (8 * at);
      return result;
    });
    check_instruction("vabsdiff4" + types + ".add $r, $0, $1, $2;", [=](u32 a, u32 b, u32 c) {
      for (int at = 0; at < 4; ++at) c += difference(a, b, at, is_signed);
      return c;
    });
  }
}

TEST_CASE("Integer.PairsOfSixteenBits") {
  const auto pairwise = [](u32 a, u32 b, auto function) {
    const u32 low = static_cast<u32>(function(static_cast<u16>(a), static_cast<u16>(b))) & 0xffff;
    const u32 high =
        static_cast<u32>(function(static_cast<u16>(a >> 16), static_cast<u16>(b >> 16))) & 0xffff;
    return low | (high << 16);
  };
  check_instruction("add.u16x2 $r, $0, $1;",
                    [=](u32 a, u32 b) { return pairwise(a, b, [](u16 x, u16 y) { return x + y; }); });
  check_instruction("min.u16x2 $r, $0, $1;", [=](u32 a, u32 b) {
    return pairwise(a, b, [](u16 x, u16 y) { return std::min(x, y); });
  });
  check_instruction("max.s16x2 $r, $0, $1;", [=](u32 a, u32 b) {
    return pairwise(a, b, [](u16 x, u16 y) { return std::max(static_cast<s16>(x), static_cast<s16>(y)); });
  });
  check_instruction("min.s16x2 $r, $0, $1;", [=](u32 a, u32 b) {
    return pairwise(a, b, [](u16 x, u16 y) { return std::min(static_cast<s16>(x), static_cast<s16>(y)); });
  });
}

TEST_CASE("Integer.VectorMoves") {
  check_instruction("mov.b64 {%t0, %t1}, $0; mov.b64 $r, {%t1, %t0};",
                    [](u64 a) { return (a << 32) | (a >> 32); });
  check_instruction("mov.b32 {%h0, %h1}, $0; mov.b32 $r, {%h1, %h0};",
                    [](u32 a) { return (a << 16) | (a >> 16); });
  check_instruction("mov.b64 {%h0, %h1, %h2, %h3}, $0; mov.b64 $r, {%h3, %h2, %h1, %h0};", [](u64 a) {
    return (a << 48) | ((a & 0xffff0000u) << 16) | ((a >> 16) & 0xffff0000u) | (a >> 48);
  });
  check_instruction("mov.b64 {_, $r}, $0;", [](u64 a) { return static_cast<u32>(a >> 32); });
  check_instruction("{ .reg .b32 t; mov.b32 t, $0; { .reg .b32 t; mov.b32 t, 5; } add.u32 $r, t, 1; }",
                    [](u32 a) { return a + 1; });
}
