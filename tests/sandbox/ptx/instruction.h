// Runs one PTX instruction (or a few) over arrays of operands and compares with a C++ function.
//
// A body is PTX with $r for the result and $0, $1, ... for the operands. Register types follow from the C++
// types of the function: integers of 1 and 2 bytes are .b16, others .b32/.b64; float .f32; double .f64; bool
// a predicate.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "binary_format.h"
#include "program.h"
#include "support/catch.h"

namespace ptx_test {

template <class T>
using Stored = std::conditional_t<std::is_same_v<T, bool>, std::uint32_t, T>;

template <std::size_t Bytes>
using BitsOf =
    std::conditional_t<Bytes == 1, std::uint8_t,
                       std::conditional_t<Bytes == 2, std::uint16_t,
                                          std::conditional_t<Bytes == 4, std::uint32_t, std::uint64_t>>>;

template <class T>
auto raw_bits(T value) {
  return bit_copy<BitsOf<sizeof(T)>>(value);
}

/// How a result may differ from the function's.
struct Tolerance {
  bool any_nan = false;  // any NaN pattern will do where the function gives NaN
  double relative = 0;   // for approximate instructions
  double absolute = 0;
};

template <class T>
bool matches(T actual, T expected, const Tolerance& tolerance) {
  if (raw_bits(actual) == raw_bits(expected)) return true;
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(expected)) return tolerance.any_nan && std::isnan(actual);
    if (std::isinf(expected) || std::isnan(actual) || std::isinf(actual)) return false;
    const double difference = std::fabs(static_cast<double>(actual) - static_cast<double>(expected));
    return (tolerance.relative > 0 &&
            difference <= tolerance.relative * std::fabs(static_cast<double>(expected))) ||
           (tolerance.absolute > 0 && difference <= tolerance.absolute);
  }
  return false;
}

/// Values at which instructions of a type behave oddly, and some ordinary ones.
template <class T>
std::vector<T> interesting() {
  using Bits = BitsOf<sizeof(T)>;
  std::vector<T> values;
  if constexpr (std::is_same_v<T, bool>) {
    values = {false, true};
  } else if constexpr (std::is_same_v<T, float>) {
    const float infinity = std::numeric_limits<float>::infinity();
    values = {0.0f,
              -0.0f,
              1.0f,
              -1.0f,
              0.5f,
              1.5f,
              -2.5f,
              3.5f,
              0x1.fffffep-1f,
              0x1.000002p0f,
              1e-20f,
              3.1415927f,
              -1e10f,
              0x1p-149f,
              -0x1p-149f,
              0x1.fffffcp-127f,
              0x1p-126f,
              -0x1.8p-127f,
              0x1p23f,
              0x1.000001p24f,
              0x1p31f,
              -0x1p31f,
              0x1p63f,
              0x1.fffffep127f,
              -0x1.fffffep127f,
              0x1p64f,
              infinity,
              -infinity,
              bit_copy<float>(0x7fc00001u),
              bit_copy<float>(0xff812345u),
              255.5f,
              127.5f,
              -128.5f,
              65535.5f,
              0x1.4p-60f,
              -0x1.8p90f};
  } else if constexpr (std::is_same_v<T, double>) {
    const double infinity = std::numeric_limits<double>::infinity();
    values = {0.0,
              -0.0,
              1.0,
              -1.0,
              0.5,
              1.5,
              -2.5,
              3.5,
              0x1.fffffffffffffp-1,
              0x1.0000000000001p0,
              1e-200,
              3.14159265358979,
              -1e100,
              0x1p-1074,
              -0x1p-1074,
              0x1.ffffffffffffep-1023,
              0x1p-1022,
              0x1p52,
              0x1.00000000000008p53,
              0x1p31,
              -0x1p63,
              0x1p64,
              0x1.fffffffffffffp1023,
              -0x1.fffffffffffffp1023,
              infinity,
              -infinity,
              std::nan(""),
              0x1.fffffep127,
              0x1.ffffffp127,
              0x1.000001p0,
              0x1p-150,
              0x1.8p-149};
  } else {
    for (Bits bits :
         {Bits{0}, Bits{1}, Bits{2}, Bits{3}, Bits{7}, Bits{31}, Bits{32}, Bits{33}, Bits{64}, Bits{100}}) {
      values.push_back(static_cast<T>(bits));
      values.push_back(static_cast<T>(static_cast<Bits>(~bits)));
    }
    const Bits top = static_cast<Bits>(Bits{1} << (sizeof(T) * 8 - 1));
    for (Bits bits : {top, static_cast<Bits>(top - 1), static_cast<Bits>(top + 1),
                      static_cast<Bits>(0x5a5a5a5a5a5a5a5aull), static_cast<Bits>(0x123456789abcdef0ull),
                      static_cast<Bits>(0x00ff00ff00ff80ffull)})
      values.push_back(static_cast<T>(bits));
  }
  return values;
}

template <class T>
T random_value(std::mt19937_64& random) {
  if constexpr (std::is_same_v<T, bool>) {
    return (random() & 1) != 0;
  } else {
    return bit_copy<T>(static_cast<BitsOf<sizeof(T)>>(random()));
  }
}

