// Lowered code: fixed-size instructions whose operands are byte offsets into a warp's register file.
#pragma once

#include <cstdint>

namespace sandbox::ptx {

struct Warp;
struct Instr;

/// Executes one instruction for the warp's active lanes; returns the next one, or nullptr-like kStop to leave
/// the loop.
using Handler = const Instr* (*)(Warp&, const Instr*);

enum class Op : std::uint16_t {
#define UNARY(name, ...) name,
#define BINARY(name, ...) name,
#define TERNARY(name, ...) name,
#define QUATERNARY(name, ...) name,
#define COMPARE(name, ...) name,
#define COMPARE1(name, ...) name,
#define SELECT(name, ...) name,
#define HALF1(name, ...) name##_f16, name##_bf16, name##_f16x2, name##_bf16x2,
#define HALF2 HALF1
#define HALF3 HALF1
#define SPECIAL(name) name,
#include "sandbox/ptx/ops/all.def"
  count
};

inline constexpr int kLanes = 32;
inline constexpr std::uint32_t kAllLanes = ~std::uint32_t{0};

// Fixed places at the start of every register file.
inline constexpr std::uint32_t kTrueSlot = 0;   // a predicate that is always true
inline constexpr std::uint32_t kCarrySlot = 4;  // the carry of add.cc, a predicate
inline constexpr std::uint32_t kFirstSlot = 64;

/// How a memory instruction finds its addresses: r[1] and imm.
enum class AddressForm : std::uint8_t { absolute, register32, register64, frame };

/// Bits of Instr::x of memory instructions, above the space.
inline constexpr std::uint8_t kSpaceMask = 7;
inline constexpr std::uint8_t kStrongAccess =
    8;  // volatile, relaxed, acquire, release: indivisible, may be a spin
inline constexpr std::uint8_t kReleasingAccess = 16;  // strong, and a fence of its own for what came before

/// Bits of Instr::y of instructions that run in another floating-point mode (fn = modal).
inline constexpr std::uint8_t kRoundingMask = 3;  // 0 nearest, 1 toward zero, 2 down, 3 up
inline constexpr std::uint8_t kFlush = 4;         // subnormal operands and results become zero

struct alignas(64) Instr {
  Handler fn = nullptr;
  std::uint32_t r[8] = {};  // r[0] result; r[1], r[2], r[3] operands; r[4..7] more of either
  std::uint32_t guard = kTrueSlot;
  std::uint32_t flip = 0;     // kAllLanes: the guard is negated
  std::int64_t imm = 0;       // displacement, distance to a branch target, pointer, selector
  std::uint32_t ordinal = 0;  // PTX instructions before this one in its function
  Op op = Op::nop;
  std::uint8_t x = 0, y = 0;
};
static_assert(sizeof(Instr) == 64);

}  // namespace sandbox::ptx
