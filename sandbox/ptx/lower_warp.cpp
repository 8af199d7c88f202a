// Lowering of what lanes of a warp do together.
#include "sandbox/ptx/lower.h"

namespace sandbox::ptx {

void Lowering::shfl() {
  if (!op_.take("sync")) unsupported("a shuffle without .sync");
  static const std::string_view modes[] = {"up", "down", "bfly", "idx"};
  int mode = -1;
  for (int k = 0; k < 4; ++k)
    if (op_.take(modes[k])) mode = k;
  if (mode < 0) unsupported("an unknown shuffle");
  const std::string_view type = op_.take_type();
  const Operand& result = operand(0);
  const int d = result.kind == Operand::Kind::reg ? result.reg : temporary(RegisterClass::b32);
  const int a = value(1, type), b = value(2, "u32"), c = value(3, "u32"), members = value(4, "u32");
  Pending& pending = emit(Op::shfl, d, {a, b, c, members});
  keep_guard(pending);
  pending.instr.x = static_cast<std::uint8_t>(mode);
  if (result.second >= 0) {
    pending.v[5] = result.second;
    pending.defines |= 1u << 5;
    pending.instr.imm = 1;
  }
}

/// x: 0 all, 1 any, 2 uni, 3 ballot
void Lowering::vote() {
  if (!op_.take("sync")) unsupported("a vote without .sync");
  static const std::string_view modes[] = {"all", "any", "uni", "ballot"};
  int mode = -1;
  for (int k = 0; k < 4; ++k)
    if (op_.take(modes[k])) mode = k;
  if (mode < 0) unsupported("an unknown vote");
  const std::string_view type = op_.take_type();
  const int p = predicate(operand(1)), members = value(2, "u32");
  Pending& pending = emit(Op::vote, target(0, type), {p, members});
  keep_guard(pending);
  pending.instr.x = static_cast<std::uint8_t>(mode);
}

/// x: 0 any, 1 all; y: bytes; r[4]: the predicate of match.all
void Lowering::match() {
  const bool all = op_.take("all");
  if (!all && !op_.take("any")) unsupported("an unknown match");
  if (!op_.take("sync")) unsupported("a match without .sync");
  const std::string_view type = op_.take_type();
  const Operand& result = operand(0);
  const int d = result.kind == Operand::Kind::reg ? result.reg : temporary(RegisterClass::b32);
  const int a = value(1, type), members = value(2, "u32");
  Pending& pending = emit(Op::match, d, {a, members});
  keep_guard(pending);
  pending.instr.x = all;
  pending.instr.y = static_cast<std::uint8_t>(type_bytes(type));
  if (result.second >= 0) {
    pending.v[4] = result.second;
    pending.defines |= 1u << 4;
    pending.instr.imm = 1;
  }
}

/// x: 0 add, 1 min, 2 max, 3 and, 4 or, 5 xor; y: 1 signed
void Lowering::redux() {
  if (!op_.take("sync")) unsupported("redux without .sync");
  static const std::string_view modes[] = {"add", "min", "max", "and", "or", "xor"};
  int mode = -1;
  for (int k = 0; k < 6; ++k)
    if (op_.take(modes[k])) mode = k;
  const std::string_view type = op_.take_type();
  if (mode < 0 || type == "f32") unsupported("an unknown reduction");
  const int a = value(1, type), members = value(2, "u32");
  Pending& pending = emit(Op::redux, target(0, type), {a, members});
  keep_guard(pending);
  pending.instr.x = static_cast<std::uint8_t>(mode);
  pending.instr.y = type[0] == 's';
}

/// elect.sync d|p, members: the lowest member is the leader
void Lowering::elect() {
  if (!op_.take("sync")) unsupported("elect without .sync");
  const Operand& result = operand(0);
  const int d = result.kind == Operand::Kind::reg ? result.reg : temporary(RegisterClass::b32);
  const int members = value(1, "u32");
  Pending& pending = emit(Op::elect, d, {members});
  keep_guard(pending);
  if (result.second < 0) unsupported("no predicate");
  pending.v[4] = result.second;
  pending.defines |= 1u << 4;
}

void Lowering::activemask() {
  const std::string_view type = op_.take_type();
  emit(Op::activemask, target(0, type), {}).instr.y = 4;
}

void Lowering::warp_sync() {
  emit(Op::warp_sync, -1, {value(0, "u32")});
}

}  // namespace sandbox::ptx
