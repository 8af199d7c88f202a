// Names and numbers of atomic operations, shared by lowering and execution.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace sandbox::ptx {

enum class AtomicOp : std::uint8_t { add, min, max, bit_and, bit_or, bit_xor, inc, dec, exch, cas };
enum class AtomicType : std::uint8_t { u16, u32, s32, u64, s64, b128, f32, f64, f16, bf16, f16x2, bf16x2 };
enum class MbarrierOp : std::uint8_t { init, invalidate, arrive, drop, test, pending };

inline constexpr std::pair<std::string_view, AtomicOp> kAtomicNames[] = {
    {"add", AtomicOp::add},   {"min", AtomicOp::min},     {"max", AtomicOp::max}, {"and", AtomicOp::bit_and},
    {"or", AtomicOp::bit_or}, {"xor", AtomicOp::bit_xor}, {"inc", AtomicOp::inc}, {"dec", AtomicOp::dec},
    {"exch", AtomicOp::exch}, {"cas", AtomicOp::cas}};

inline std::optional<AtomicType> atomic_type(std::string_view type) {
  constexpr std::pair<std::string_view, AtomicType> names[] = {
      {"b16", AtomicType::u16},   {"u16", AtomicType::u16},     {"b32", AtomicType::u32},
      {"u32", AtomicType::u32},   {"s32", AtomicType::s32},     {"b64", AtomicType::u64},
      {"u64", AtomicType::u64},   {"s64", AtomicType::s64},     {"b128", AtomicType::b128},
      {"f32", AtomicType::f32},   {"f64", AtomicType::f64},     {"f16", AtomicType::f16},
      {"bf16", AtomicType::bf16}, {"f16x2", AtomicType::f16x2}, {"bf16x2", AtomicType::bf16x2}};
  for (const auto& [name, value] : names)
    if (name == type) return value;
  return std::nullopt;
}

}  // namespace sandbox::ptx
