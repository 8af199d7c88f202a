// Operands, constants and emission: what all kinds of instructions share.
#include "sandbox/ptx/lower.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "sandbox/ptx/machine.h"
#include "sandbox/ptx/simd/tables.h"

namespace sandbox::ptx {

Opcode::Opcode(std::string_view text) {
  while (!text.empty()) {
    std::size_t dot = text.find('.');
    parts_.push_back(text.substr(0, dot));
    text = dot == std::string_view::npos ? std::string_view{} : text.substr(dot + 1);
  }
  if (parts_.empty()) parts_.emplace_back();
  taken_.assign(parts_.size(), false);
  taken_[0] = true;
}

bool Opcode::take(std::string_view part) {
  for (std::size_t k = 1; k < parts_.size(); ++k)
    if (!taken_[k] && parts_[k] == part) return taken_[k] = true;
  return false;
}

bool Opcode::has(std::string_view part) const {
  for (std::size_t k = 1; k < parts_.size(); ++k)
    if (parts_[k] == part) return true;
  return false;
}

std::string_view Opcode::take_type() {
  for (std::size_t k = 1; k < parts_.size(); ++k)
    if (!taken_[k] && type_bytes(parts_[k]) >= 0) {
      taken_[k] = true;
      return parts_[k];
    }
  return {};
}

std::string_view Opcode::rest() const {
  for (std::size_t k = 1; k < parts_.size(); ++k)
    if (!taken_[k]) return parts_[k];
  return {};
}

std::string_view Opcode::take_any() {
  for (std::size_t k = 1; k < parts_.size(); ++k)
    if (!taken_[k]) {
      taken_[k] = true;
      return parts_[k];
    }
  return {};
}

std::optional<Op> find_op(const std::string& name) {
  static const std::unordered_map<std::string_view, Op> ops = {
#define UNARY(name, ...) {#name, Op::name},
#define BINARY UNARY
#define TERNARY UNARY
#define QUATERNARY UNARY
#define COMPARE UNARY
#define COMPARE1 UNARY
#define SELECT UNARY
#define SPECIAL(name) {#name, Op::name},
#define HALF1(name, ...)                                                                                \
  {#name "_f16", Op::name##_f16}, {#name "_bf16", Op::name##_bf16}, {#name "_f16x2", Op::name##_f16x2}, \
      {#name "_bf16x2", Op::name##_bf16x2},
#define HALF2 HALF1
#define HALF3 HALF1
#include "sandbox/ptx/ops/all.def"
  };
  const auto found = ops.find(name);
  return found == ops.end() ? std::nullopt : std::optional(found->second);
}

Lowering::Lowering(Program& program, const Function& function, Code& code)
    : program_(program), function_(function), body_(function.body()), code_(code), op_("") {
  for (const Register& declared : body_.registers) classes_.push_back(declared.kind);
  temporaries_.assign(classes_.size(), false);
}

void Lowering::unsupported(const std::string& what) const {
  std::string text = std::string(function_.name) + ": ";
  if (at_)
    text += "PTX line " + std::to_string(at_->line) + ": '" + std::string(at_->opcode) +
            "' is not supported (" + what + ")";
  else
    text += what;
  throw Fault{FaultKind::unsupported, text};
}

const Operand& Lowering::operand(std::size_t k) const {
  if (k >= at_->operands.size()) unsupported("operand " + std::to_string(k + 1) + " is missing");
  return at_->operands[k];
}

RegisterClass Lowering::class_of(std::string_view type) {
  switch (type_bytes(type)) {
    case 0:
      return RegisterClass::predicate;
    case 1:
    case 2:
      return RegisterClass::b16;
    case 4:
      return RegisterClass::b32;
    case 8:
      return RegisterClass::b64;
    default:
      return RegisterClass::b128;
  }
}

int Lowering::bits_of(RegisterClass kind) {
  constexpr int bits[] = {1, 16, 32, 64, 128};
  return bits[static_cast<int>(kind)];
}

int Lowering::temporary(RegisterClass kind) {
  classes_.push_back(kind);
  temporaries_.push_back(true);
  return static_cast<int>(classes_.size()) - 1;
}

int Lowering::constant(RegisterClass kind, std::uint64_t bits, const Variable* variable) {
  if (kind == RegisterClass::b16) bits &= 0xffff;
  if (kind == RegisterClass::b32) bits &= 0xffffffff;
  std::string key(sizeof bits + sizeof variable + 1, '\0');
  std::memcpy(key.data(), &bits, sizeof bits);
  std::memcpy(key.data() + sizeof bits, &variable, sizeof variable);
  key.back() = static_cast<char>(kind);
  const auto [entry, fresh] = constants_.emplace(key, 0);
  if (fresh) {
    classes_.push_back(kind);
    temporaries_.push_back(false);
    entry->second = static_cast<int>(classes_.size()) - 1;
    pinned_.push_back(entry->second);
    code_.constants.push_back({static_cast<std::uint32_t>(entry->second), kind, bits, variable});
  }
  return entry->second;
}

/// Two areas of shared memory that belong to the libraries of the toolkit (cooperative groups).
std::uint64_t Lowering::reserved_shared_offset(std::string_view name) {
  static const Variable areas = [] {
    Variable variable;
    variable.name = "reserved shared memory";
    variable.space = Space::shared;
    variable.bytes = 2048;
    variable.align = 16;
    return variable;
  }();
  if (name != "%reserved_smem_offset_0" && name != "%reserved_smem_offset_1")
    unsupported("special register " + std::string(name));
  return program_.shared_offset(areas) + (name.back() == '1' ? 1024 : 0);
}

int Lowering::special(std::string_view name, RegisterClass kind) {
  if (name.starts_with("%reserved_smem")) return constant(kind, reserved_shared_offset(name));
  static const std::unordered_map<std::string_view, Special> names = {
      {"%tid.x", Special::tid_x},
      {"%tid.y", Special::tid_y},
      {"%tid.z", Special::tid_z},
      {"%ntid.x", Special::ntid_x},
      {"%ntid.y", Special::ntid_y},
      {"%ntid.z", Special::ntid_z},
      {"%ctaid.x", Special::ctaid_x},
      {"%ctaid.y", Special::ctaid_y},
      {"%ctaid.z", Special::ctaid_z},
      {"%nctaid.x", Special::nctaid_x},
      {"%nctaid.y", Special::nctaid_y},
      {"%nctaid.z", Special::nctaid_z},
      {"%laneid", Special::laneid},
      {"%warpid", Special::warpid},
      {"%nwarpid", Special::nwarpid},
      {"%smid", Special::smid},
      {"%nsmid", Special::nsmid},
      {"%gridid", Special::gridid},
      {"%lanemask_eq", Special::lanemask_eq},
      {"%lanemask_le", Special::lanemask_le},
      {"%lanemask_lt", Special::lanemask_lt},
      {"%lanemask_ge", Special::lanemask_ge},
      {"%lanemask_gt", Special::lanemask_gt},
      {"%dynamic_smem_size", Special::dynamic_smem_size},
      {"%total_smem_size", Special::total_smem_size},
      {"%aggr_smem_size", Special::total_smem_size},
      {"%envreg1", Special::grid_workspace_high},
      {"%envreg2", Special::grid_workspace_low},
      // Every block is a cluster of one.
      {"%clusterid.x", Special::ctaid_x},
      {"%clusterid.y", Special::ctaid_y},
      {"%clusterid.z", Special::ctaid_z},
      {"%nclusterid.x", Special::nctaid_x},
      {"%nclusterid.y", Special::nctaid_y},
      {"%nclusterid.z", Special::nctaid_z},
      {"%cluster_ctaid.x", Special::zero},
      {"%cluster_ctaid.y", Special::zero},
      {"%cluster_ctaid.z", Special::zero},
      {"%cluster_nctaid.x", Special::one},
      {"%cluster_nctaid.y", Special::one},
      {"%cluster_nctaid.z", Special::one},
      {"%cluster_ctarank", Special::zero},
      {"%cluster_nctarank", Special::one}};
  if (name == "%clock" || name == "%clock64" || name == "%globaltimer" || name == "%globaltimer_lo" ||
      name == "%globaltimer_hi" || name == "%clock_hi") {
    const int d = temporary(kind);
    Pending& pending = emit(Op::clock, d, {});
    pending.instr.x = name.starts_with("%clock") ? 0 : 1;
    pending.instr.imm = name.ends_with("_hi") ? 32 : 0;
    pending.instr.y = static_cast<std::uint8_t>(bits_of(kind) / 8);
    return d;
  }
  const auto found = names.find(name);
  if (found == names.end()) unsupported("special register " + std::string(name));
  const auto [entry, fresh] = specials_.emplace(name, 0);
  if (fresh) {
    classes_.push_back(RegisterClass::b32);
    temporaries_.push_back(false);
    entry->second = static_cast<int>(classes_.size()) - 1;
    pinned_.push_back(entry->second);
    code_.specials.push_back({static_cast<std::uint32_t>(entry->second), found->second});
  }
  return kind == RegisterClass::b32 ? entry->second : to_class(entry->second, kind, false);
}

int Lowering::symbol_address(const Operand& operand, RegisterClass kind) {
  const auto offset = static_cast<std::uint64_t>(operand.offset);
  const Variable* variable = operand.variable;
  if (!variable) variable = program_.linker().find_variable(*function_.image, operand.name);
  if (!variable) {
    const Function* function = program_.linker().find_function(*function_.image, operand.name);
    if (!function) unsupported("unknown name " + std::string(operand.name));
    return constant(RegisterClass::b64, reinterpret_cast<std::uint64_t>(function));
  }
  switch (variable->space) {
    case Space::shared:
      if (variable->bytes == 0) {
        program_.need_dynamic_shared(*variable);
        return constant(kind, offset, variable);
      }
      return constant(kind, program_.shared_offset(*variable) + offset);
    case Space::local:
    case Space::param: {
      const int d = temporary(kind);
      const bool of_kernel =
          variable->space == Space::param && function_.entry && frame_offsets_.count(variable) == 0;
      if (!of_kernel && function_.entry) return constant(kind, frame_offsets_.at(variable) + offset);
      std::uint64_t place = 0;
      if (of_kernel) {
        for (std::size_t k = 0; k < function_.parameters.size(); ++k)
          if (function_.parameters[k].get() == variable) place = code_.parameters[k].offset;
      } else {
        place = frame_offsets_.at(variable);
      }
      Pending& pending = emit(of_kernel ? Op::kernel_param_address : Op::frame_address, d, {});
      pending.instr.imm = static_cast<std::int64_t>(place + offset);
      pending.instr.y = static_cast<std::uint8_t>(bits_of(kind) / 8);
      return d;
    }
    default:
      return constant(RegisterClass::b64, offset, variable);
  }
}

int Lowering::value(const Operand& operand, std::string_view type) {
  const RegisterClass kind = class_of(type);
  if (kind == RegisterClass::predicate) return predicate(operand);
  switch (operand.kind) {
    case Operand::Kind::reg: {
      const RegisterClass actual = class_of_register(operand.reg);
      if (actual == kind) return operand.reg;
      if (actual == RegisterClass::predicate || kind == RegisterClass::b128)
        unsupported("operand of another size");
      return to_class(operand.reg, kind, false);
    }
    case Operand::Kind::integer:
      // Integer literals of floating-point instructions are numbers, not bits.
      if (type == "f32")
        return constant(
            kind, std::bit_cast<std::uint32_t>(static_cast<float>(static_cast<std::int64_t>(operand.bits))));
      if (type == "f64")
        return constant(
            kind, std::bit_cast<std::uint64_t>(static_cast<double>(static_cast<std::int64_t>(operand.bits))));
      return constant(kind, operand.bits);
    case Operand::Kind::float32:
      if (kind == RegisterClass::b64)
        return constant(kind, std::bit_cast<std::uint64_t>(static_cast<double>(
                                  std::bit_cast<float>(static_cast<std::uint32_t>(operand.bits)))));
      return constant(kind, operand.bits);
    case Operand::Kind::float64:
      if (kind == RegisterClass::b32)
        return constant(
            kind, std::bit_cast<std::uint32_t>(static_cast<float>(std::bit_cast<double>(operand.bits))));
      return constant(kind, operand.bits);
    case Operand::Kind::special:
      return special(operand.name, kind);
    case Operand::Kind::symbol:
      return symbol_address(operand, kind);
    case Operand::Kind::vector:
      return pack(operand, kind);
    default:
      unsupported("operand of an unexpected kind");
  }
}

int Lowering::predicate(const Operand& operand) {
  if (operand.kind == Operand::Kind::integer)
    return constant(RegisterClass::predicate, (operand.bits != 0) != operand.negated ? kAllLanes : 0);
  if (operand.kind != Operand::Kind::reg || class_of_register(operand.reg) != RegisterClass::predicate)
    unsupported("expected a predicate");
  if (!operand.negated) return operand.reg;
  const int d = temporary(RegisterClass::predicate);
  emit(Op::not_pred, d, {operand.reg});
  return d;
}

/// A result register; the sink gets a temporary.
int Lowering::target(std::size_t k, std::string_view type) {
  const Operand& result = operand(k);
  if (result.kind == Operand::Kind::sink) return temporary(class_of(type));
  if (result.kind != Operand::Kind::reg) unsupported("the result must be a register");
  if (class_of_register(result.reg) != class_of(type)) unsupported("the result register has another size");
  return result.reg;
}

Pending& Lowering::emit(Op op, int d, std::initializer_list<int> sources) {
  Pending pending;
  pending.instr.op = op;
  pending.v[0] = d;
  pending.defines = d >= 0 ? 1 : 0;
  int k = 1;
  for (const int source : sources) pending.v[k++] = source;
  pending.source = source_;
  // Temporaries are written for all lanes: cheaper, and nobody reads them elsewhere.
  if (at_ && at_->guard >= 0 && !(d >= 0 && is_temporary(d))) {
    pending.guard = at_->guard;
    pending.instr.flip = at_->guard_negated ? kAllLanes : 0;
  }
  out_.push_back(pending);
  return out_.back();
}

Pending& Lowering::emit(const std::string& name, int d, std::initializer_list<int> sources) {
  const auto op = find_op(name);
  if (!op) unsupported("no operation " + name);
  return emit(*op, d, sources);
}

void Lowering::emit_modal(const std::string& name, int d, std::initializer_list<int> sources, int rounding,
                          bool flush) {
  Pending& pending = emit(name, d, sources);
  pending.instr.y = static_cast<std::uint8_t>(rounding | (flush ? kFlush : 0));
  pending.modal = pending.instr.y != 0;
}

void Lowering::move(int d, int s) {
  const RegisterClass kind = class_of_register(d);
  if (kind == RegisterClass::predicate)
    emit(Op::mov_pred, d, {s});
  else
    emit("mov_b" + std::to_string(bits_of(kind)), d, {s});
}

FrameSpan Lowering::place_in_frame(const Variable& variable) {
  const std::uint64_t align = std::max<std::uint64_t>(variable.align, 4);
  frame_bytes_ = (frame_bytes_ + align - 1) / align * align;
  const FrameSpan span{frame_bytes_, variable.bytes};
  frame_offsets_[&variable] = span.offset;
  frame_bytes_ += (variable.bytes + 3) / 4 * 4;
  return span;
}

void Lowering::place_variables() {
  if (function_.entry) {  // parameters of a kernel are in a buffer of their own
    std::uint64_t offset = 0;
    for (const auto& parameter : function_.parameters) {
      offset = (offset + parameter->align - 1) / parameter->align * parameter->align;
      code_.parameters.push_back({offset, parameter->bytes});
      offset += parameter->bytes;
    }
  } else {
    for (const auto& parameter : function_.parameters) code_.parameters.push_back(place_in_frame(*parameter));
    for (const auto& result : function_.returns) code_.returns.push_back(place_in_frame(*result));
  }
  for (const auto& variable : body_.variables)
    if (variable->space == Space::local || variable->space == Space::param) place_in_frame(*variable);
  code_.frame_bytes = (frame_bytes_ + 15) / 16 * 16;
}

void Lowering::lower_instruction(std::uint32_t index) {
  at_ = &body_.code[index];
  source_ = index;
  op_ = Opcode(at_->opcode);
  const auto method = methods().find(op_.root());
  if (method == methods().end()) unsupported("unknown instruction");
  (this->*method->second)();
  if (const auto rest = op_.rest(); !rest.empty()) unsupported("modifier ." + std::string(rest));
}

void Lowering::run() {
  place_variables();
  for (std::uint32_t index = 0; index < body_.code.size(); ++index) {
    starts_.push_back(static_cast<std::uint32_t>(out_.size()));
    lower_instruction(index);
  }
  at_ = nullptr;
  source_ = static_cast<std::uint32_t>(body_.code.size());
  starts_.push_back(static_cast<std::uint32_t>(out_.size()));
  emit(function_.entry ? Op::exit : Op::ret, -1, {});

  // Distances of branches, which allocation needs too.
  for (std::size_t k = 0; k < out_.size(); ++k)
    if (out_[k].select >= 0)
      out_[k].instr.imm =
          static_cast<std::int64_t>(starts_[body_.labels[static_cast<std::size_t>(out_[k].select)]]) -
          static_cast<std::int64_t>(k);
  for (std::size_t k = 0; k < out_.size(); ++k)
    if (out_[k].instr.op == Op::brx)
      for (auto& entry : *reinterpret_cast<std::vector<std::int64_t>*>(out_[k].instr.imm))
        entry = static_cast<std::int64_t>(starts_[body_.labels[static_cast<std::size_t>(entry)]]) -
                static_cast<std::int64_t>(k);
  std::vector<bool> pinned(classes_.size(), false);
  for (const int v : pinned_) pinned[static_cast<std::size_t>(v)] = true;
  std::vector<std::uint32_t> places;
  code_.registers_end = code_.registers_begin;
  allocate_registers(out_, classes_, pinned, temporaries_, code_.registers_end, places);
  for (auto& init : code_.constants) init.slot = places[init.slot];
  for (auto& init : code_.specials) init.slot = places[init.slot];

  for (std::size_t v = 0; v < classes_.size(); ++v)
    if (!pinned[v] && places[v] != 0) code_.register_places.emplace_back(places[v], classes_[v]);
  std::sort(code_.register_places.begin(), code_.register_places.end());
  code_.register_places.erase(std::unique(code_.register_places.begin(), code_.register_places.end()),
                              code_.register_places.end());

  const SimdBuild& build = simd_build();
  for (const Pending& pending : out_) {
    Instr instr = pending.instr;
    for (int k = 0; k < 8; ++k)
      if (pending.v[k] >= 0) instr.r[k] = places[static_cast<std::size_t>(pending.v[k])];
    if (pending.guard >= 0) instr.guard = places[static_cast<std::size_t>(pending.guard)];
    instr.ordinal = pending.source;
    instr.fn = build.handlers[static_cast<int>(instr.op)];
    if (pending.modal) instr.fn = build.handlers[static_cast<int>(Op::modal)];
    code_.instructions.push_back(instr);
    LineInfo line;
    if (pending.source < body_.code.size()) {
      const Instruction& source = body_.code[pending.source];
      line = {source.line, source.source_file, source.source_line, source.opcode};
    }
    code_.lines.push_back(line);
  }
}

}  // namespace sandbox::ptx
