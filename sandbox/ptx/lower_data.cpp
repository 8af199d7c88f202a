// Lowering of moves, packing, and address conversions; the table from opcode to lowering method.
#include "sandbox/ptx/lower.h"

namespace sandbox::ptx {

const std::unordered_map<std::string_view, Lowering::Method>& Lowering::methods() {
  static const std::unordered_map<std::string_view, Method> table = {
      {"add", &Lowering::add_sub},
      {"sub", &Lowering::add_sub},
      {"addc", &Lowering::carry},
      {"subc", &Lowering::carry},
      {"madc", &Lowering::carry},
      {"mul", &Lowering::mul_mad},
      {"mad", &Lowering::mul_mad},
      {"fma", &Lowering::mul_mad},
      {"mul24", &Lowering::mul_mad},
      {"mad24", &Lowering::mul_mad},
      {"div", &Lowering::div_rem},
      {"rem", &Lowering::div_rem},
      {"min", &Lowering::min_max},
      {"max", &Lowering::min_max},
      {"abs", &Lowering::abs_neg},
      {"neg", &Lowering::abs_neg},
      {"and", &Lowering::logic},
      {"or", &Lowering::logic},
      {"xor", &Lowering::logic},
      {"not", &Lowering::logic},
      {"cnot", &Lowering::logic},
      {"shl", &Lowering::shift},
      {"shr", &Lowering::shift},
      {"shf", &Lowering::funnel},
      {"popc", &Lowering::bits},
      {"clz", &Lowering::bits},
      {"brev", &Lowering::bits},
      {"bfind", &Lowering::bits},
      {"fns", &Lowering::bits},
      {"bfe", &Lowering::bit_field},
      {"bfi", &Lowering::bit_field},
      {"szext", &Lowering::bit_field},
      {"bmsk", &Lowering::bit_field},
      {"lop3", &Lowering::lop3},
      {"prmt", &Lowering::prmt},
      {"dp4a", &Lowering::dot},
      {"dp2a", &Lowering::dot},
      {"sad", &Lowering::sad},
      {"vabsdiff4", &Lowering::absolute_differences},
      {"rcp", &Lowering::float_unary},
      {"sqrt", &Lowering::float_unary},
      {"rsqrt", &Lowering::float_unary},
      {"sin", &Lowering::float_unary},
      {"cos", &Lowering::float_unary},
      {"lg2", &Lowering::float_unary},
      {"ex2", &Lowering::float_unary},
      {"tanh", &Lowering::float_unary},
      {"copysign", &Lowering::copysign},
      {"testp", &Lowering::testp},
      {"setp", &Lowering::setp},
      {"set", &Lowering::set},
      {"selp", &Lowering::selp},
      {"slct", &Lowering::slct},
      {"cvt", &Lowering::cvt},
      {"mov", &Lowering::mov},
      {"cvta", &Lowering::cvta},
      {"isspacep", &Lowering::isspacep},
      {"ld", &Lowering::ld},
      {"ldu", &Lowering::ld},
      {"st", &Lowering::st},
      {"atom", &Lowering::atom},
      {"red", &Lowering::atom},
      {"prefetch", &Lowering::prefetch},
      {"prefetchu", &Lowering::prefetch},
      {"discard", &Lowering::prefetch},
      {"applypriority", &Lowering::prefetch},
      {"membar", &Lowering::fence},
      {"fence", &Lowering::fence},
      {"cp", &Lowering::cp_async},
      {"createpolicy", &Lowering::createpolicy},
      {"mbarrier", &Lowering::mbarrier},
      {"mapa", &Lowering::mapa},
      {"bra", &Lowering::bra},
      {"brx", &Lowering::brx},
      {"call", &Lowering::call},
      {"ret", &Lowering::ret},
      {"exit", &Lowering::exit_},
      {"trap", &Lowering::trap},
      {"brkpt", &Lowering::trap},
      {"bar", &Lowering::barrier},
      {"barrier", &Lowering::barrier},
      {"nanosleep", &Lowering::nanosleep},
      {"griddepcontrol", &Lowering::nothing},
      {"setmaxnreg", &Lowering::nothing},
      {"pmevent", &Lowering::nothing},
      {"shfl", &Lowering::shfl},
      {"vote", &Lowering::vote},
      {"match", &Lowering::match},
      {"redux", &Lowering::redux},
      {"elect", &Lowering::elect},
      {"activemask", &Lowering::activemask}};
  return table;
}

/// One register out of the elements of { }.
int Lowering::pack(const Operand& vector, RegisterClass kind) {
  const Operand* elements = &body_.elements[vector.first];
  const int bits = bits_of(kind) / static_cast<int>(vector.count);
  const int d = temporary(kind);
  std::vector<int> parts;
  for (std::uint32_t k = 0; k < vector.count; ++k)
    parts.push_back(value(elements[k], bits == 8 ? "b16" : "b" + std::to_string(bits)));
  const std::string name = "pack_b" + std::to_string(bits_of(kind)) + "_b" + std::to_string(bits);
  if (vector.count == 1)
    move(d, parts[0]);
  else if (kind == RegisterClass::b128 && vector.count == 2)
    emit(Op::pack_b128, d, {parts[0], parts[1]});
  else if (vector.count == 2)
    emit(name, d, {parts[0], parts[1]});
  else if (vector.count == 4 && kind != RegisterClass::b128)
    emit(name, d, {parts[0], parts[1], parts[2], parts[3]});
  else
    unsupported("a vector of this shape");
  return d;
}

void Lowering::unpack(const Operand& vector, int s) {
  const Operand* elements = &body_.elements[vector.first];
  const RegisterClass kind = class_of_register(s);
  const int bits = bits_of(kind) / static_cast<int>(vector.count);
  if (kind == RegisterClass::b128) {
    if (vector.count != 2) unsupported("a vector of this shape");
    int parts[2];
    for (std::uint32_t k = 0; k < 2; ++k)
      parts[k] = elements[k].kind == Operand::Kind::reg ? elements[k].reg : temporary(RegisterClass::b64);
    Pending& pending = emit(Op::unpack_b128, parts[0], {s});
    pending.v[4] = parts[1];
    pending.defines = 0x11;
    return;
  }
  // The source may be one of the results: all parts first.
  std::vector<std::pair<int, int>> moves;
  for (std::uint32_t k = 0; k < vector.count; ++k) {
    if (elements[k].kind == Operand::Kind::sink) continue;
    if (elements[k].kind != Operand::Kind::reg) unsupported("the result must be a register");
    const int d = elements[k].reg;
    const std::string part = bits == 8
                                 ? (kind == RegisterClass::b16 ? "part_b16_b16" : "part8_b16_b32")
                                 : "part_b" + std::to_string(bits) + "_b" + std::to_string(bits_of(kind));
    const bool direct = class_of_register(d) != kind;
    const int place = direct && bits_of(class_of_register(d)) == std::max(bits, 16)
                          ? d
                          : temporary(class_of("b" + std::to_string(std::max(bits, 16))));
    if (vector.count == 1)
      move(place, s);
    else
      emit(part, place, {s}).instr.imm = static_cast<std::int64_t>(k) * bits;
    if (place != d) moves.emplace_back(d, place);
  }
  for (const auto& [d, part] : moves) store_result(d, part, "u32");
}

void Lowering::mov() {
  const std::string_view type = op_.take_type();
  if (type.empty()) unsupported("no type");
  const Operand& result = operand(0);
  const Operand& source = operand(1);
  if (result.kind == Operand::Kind::vector) return unpack(result, value(source, type));
  const int d = target(0, type);
  if (type == "pred") return move(d, predicate(source));
  if (source.kind == Operand::Kind::vector) return store_result(d, pack(source, class_of(type)), type);
  if (type == "b128") {
    emit(Op::mov_b128, d, {value(source, type)});
    return;
  }
  const int v = value(source, type);
  if (is_temporary(v)) return store_result(d, v, type);
  move(d, v);
}

void Lowering::cvta() {
  const bool to = op_.take("to");
  std::string_view space = op_.take_any();
  if (space == "shared::cta" || space == "shared::cluster") space = "shared";
  if (space == "param::entry") space = "param";
  const std::string_view type = op_.take_type();
  const int d = target(0, type);
  const int a = value(1, type);
  if (space == "shared" || space == "local") {
    if (type != "u64" && type != "s64" && type != "b64") unsupported("32-bit addresses");
    emit(std::string(to ? "cvta_to_" : "cvta_") + std::string(space), d, {a});
  } else if (space == "global" || space == "const" || space == "param") {
    move(d, a);  // these addresses are generic already
  } else {
    unsupported("space ." + std::string(space));
  }
}

void Lowering::isspacep() {
  std::string_view name = op_.take_any();
  Space space = Space::global;
  if (name == "shared" || name == "shared::cta" || name == "shared::cluster")
    space = Space::shared;
  else if (name == "local")
    space = Space::local;
  else if (name == "param" || name == "param::entry")
    space = Space::param;
  else if (name == "const")
    unsupported("space .const");
  else if (name != "global")
    unsupported("space ." + std::string(name));
  emit(Op::isspacep, target(0, "pred"), {value(1, "u64")}).instr.x = static_cast<std::uint8_t>(space);
}

}  // namespace sandbox::ptx
