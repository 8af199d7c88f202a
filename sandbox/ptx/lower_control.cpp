// Lowering of branches, calls and barriers.
#include "sandbox/ptx/lower.h"

namespace sandbox::ptx {
namespace {

SystemCall system_call_of(std::string_view name) {
  if (name == "vprintf") return SystemCall::print;
  if (name == "__assertfail") return SystemCall::assert_fail;
  if (name == "malloc") return SystemCall::allocate;
  if (name == "free") return SystemCall::release;
  return SystemCall::none;
}

}  // namespace

void Lowering::bra() {
  op_.take("uni");
  if (operand(0).kind != Operand::Kind::label) unsupported("the target must be a label");
  emit(Op::bra, -1, {}).select = static_cast<int>(operand(0).bits);
}

void Lowering::brx() {
  if (!op_.take("idx")) unsupported("not an indexed branch");
  op_.take("uni");
  const int index = value(0, "u32");
  auto table = std::make_unique<std::vector<std::int64_t>>();
  // Labels for now; they become distances when all instructions are known.
  for (const auto label : body_.tables[static_cast<std::size_t>(operand(1).bits)]) table->push_back(label);
  Pending& pending = emit(Op::brx, -1, {index});
  pending.instr.imm = reinterpret_cast<std::int64_t>(table.get());
  code_.tables.push_back(std::move(table));
}

void Lowering::call() {
  op_.take("uni");
  auto site = std::make_unique<CallSite>();
  const auto span_of = [&](const Operand& argument) {
    const auto found = argument.variable ? frame_offsets_.find(argument.variable) : frame_offsets_.end();
    if (found == frame_offsets_.end()) unsupported("an argument that is not a .param variable");
    return FrameSpan{found->second, argument.variable->bytes};
  };
  for (const Operand& argument : at_->arguments) site->arguments.push_back(span_of(argument));
  for (const Operand& result : at_->returns) site->returns.push_back(span_of(result));
  const Operand& callee = operand(0);
  int pointer = -1;
  Op op = Op::call;
  if (callee.kind == Operand::Kind::symbol) {
    site->callee = program_.linker().find_function(*function_.image, callee.name);
    if (!site->callee) unsupported("unknown function " + std::string(callee.name));
    if (!site->callee->defined) {
      site->system = system_call_of(callee.name);
      if (site->system == SystemCall::none)
        unsupported("a call of " + std::string(callee.name) + ", which is defined nowhere");
      op = Op::system_call;
    }
  } else {
    pointer = value(0, "u64");
    op = Op::call_indirect;
    code_.has_indirect_calls = true;
  }
  Pending& pending = emit(op, -1, {pointer});
  pending.instr.imm = reinterpret_cast<std::int64_t>(site.get());
  code_.calls.push_back(std::move(site));
}

void Lowering::ret() {
  op_.take("uni");
  emit(function_.entry ? Op::exit : Op::ret, -1, {});
}

void Lowering::exit_() {
  emit(Op::exit, -1, {});
}

void Lowering::trap() {
  emit(Op::trap, -1, {});
}

void Lowering::nanosleep() {
  op_.take_type();
  emit(Op::nanosleep, -1, {});
}

/// Hints to the scheduler that change no result.
void Lowering::nothing() {
  while (!op_.rest().empty()) op_.take_any();
}

/// x: 0 sync, 1 arrive, 2 popc, 3 and, 4 or; r[1] number, r[2] threads (y: given), r[3] the predicate
void Lowering::barrier() {
  if (op_.take("warp")) {
    if (!op_.take("sync")) unsupported("not bar.warp.sync");
    return warp_sync();
  }
  op_.take("cta");
  if (op_.take("cluster")) {
    // A cluster of one block: who waits, waits for its own block.
    for (const auto part : {"release", "acquire", "relaxed", "aligned"}) op_.take(part);
    if (op_.take("arrive")) return;
    if (!op_.take("wait")) unsupported("an unknown cluster barrier");
    emit(Op::barrier, -1, {constant(RegisterClass::b32, 16), constant(RegisterClass::b32, 0)});
    return;
  }
  op_.take("aligned");
  const int none = constant(RegisterClass::b32, 0);
  if (op_.take("sync") || op_.has("arrive")) {
    const bool arrive = op_.take("arrive");
    const bool counted = operand_count() > 1;
    Pending& pending = emit(Op::barrier, -1, {value(0, "u32"), counted ? value(1, "u32") : none});
    pending.instr.x = arrive ? 1 : 0;
    pending.instr.y = counted ? 1 : 0;
    return;
  }
  if (!op_.take("red")) unsupported("an unknown barrier");
  const int kind = op_.take("popc") ? 2 : op_.take("and") ? 3 : op_.take("or") ? 4 : 0;
  if (kind == 0) unsupported("an unknown reduction");
  const std::string_view type = op_.take_type();
  op_.take("aligned");
  const bool counted = operand_count() > 3;
  const int p = predicate(operand(counted ? 3 : 2));
  const int d = target(0, type);
  Pending& pending = emit(Op::barrier, d, {value(1, "u32"), counted ? value(2, "u32") : none, p});
  keep_guard(pending);
  pending.instr.x = static_cast<std::uint8_t>(kind);
  pending.instr.y = counted ? 1 : 0;
}

}  // namespace sandbox::ptx