/// Every combination of interesting values (thinned for three operands) and random ones.
template <class... A>
std::vector<std::tuple<A...>> operands(std::size_t random_count = 300) {
  std::vector<std::tuple<A...>> result;
  const std::tuple<std::vector<A>...> lists{interesting<A>()...};
  std::size_t total = 1;
  std::apply([&](const auto&... list) { ((total *= list.size()), ...); }, lists);
  const std::size_t limit = 6000;
  // A stride without common factors visits combinations evenly.
  const std::size_t stride = total > limit ? (total / limit) | 1 : 1;
  for (std::size_t index = 0; index < total; index += stride) {
    std::size_t rest = index;
    auto take = [&](const auto& list) {
      const auto value = list[rest % list.size()];
      rest /= list.size();
      return value;
    };
    std::apply([&](const auto&... list) { result.push_back(std::tuple<A...>{take(list)...}); }, lists);
  }
  std::mt19937_64 random(42);
  for (std::size_t index = 0; index < random_count; ++index)
    result.push_back(std::tuple<A...>{random_value<A>(random)...});
  return result;
}

/// The text of a kernel that applies `body` to arrays; exposed so that the text itself can be tested.
std::string kernel_text(const std::string& body, const std::vector<char>& operand_kinds, char result_kind);

/// Register kind letter of a C++ type: 'p' predicate, 'c' 1 byte, 'h' 2, 'w' 4, 'l' 8, 'f' float, 'd' double.
template <class T>
constexpr char kind_of() {
  if constexpr (std::is_same_v<T, bool>)
    return 'p';
  else if constexpr (std::is_same_v<T, float>)
    return 'f';
  else if constexpr (std::is_same_v<T, double>)
    return 'd';
  else
    return sizeof(T) == 1 ? 'c' : sizeof(T) == 2 ? 'h' : sizeof(T) == 4 ? 'w' : 'l';
}

template <class T>
std::string show(T value) {
  std::ostringstream stream;
  stream << std::hex << "0x" << static_cast<std::uint64_t>(raw_bits(value));
  if constexpr (std::is_floating_point_v<T>) stream << " (" << value << ")";
  return stream.str();
}

template <class R, class... A, class Function, std::size_t... I>
void check_instruction_on(const std::string& body, const Function& function,
                          const std::vector<std::tuple<A...>>& inputs, const Tolerance& tolerance,
                          std::index_sequence<I...>) {
  Program program = Program::from_text(kernel_text(body, {kind_of<A>()...}, kind_of<R>()));
  const auto column = [&](auto index) {
    using T = std::tuple_element_t<index.value, std::tuple<A...>>;
    std::vector<Stored<T>> values;
    values.reserve(inputs.size());
    for (const auto& input : inputs) values.push_back(std::get<index.value>(input));
    return values;
  };
  const std::tuple<DeviceArray<Stored<A>>...> arrays{column(std::integral_constant<std::size_t, I>{})...};
  DeviceArray<Stored<R>> results(inputs.size());
  const auto count = static_cast<std::uint32_t>(inputs.size());
  INFO(body);
  const auto fault = program.try_launch("test", threads((count + 127) / 128, 128), results.data(), count,
                                        std::get<I>(arrays).data()...);
  if (fault) {
    FAIL_CHECK(fault->message);
    return;
  }
  std::size_t wrong = 0;
  std::string first;
  for (std::size_t row = 0; row < inputs.size(); ++row) {
    const auto expected = static_cast<Stored<R>>(std::apply(function, inputs[row]));
    if (matches<Stored<R>>(results[row], expected, tolerance)) continue;
    if (wrong++ == 0) {
      first = "got " + show(results[row]) + ", expected " + show(expected) + " for";
      ((first += " " + show<Stored<A>>(std::get<I>(inputs[row]))), ...);
    }
  }
  INFO(wrong << " of " << inputs.size() << " wrong, first: " << first);
  CHECK(wrong == 0);
}

template <class R, class... A>
struct Signature {};
template <class F, class R, class... A>
Signature<R, A...> signature_of(R (F::*)(A...) const);

template <class Function, class R, class... A>
void check_instruction_as(const std::string& body, const Function& function, Signature<R, A...>,
                          const std::vector<std::tuple<A...>>& inputs, const Tolerance& tolerance) {
  check_instruction_on<R, A...>(body, function, inputs, tolerance, std::index_sequence_for<A...>{});
}
template <class R, class... A>
std::vector<std::tuple<A...>> default_operands(Signature<R, A...>) {
  return operands<A...>();
}

/// Compares `body` with `function` (a lambda with plain parameter types) on default operands.
template <class Function>
void check_instruction(const std::string& body, const Function& function, const Tolerance& tolerance = {}) {
  const decltype(signature_of(&Function::operator())) signature;
  check_instruction_as(body, function, signature, default_operands(signature), tolerance);
}
/// The same on operands of the caller's choice.
template <class Function, class... A>
void check_instruction(const std::string& body, const Function& function,
                       const std::vector<std::tuple<A...>>& inputs, const Tolerance& tolerance = {}) {
  const decltype(signature_of(&Function::operator())) signature;
  check_instruction_as(body, function, signature, inputs, tolerance);
}

}  // namespace ptx_test
