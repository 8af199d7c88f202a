// Lowering of memory instructions.
#include "sandbox/ptx/lower.h"

#include "sandbox/ptx/atomic_ops.h"

namespace sandbox::ptx {
namespace {

bool is_signed(std::string_view type) {
  return type[0] == 's';
}

std::string shape_name(const char* root, int element_bytes, std::uint32_t count) {
  return root + std::to_string(element_bytes) + (count == 1 ? "" : "x" + std::to_string(count));
}

}  // namespace

/// Keeps the guard on an instruction with effects even where its result is a temporary.
void Lowering::keep_guard(Pending& pending) const {
  if (at_->guard < 0) return;
  pending.guard = at_->guard;
  pending.instr.flip = at_->guard_negated ? kAllLanes : 0;
}

Space Lowering::take_space() {
  if (op_.take("global")) return Space::global;
  if (op_.take("shared") || op_.take("shared::cta") || op_.take("shared::cluster")) return Space::shared;
  if (op_.take("local")) return Space::local;
  if (op_.take("param") || op_.take("param::entry") || op_.take("param::func")) return Space::param;
  if (op_.take("const")) return Space::constant;
  return Space::generic;
}

/// Takes ordering, scope and cache modifiers; true if the access must be indivisible and may be part of a
/// spin.
bool Lowering::take_memory_modifiers() {
  bool strong = false;
  for (const auto part : {"volatile", "relaxed", "acquire", "release", "acq_rel", "mmio", "cv", "sc"})
    strong |= op_.take(part);
  for (const auto part :
       {"weak", "cta", "cluster", "gpu", "sys", "ca", "cg", "cs", "lu", "wb", "wt", "nc", "unified"})
    op_.take(part);
  // Hints where to keep the data; they change no result.
  for (const auto part :
       {"L1::evict_normal", "L1::evict_unchanged", "L1::evict_first", "L1::evict_last", "L1::no_allocate",
        "L2::evict_normal", "L2::evict_first", "L2::evict_last", "L2::cache_hint", "L2::64B", "L2::128B",
        "L2::256B", "evict_first", "evict_last", "no_allocate", "evict_normal", "evict_unchanged"})
    op_.take(part);
  return strong;
}

Lowering::Place Lowering::place(const Operand& address, Space& space) {
  if (address.kind != Operand::Kind::address) unsupported("expected an address");
  if (address.reg >= 0) {
    const RegisterClass kind = class_of_register(address.reg);
    if (kind != RegisterClass::b32 && kind != RegisterClass::b64)
      unsupported("an address register of another size");
    return {kind == RegisterClass::b32 ? AddressForm::register32 : AddressForm::register64, address.reg,
            address.offset};
  }
  if (address.name.empty()) return {AddressForm::absolute, -1, address.offset};
  const Variable* variable = address.variable;
  if (!variable) variable = program_.linker().find_variable(*function_.image, address.name);
  if (!variable) unsupported("unknown name " + std::string(address.name));
  switch (variable->space) {
    case Space::shared:
      if (space == Space::shared && variable->bytes == 0)
        return {AddressForm::register32, symbol_address(address, RegisterClass::b32), 0};
      if (space == Space::shared)
        return {AddressForm::absolute, -1,
                static_cast<std::int64_t>(program_.shared_offset(*variable)) + address.offset};
      break;
    case Space::local:
    case Space::param:
      if (const auto found = frame_offsets_.find(variable); found != frame_offsets_.end()) {
        space = Space::local;
        return {function_.entry ? AddressForm::absolute : AddressForm::frame, -1,
                static_cast<std::int64_t>(found->second) + address.offset};
      }
      break;
    default:
      break;
  }
  return {AddressForm::register64, symbol_address(address, RegisterClass::b64), 0};
}

void Lowering::set_place(Pending& pending, const Place& place, Space space) {
  pending.instr.y = static_cast<std::uint8_t>(place.form);
  pending.instr.imm = place.displacement;
  pending.instr.x |= static_cast<std::uint8_t>(space);
  pending.v[1] = place.base;
}

void Lowering::ld() {
  const bool strong = take_memory_modifiers();
  Space space = take_space();
  std::uint32_t count = op_.take("v2") ? 2 : op_.take("v4") ? 4 : op_.take("v8") ? 8 : 1;
  const std::string_view type = op_.take_type();
  if (type.empty()) unsupported("no type");
  const int bytes = type_bytes(type);
  const Operand& result = operand(0);
  std::vector<Operand> results;
  if (result.kind == Operand::Kind::vector)
    results.assign(body_.elements.begin() + result.first,
                   body_.elements.begin() + result.first + result.count);
  else
    results.push_back(result);
  if (results.size() != count) unsupported("a vector of another length");

  const RegisterClass kind = class_of(type);
  std::vector<int> loaded;  // registers that the access writes
  for (const Operand& element : results) {
    const bool direct = element.kind == Operand::Kind::reg && class_of_register(element.reg) == kind &&
                        !(bytes == 1 && is_signed(type));
    if (element.kind != Operand::Kind::reg && element.kind != Operand::Kind::sink)
      unsupported("the result must be a register");
    loaded.push_back(direct ? element.reg : temporary(kind));
  }

  const Operand& address = operand(1);
  const bool kernel_parameter = space == Space::param && function_.entry && address.variable &&
                                frame_offsets_.count(address.variable) == 0;
  if (kernel_parameter) {
    std::uint64_t offset = 0;
    for (std::size_t k = 0; k < function_.parameters.size(); ++k)
      if (function_.parameters[k].get() == address.variable) offset = code_.parameters[k].offset;
    offset += static_cast<std::uint64_t>(address.offset);
    for (std::uint32_t k = 0; k < count; ++k) {
      Pending& pending = emit("ld_kernel_param_" + std::to_string(bytes), loaded[k], {});
      pending.instr.imm = static_cast<std::int64_t>(offset) + static_cast<std::int64_t>(k) * bytes;
    }
  } else {
    Place where = place(address, space);
    for (std::uint32_t done = 0; done < count; done += 4) {
      const std::uint32_t part = std::min<std::uint32_t>(4, count - done);
      Pending& pending = emit(shape_name("ld_", bytes, part), loaded[done], {});
      keep_guard(pending);
      for (std::uint32_t k = 1; k < part; ++k) {
        pending.v[3 + k] = loaded[done + k];
        pending.defines |= static_cast<std::uint8_t>(1u << (3 + k));
      }
      set_place(pending, where, space);
      if (strong) pending.instr.x |= kStrongAccess;
      where.displacement += 4 * bytes;
    }
  }
  for (std::uint32_t k = 0; k < count; ++k) {
    if (results[k].kind != Operand::Kind::reg || results[k].reg == loaded[k]) continue;
    const int extended = convert_integer(loaded[k],
                                         bytes == 1 && is_signed(type) ? "s8"
                                         : is_signed(type)             ? type
                                                                       : "b" + std::to_string(8 * bytes),
                                         bits_of(class_of_register(results[k].reg)) == 16   ? "s16"
                                         : bits_of(class_of_register(results[k].reg)) == 32 ? "s32"
                                                                                            : "s64",
                                         false);
    store_result(results[k].reg, extended, "s32");
  }
}

void Lowering::st() {
  const bool releases = op_.has("release");
  const bool strong = take_memory_modifiers();
  Space space = take_space();
  const std::uint32_t count = op_.take("v2") ? 2 : op_.take("v4") ? 4 : op_.take("v8") ? 8 : 1;
  const std::string_view type = op_.take_type();
  if (type.empty()) unsupported("no type");
  const int bytes = type_bytes(type);
  const Operand& source = operand(1);
  std::vector<int> stored;
  if (source.kind == Operand::Kind::vector) {
    for (std::uint32_t k = 0; k < source.count; ++k)
      stored.push_back(value(body_.elements[source.first + k], type));
  } else {
    stored.push_back(value(source, type));
  }
  if (stored.size() != count) unsupported("a vector of another length");
  Place where = place(operand(0), space);
  if (space == Space::constant || (space == Space::param && function_.entry))
    unsupported("a store to read-only memory");
  for (std::uint32_t done = 0; done < count; done += 4) {
    const std::uint32_t part = std::min<std::uint32_t>(4, count - done);
    Pending& pending = emit(shape_name("st_", bytes, part), -1, {});
    pending.v[2] = stored[done];
    for (std::uint32_t k = 1; k < part; ++k) pending.v[3 + k] = stored[done + k];
    set_place(pending, where, space);
    if (strong) pending.instr.x |= kStrongAccess;
    if (releases) pending.instr.x |= kReleasingAccess;
    where.displacement += 4 * bytes;
  }
}

void Lowering::atom() {
  const bool returns = op_.root() == "atom";
  const bool releases = op_.has("release") || op_.has("acq_rel") || op_.has("sc");
  take_memory_modifiers();
  op_.take("noftz");
  if (op_.take("async")) unsupported("an asynchronous reduction");
  Space space = take_space();
  const std::uint32_t count = op_.take("v2") ? 2 : op_.take("v4") ? 4 : op_.take("v8") ? 8 : 1;
  AtomicOp operation = AtomicOp::add;
  bool known = false;
  for (const auto& [name, op] : kAtomicNames)
    if (!known && op_.take(name)) {
      operation = op;
      known = true;
    }
  if (!known) unsupported("an unknown operation");
  const std::string_view type = op_.take_type();
  const auto kind = atomic_type(type);
  if (!kind) unsupported("type ." + std::string(type));
  if (space != Space::generic && space != Space::global && space != Space::shared)
    unsupported("this state space");

  const std::size_t address = returns ? 1 : 0;
  const auto element = [&](const Operand& whole, std::uint32_t k) {
    return whole.kind == Operand::Kind::vector && count > 1 ? body_.elements[whole.first + k] : whole;
  };
  Place where = place(operand(address), space);
  for (std::uint32_t k = 0; k < count; ++k) {
    const int b = value(element(operand(address + 1), k), type);
    const int c = operation == AtomicOp::cas ? value(element(operand(address + 2), k), type) : -1;
    int d = -1;
    if (returns) {
      const Operand result = element(operand(0), k);
      d = result.kind == Operand::Kind::reg ? result.reg : temporary(class_of(type));
      if (class_of_register(d) != class_of(type)) unsupported("the result register has another size");
    }
    Pending& pending = emit(Op::atomic, d, {});
    keep_guard(pending);
    set_place(pending, where, space);
    if (releases) pending.instr.x |= kReleasingAccess;
    pending.v[2] = b;
    pending.v[3] = c;
    pending.instr.r[6] = returns && operand(0).kind != Operand::Kind::sink;
    pending.instr.r[7] = static_cast<std::uint32_t>(operation) | static_cast<std::uint32_t>(*kind) << 8;
    where.displacement += type_bytes(type);
  }
}

void Lowering::prefetch() {
  while (!op_.rest().empty()) op_.take_any();  // hints only
}

void Lowering::fence() {
  while (!op_.rest().empty()) op_.take_any();  // every fence is the strongest
  emit(Op::fence, -1, {});
}

void Lowering::createpolicy() {
  while (!op_.rest().empty()) op_.take_any();
  move(target(0, "b64"), constant(RegisterClass::b64, 0));
}

void Lowering::mapa() {
  Space space = take_space();
  const std::string_view type = op_.take_type();
  (void)space;
  // Every block is a cluster of one: the address in block 0 is the address.
  store_result(target(0, type), value(1, type), type);
}

/// cp.async: the copy happens at once, so that waiting is nothing.
void Lowering::cp_async() {
  if (!op_.take("async")) unsupported("not an asynchronous copy");
  if (op_.take("commit_group") || op_.take("wait_all")) return;
  if (op_.take("wait_group")) return;
  if (op_.take("mbarrier")) {
    // Arrives when the copies before it have ended: at once. Unless told not to, it first raises the count of
    // missing arrivals by the one that it makes, so that nothing is left to do.
    if (!op_.take("arrive")) unsupported("an operation on the barrier of copies other than arrive");
    const bool counted = op_.take("noinc");
    Space space = take_space();
    op_.take_type();
    if (!counted) return;
    const Place where = place(operand(0), space);
    const int state = temporary(RegisterClass::b64), one = constant(RegisterClass::b64, 1);
    Pending& pending = emit(Op::mbarrier, state, {});
    keep_guard(pending);
    set_place(pending, where, space);
    pending.v[2] = one;
    pending.instr.r[7] = static_cast<std::uint32_t>(MbarrierOp::arrive);
    return;
  }
  if (op_.has("bulk") || op_.has("reduce")) unsupported("bulk copies and their barriers");
  take_memory_modifiers();
  if (!op_.take("shared") && !op_.take("shared::cta") && !op_.take("shared::cluster"))
    unsupported("the destination must be shared");
  if (!op_.take("global")) unsupported("the source must be global");
  Space shared = Space::shared, global = Space::global;
  Place to = place(operand(0), shared);
  const Place from = place(operand(1), global);
  if (operand(2).kind != Operand::Kind::integer) unsupported("the size must be a number");
  const int size =
      operand_count() > 3 && operand(3).kind != Operand::Kind::none
          ? (operand(3).kind == Operand::Kind::reg && class_of_register(operand(3).reg) == RegisterClass::b64
                 ? constant(RegisterClass::b32, operand(2).bits)  // a cache policy
                 : value(3, "u32"))
          : constant(RegisterClass::b32, operand(2).bits);
  int source = from.base >= 0 ? from.base : constant(RegisterClass::b64, 0);
  if (from.displacement != 0) {
    const int moved = temporary(RegisterClass::b64);
    emit("add_b64", moved,
         {source, constant(RegisterClass::b64, static_cast<std::uint64_t>(from.displacement))});
    source = moved;
  }
  Pending& pending = emit(Op::copy_async, -1, {});
  set_place(pending, to, Space::shared);
  pending.v[2] = source;
  pending.v[3] = size;
  pending.instr.r[7] = static_cast<std::uint32_t>(operand(2).bits);
}

/// mbarrier on shared memory: init, inval, arrive, test_wait, try_wait (with or without .parity).
void Lowering::mbarrier() {
  const std::string_view action = op_.take_any();
  static const std::pair<std::string_view, MbarrierOp> actions[] = {{"init", MbarrierOp::init},
                                                                    {"inval", MbarrierOp::invalidate},
                                                                    {"arrive", MbarrierOp::arrive},
                                                                    {"arrive_drop", MbarrierOp::drop},
                                                                    {"test_wait", MbarrierOp::test},
                                                                    {"try_wait", MbarrierOp::test},
                                                                    {"pending_count", MbarrierOp::pending}};
  std::optional<MbarrierOp> what;
  for (const auto& [name, op] : actions)
    if (action == name) what = op;
  if (!what) unsupported("mbarrier." + std::string(action));
  if (op_.has("expect_tx") || op_.has("complete_tx")) unsupported("transaction counts");
  take_memory_modifiers();
  op_.take("noComplete");
  const bool parity = op_.take("parity");
  Space space = take_space();
  op_.take_type();
  const bool has_result = *what == MbarrierOp::arrive || *what == MbarrierOp::drop ||
                          *what == MbarrierOp::test || *what == MbarrierOp::pending;
  if (*what == MbarrierOp::pending) {  // from a state, no memory
    emit("part_b32_b64", target(0, "b32"), {value(1, "b64")}).instr.imm = 0;
    return;
  }
  const std::size_t address = has_result ? 1 : 0;
  Place where = place(operand(address), space);
  int d = -1;
  if (has_result) d = *what == MbarrierOp::test ? target(0, "pred") : target(0, "b64");
  int b = constant(RegisterClass::b64, 1);
  if (operand_count() > address + 1)
    b = *what == MbarrierOp::test && !parity ? value(address + 1, "b64")
                                             : to_class(value(address + 1, "b32"), RegisterClass::b64, false);
  Pending& pending = emit(Op::mbarrier, d, {});
  keep_guard(pending);
  set_place(pending, where, space);
  pending.v[2] = b;
  pending.instr.r[7] = static_cast<std::uint32_t>(*what) | (parity ? 256u : 0u);
}

}  // namespace sandbox::ptx
