// Runs one PTX instruction (or a few) over arrays of operands and compares with a C++ function.
//
// A body is PTX with $r for the result and $0, $1, ... for the operands. Register types follow from the C++
// types of the function: integers of 1 and 2 bytes are .b16, others .b32/.b64; float .f32; double .f64; bool
// a predicate. Values travel as bits with a letter for their kind, so that a check costs the compiler one
// small function.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "binary_format.h"
#include "program.h"
#include "support/catch.h"

namespace ptx_test {

template <std::size_t Bytes>
using BitsOf =
    std::conditional_t<Bytes == 1, std::uint8_t,
                       std::conditional_t<Bytes == 2, std::uint16_t,
                                          std::conditional_t<Bytes == 4, std::uint32_t, std::uint64_t>>>;

template <class T>
auto raw_bits(T value) {
  return bit_copy<BitsOf<sizeof(T)>>(value);
}
template <class T>
T from_raw_bits(std::uint64_t bits) {
  if constexpr (std::is_same_v<T, bool>)
    return bits != 0;
  else
    return bit_copy<T>(static_cast<BitsOf<sizeof(T)>>(bits));
}

/// Letter of a C++ type: 'p' predicate, 'c' 1 byte, 'h' 2, 'w' 4, 'l' 8, 'f' float, 'd' double.
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

/// How a result may differ from the function's.
struct Tolerance {
  bool any_nan = false;  // any NaN pattern will do where the function gives NaN
  double relative = 0;   // for approximate instructions
  double absolute = 0;
};

/// Bits of the operands of many runs, one row after the other.
using Rows = std::vector<std::uint64_t>;

/// Values at which instructions of a kind behave oddly, and some ordinary ones.
Rows interesting_bits(char kind);
/// Every combination of interesting values (thinned for three operands) and random ones.
Rows default_rows(const std::string& kinds, std::size_t random_count = 300);

template <class T>
std::vector<T> interesting() {
  std::vector<T> values;
  for (const std::uint64_t bits : interesting_bits(kind_of<T>())) values.push_back(from_raw_bits<T>(bits));
  return values;
}

template <class... A, std::size_t... I>
std::tuple<A...> tuple_from(const std::uint64_t* bits, std::index_sequence<I...>) {
  return {from_raw_bits<A>(bits[I])...};
}
/// The same as values.
template <class... A>
std::vector<std::tuple<A...>> operands(std::size_t random_count = 300) {
  const Rows rows = default_rows({kind_of<A>()...}, random_count);
  std::vector<std::tuple<A...>> result;
  for (std::size_t at = 0; at < rows.size(); at += sizeof...(A))
    result.push_back(tuple_from<A...>(rows.data() + at, std::index_sequence_for<A...>{}));
  return result;
}
template <class... A>
Rows rows_of(const std::vector<std::tuple<A...>>& inputs) {
  Rows rows;
  for (const auto& input : inputs)
    std::apply([&](auto... value) { (rows.push_back(raw_bits(value)), ...); }, input);
  return rows;
}

/// A function from bits to bits, and the kinds of both.
struct Subject {
  std::string operand_kinds;
  char result_kind;
  const void* function;
  std::uint64_t (*call)(const void* function, const std::uint64_t* operands);
};

template <class F, class R, class... A>
struct Caller {
  static std::uint64_t call(const void* function, const std::uint64_t* operands) {
    return call(*static_cast<const F*>(function), operands, std::index_sequence_for<A...>{});
  }
  template <std::size_t... I>
  static std::uint64_t call(const F& function, const std::uint64_t* operands, std::index_sequence<I...>) {
    return raw_bits(function(from_raw_bits<A>(operands[I])...));
  }
};
template <class F, class R, class... A>
Subject subject_of(const F& function, R (F::*)(A...) const) {
  return {{kind_of<A>()...}, kind_of<R>(), &function, &Caller<F, R, A...>::call};
}

/// The text of a kernel that applies `body` to arrays.
std::string kernel_text(const std::string& body, const std::string& operand_kinds, char result_kind);
void check_rows(const std::string& body, const Subject& subject, const Rows& rows,
                const Tolerance& tolerance);

/// Compares `body` with `function` (a lambda with plain parameter types) on default operands.
template <class Function>
void check_instruction(const std::string& body, const Function& function, const Tolerance& tolerance = {}) {
  const Subject subject = subject_of(function, &Function::operator());
  check_rows(body, subject, default_rows(subject.operand_kinds), tolerance);
}
/// The same on operands of the caller's choice.
template <class Function, class... A>
void check_instruction(const std::string& body, const Function& function,
                       const std::vector<std::tuple<A...>>& inputs, const Tolerance& tolerance = {}) {
  check_rows(body, subject_of(function, &Function::operator()), rows_of(inputs), tolerance);
}

}  // namespace ptx_test
