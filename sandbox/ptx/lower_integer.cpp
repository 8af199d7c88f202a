// Lowering of integer arithmetic, logic, shifts and bit fields.
#include "sandbox/ptx/lower.h"

namespace sandbox::ptx {
namespace {

std::string width(std::string_view type) {
  return std::to_string(8 * type_bytes(type));
}
bool is_float(std::string_view type) {
  return type.find('f') != std::string_view::npos;
}

}  // namespace

/// The operand with subnormals made zero, if asked for.
int Lowering::flushed(int v, std::string_view type, bool flush) {
  if (!flush) return v;
  const int d = temporary(class_of(type));
  emit("ftz_" + std::string(type), d, {v});
  return d;
}

void Lowering::add_sub() {
  const std::string root(op_.root());
  if (op_.has("cc")) return carry();
  const bool saturate = op_.take("sat");
  const int rounding = take_rounding();
  const bool flush = op_.take("ftz");
  const std::string_view type = op_.take_type();
  if (type.empty()) unsupported("no type");
  if (is_float(type)) {
    const int d = target(0, type);
    const int a = value(1, type), b = value(2, type);
    const int result = saturate ? temporary(class_of(type)) : d;
    if (type == "f32" || type == "f64") {
      emit_modal(root + "_" + std::string(type), result, {a, b}, rounding, flush);
    } else {
      const int raw = flush ? temporary(class_of(type)) : result;
      emit(root + "_" + std::string(type), raw, {flushed(a, type, flush), flushed(b, type, flush)});
      if (flush) emit("ftz_" + std::string(type), result, {raw});
    }
    if (saturate) emit("sat_" + std::string(type), d, {result});
    return;
  }
  const int d = target(0, type);
  if (saturate) {
    emit(root + "_sat_" + std::string(type), d, {value(1, type), value(2, type)});
  } else if (type == "u16x2" || type == "s16x2") {
    emit(root + "_u16x2", d, {value(1, type), value(2, type)});
  } else {
    emit(root + "_b" + width(type), d, {value(1, type), value(2, type)});
  }
}

/// add.cc, addc, sub.cc, subc, mad.cc, madc: the carry is a predicate of its own.
void Lowering::carry() {
  std::string root(op_.root());
  const bool leaves = op_.take("cc");
  const bool takes = root.back() == 'c';
  if (takes) root.pop_back();
  const int flags = (takes ? 1 : 0) | (leaves ? 2 : 0);
  if (root == "mad") {
    const bool high = op_.take("hi");
    if (!high && !op_.take("lo")) unsupported("neither .lo nor .hi");
    const std::string_view type = op_.take_type();
    const int product = temporary(class_of(type));
    emit(high ? "mul_hi_" + std::string(type) : "mul_lo_b" + width(type), product,
         {value(1, type), value(2, type)});
    emit("addc_b" + width(type), target(0, type), {product, value(3, type)}).instr.imm = flags;
    return;
  }
  const std::string_view type = op_.take_type();
  emit(root + "c_b" + width(type), target(0, type), {value(1, type), value(2, type)}).instr.imm = flags;
}

void Lowering::mul_mad() {
  const std::string root(op_.root());
  if (op_.has("cc")) return carry();
  const bool mad = root == "mad" || root == "fma" || root == "mad24";
  const bool low = op_.take("lo"), high = op_.take("hi"), wide = op_.take("wide");
  const bool saturate = op_.take("sat");
  const bool relu = op_.take("relu");
  const int rounding = take_rounding();
  const bool flush = op_.take("ftz");
  const std::string_view type = op_.take_type();
  if (type.empty()) unsupported("no type");
  if (is_float(type)) {
    const std::string name = (mad ? "fma_" : "mul_") + std::string(type);
    const int d = target(0, type);
    // The processor flushes operands of single precision by itself; halves are widened, so not.
    const bool flush_first = flush && type != "f32";
    const int a = flushed(value(1, type), type, flush_first);
    const int b = flushed(value(2, type), type, flush_first);
    const int c = mad ? flushed(value(3, type), type, flush_first) : -1;
    const int raw = saturate || relu || (flush && type != "f32") ? temporary(class_of(type)) : d;
    if (type == "f32" || type == "f64") {
      if (mad)
        emit_modal(name, raw, {a, b, c}, rounding, flush);
      else
        emit_modal(name, raw, {a, b}, rounding, flush);
    } else if (mad) {
      emit(name, raw, {a, b, c});
    } else {
      emit(name, raw, {a, b});
    }
    finish_float(raw, d, type, saturate, relu);
    return;
  }
  const std::string form = root.ends_with("24") ? "24" : "";
  const std::string name(type);
  if (wide) {
    const std::string_view result = type == "u16"   ? "u32"
                                    : type == "s16" ? "s32"
                                    : type == "u32" ? "u64"
                                                    : "s64";
    if (mad)
      emit("mad_wide_" + name, target(0, result), {value(1, type), value(2, type), value(3, result)});
    else
      emit("mul_wide_" + name, target(0, result), {value(1, type), value(2, type)});
    return;
  }
  if (!low && !high) unsupported("none of .lo, .hi, .wide");
  const int d = target(0, type);
  if (form == "24") {
    const int product = mad ? temporary(class_of(type)) : d;
    emit("mul24_" + std::string(high ? "hi_" : "lo_") + name, product, {value(1, type), value(2, type)});
    if (mad) emit(saturate ? "add_sat_s32" : "add_b32", d, {product, value(3, type)});
    return;
  }
  if (!mad) {
    emit(high ? "mul_hi_" + name : "mul_lo_b" + width(type), d, {value(1, type), value(2, type)});
  } else if (saturate) {
    const int product = temporary(class_of(type));
    emit("mul_hi_" + name, product, {value(1, type), value(2, type)});
    emit("add_sat_s32", d, {product, value(3, type)});
  } else {
    emit(high ? "mad_hi_" + name : "mad_lo_b" + width(type), d,
         {value(1, type), value(2, type), value(3, type)});
  }
}

void Lowering::div_rem() {
  const std::string root(op_.root());
  op_.take("approx");  // the exact quotient is an allowed approximation
  op_.take("full");
  const int rounding = take_rounding();
  const bool flush = op_.take("ftz");
  const std::string_view type = op_.take_type();
  if (is_float(type))
    emit_modal(root + "_" + std::string(type), target(0, type), {value(1, type), value(2, type)}, rounding,
               flush);
  else
    emit(root + "_" + std::string(type), target(0, type), {value(1, type), value(2, type)});
}

void Lowering::min_max() {
  const std::string root(op_.root());
  const bool relu = op_.take("relu");
  const bool nan = op_.has("NaN") || op_.has("xorsign");
  (void)nan;
  std::string_view type;
  Opcode copy = op_;
  type = copy.take_type();
  if (is_float(type)) {
    const std::string relu_type(type);
    if (relu) unsupported("modifier .relu of a floating-point type");
    return float_min_max(type);
  }
  type = op_.take_type();
  const int d = target(0, type);
  const int raw = relu ? temporary(class_of(type)) : d;
  emit(root + "_" + std::string(type), raw, {value(1, type), value(2, type)});
  if (relu) emit(type == "s16x2" ? "max_s16x2" : "max_s32", d, {raw, constant(RegisterClass::b32, 0)});
}

void Lowering::abs_neg() {
  const std::string root(op_.root());
  const bool flush = op_.take("ftz");
  const std::string_view type = op_.take_type();
  const int d = target(0, type);
  const int raw = flush ? temporary(class_of(type)) : d;
  emit(root + "_" + std::string(type), raw, {value(1, type)});
  if (flush) emit("ftz_" + std::string(type), d, {raw});
}

void Lowering::logic() {
  const std::string root(op_.root());
  const std::string_view type = op_.take_type();
  if (type == "pred") {
    const int d = target(0, type);
    const int a = predicate(operand(1));
    if (root == "not") {
      emit(Op::not_pred, d, {a});
      return;
    }
    emit(root + "_pred", d, {a, predicate(operand(2))});
    return;
  }
  const std::string name = root + "_b" + width(type);
  const int d = target(0, type);
  if (root == "not" || root == "cnot")
    emit(name, d, {value(1, type)});
  else
    emit(name, d, {value(1, type), value(2, type)});
}

void Lowering::shift() {
  const std::string root(op_.root());
  const std::string_view type = op_.take_type();
  const std::string kind = root == "shr" && type[0] == 's' ? "s" : root == "shr" ? "u" : "b";
  emit(root + "_" + kind + width(type), target(0, type), {value(1, type), value(2, "u32")});
}

void Lowering::funnel() {
  const std::string side = op_.take("l") ? "l" : op_.take("r") ? "r" : "";
  const std::string mode = op_.take("wrap") ? "wrap" : op_.take("clamp") ? "clamp" : "";
  const std::string_view type = op_.take_type();
  emit("shf_" + side + "_" + mode + "_" + std::string(type), target(0, type),
       {value(1, type), value(2, type), value(3, "u32")});
}

/// popc, clz, brev, bfind, fns
void Lowering::bits() {
  const std::string root(op_.root());
  const bool amount = op_.take("shiftamt");
  const std::string_view type = op_.take_type();
  const std::string_view result = root == "brev" ? type : "u32";
  if (root == "fns") {
    emit("fns_b32", target(0, "b32"), {value(1, "b32"), value(2, "b32"), value(3, "s32")});
    return;
  }
  emit(root + (amount ? "_shiftamt_" : "_") + std::string(type), target(0, result), {value(1, type)});
}

/// bfe, bfi, szext, bmsk
void Lowering::bit_field() {
  const std::string root(op_.root());
  const std::string mode = op_.take("clamp") ? "clamp_" : op_.take("wrap") ? "wrap_" : "";
  const std::string_view type = op_.take_type();
  const std::string name = root + "_" + mode + std::string(type);
  const int d = target(0, type);
  if (root == "bfi")
    emit(name, d, {value(1, type), value(2, type), value(3, "u32"), value(4, "u32")});
  else if (root == "bfe")
    emit(name, d, {value(1, type), value(2, "u32"), value(3, "u32")});
  else
    emit(name, d, {value(1, type), value(2, "u32")});
}

void Lowering::lop3() {
  const std::string combine_how = op_.take("or") ? "or" : op_.take("and") ? "and" : "";
  const std::string_view type = op_.take_type();
  if (operand(4).kind != Operand::Kind::integer) unsupported("the table must be a number");
  const int second = operand(0).second;
  const int d = target(0, type);
  const int result = second >= 0 && combine_how != "" ? temporary(RegisterClass::b32) : d;
  emit("lop3_b32", result, {value(1, type), value(2, type), value(3, type)}).instr.imm =
      static_cast<std::int64_t>(operand(4).bits);
  if (combine_how.empty()) return;
  const int p = temporary(RegisterClass::predicate);
  emit("ne_b32", p, {result, constant(RegisterClass::b32, 0)});
  if (second >= 0) emit(combine_how + "_pred", second, {p, predicate(operand(5))});
  if (result != d) move(d, result);
}

void Lowering::prmt() {
  const std::string_view type = op_.take_type();
  static const std::pair<std::string_view, int> modes[] = {{"f4e", 1}, {"b4e", 2}, {"rc8", 3},
                                                           {"ecl", 4}, {"ecr", 5}, {"rc16", 6}};
  int mode = 0;
  for (const auto& [name, number] : modes)
    if (op_.take(name)) mode = number;
  Pending& pending = emit(mode ? "prmt_mode_b32" : "prmt_b32", target(0, type),
                          {value(1, type), value(2, type), value(3, type)});
  pending.instr.imm = mode;
}

void Lowering::dot() {
  std::string name(op_.root());
  if (name == "dp2a") name += op_.take("lo") ? "_lo" : op_.take("hi") ? "_hi" : "";
  const std::string a(op_.take_type()), b(op_.take_type());
  emit(name + "_" + a + "_" + b, target(0, "b32"), {value(1, "b32"), value(2, "b32"), value(3, "b32")});
}

/// vabsdiff4: differences of bytes without their signs, in place or (.add) added up. From steps that exist:
/// it is rare.
void Lowering::absolute_differences() {
  const std::string type(op_.take_type());
  if (op_.take_type() != type || op_.take_type() != type) unsupported("operands of different types");
  const bool sum = op_.take("add");
  const int a = value(1, type), b = value(2, type), c = value(3, type);
  const int zero = constant(RegisterClass::b32, 0), width = constant(RegisterClass::b32, 8);
  int result = sum ? c : zero;
  for (unsigned at = 0; at < 32; at += 8) {
    const int place = constant(RegisterClass::b32, at);
    const int from_a = temporary(RegisterClass::b32), from_b = temporary(RegisterClass::b32);
    emit("bfe_" + type, from_a, {a, place, width});
    emit("bfe_" + type, from_b, {b, place, width});
    const int difference = temporary(RegisterClass::b32);
    emit("sad_" + type, difference, {from_a, from_b, sum ? result : zero});
    if (sum) {
      result = difference;
      continue;
    }
    const int joined = temporary(RegisterClass::b32);
    emit("bfi_b32", joined, {difference, result, place, width});
    result = joined;
  }
  store_result(target(0, type), result, type);
}

void Lowering::sad() {
  const std::string_view type = op_.take_type();
  emit("sad_" + std::string(type), target(0, type), {value(1, type), value(2, type), value(3, type)});
}

}  // namespace sandbox::ptx
