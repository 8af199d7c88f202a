// Lowering of conversions: chains of simple steps through temporaries.
#include "sandbox/ptx/lower.h"

namespace sandbox::ptx {
namespace {

bool is_float(std::string_view type) {
  return type.find('f') != std::string_view::npos;
}
bool is_half(std::string_view type) {
  return type == "f16" || type == "bf16";
}
bool is_signed(std::string_view type) {
  return type[0] == 's';
}

}  // namespace

/// The value of a register in a register of another size: low bits, or extended.
int Lowering::to_class(int v, RegisterClass kind, bool extend_sign) {
  const RegisterClass from = class_of_register(v);
  if (from == kind) return v;
  if (from == RegisterClass::predicate || kind == RegisterClass::predicate || from == RegisterClass::b128 ||
      kind == RegisterClass::b128)
    unsupported("operand of another size");
  const int narrow = std::min(bits_of(from), bits_of(kind));
  const int d = temporary(kind);
  emit("ext_" + std::to_string(bits_of(kind)) + "_" + std::to_string(bits_of(from)) + "_" +
           (extend_sign ? "s" : "u") + std::to_string(narrow),
       d, {v});
  return d;
}

/// Integer to integer. The operand may be in a wider register than its type.
int Lowering::convert_integer(int v, std::string_view from, std::string_view to, bool saturate) {
  const RegisterClass kind = class_of(to);
  const std::string source = std::to_string(bits_of(class_of_register(v)));
  const std::string part = (is_signed(from) ? "s" : "u") + std::to_string(8 * type_bytes(from));
  if (saturate) {
    const int wide = temporary(RegisterClass::b64), clamped = temporary(RegisterClass::b64);
    emit("ext_64_" + source + "_" + part, wide, {v});
    emit("sat_" + std::string(to) + (is_signed(from) ? "_s64" : "_u64"), clamped, {wide});
    return to_class(clamped, kind, false);
  }
  const int d = temporary(kind);
  emit("ext_" + std::to_string(bits_of(kind)) + "_" + source + "_" + part, d, {v});
  if (type_bytes(to) != 1) return d;
  const int byte = temporary(kind);
  emit("ext_16_16_" + std::string(is_signed(to) ? "s8" : "u8"), byte, {d});
  return byte;
}

/// rounding: 0 nearest, 1 toward zero, 2 down, 3 up; `integral`: .rni, .rzi, .rmi, .rpi.
int Lowering::convert(int v, std::string_view from, std::string_view to, int rounding, bool integral,
                      bool saturate, bool flush) {
  static const char* const kToInteger[] = {"rint_", "trunc_", "floor_", "ceil_"};
  const auto step = [&](const std::string& name, RegisterClass kind, int s) {
    const int d = temporary(kind);
    emit(name, d, {s});
    return d;
  };
  const auto modal_step = [&](const std::string& name, RegisterClass kind, int s) {
    const int d = temporary(kind);
    emit_modal(name, d, {s}, rounding, false);
    return d;
  };
  if (!is_float(from) && !is_float(to)) return convert_integer(v, from, to, saturate);

  if (!is_float(from)) {  // integer -> float
    const bool wide = type_bytes(from) == 8;
    const std::string integer = (is_signed(from) ? "s" : "u") + std::string(wide ? "64" : "32");
    const int whole = wide ? v : convert_integer(v, from, is_signed(from) ? "s32" : "u32", false);
    if (is_half(to)) {
      const int exact =
          step(wide ? "cvt_odd_f64_" + integer : "cvt_f64_" + integer, RegisterClass::b64, whole);
      const int d = temporary(RegisterClass::b16);
      emit("cvt_" + std::string(to) + "_f64", d, {exact}).instr.imm = rounding;
      return saturate ? step("sat_" + std::string(to), RegisterClass::b16, d) : d;
    }
    const int d = modal_step("cvt_" + std::string(to) + "_" + integer, class_of(to), whole);
    return saturate ? step("sat_" + std::string(to), class_of(to), d) : d;
  }

  // float -> anything: 16-bit floats widen exactly first
  std::string working(from);
  if (flush && from == "f32") v = step("ftz_f32", RegisterClass::b32, v);
  if (is_half(from)) {
    if (to == from && !integral) return saturate ? step("sat_" + working, RegisterClass::b16, v) : v;
    v = step("cvt_f32_" + working, RegisterClass::b32, v);
    working = "f32";
  }
  if (integral) v = step(kToInteger[rounding] + working, class_of(working), v);
  if (!is_float(to)) {
    const bool small = type_bytes(to) < 4;
    // A double's NaN is the top bit alone, which the way through .s32 has for signed types only.
    if (small && working == "f64" && !is_signed(to))
      return step("cvt_" + std::string(to) + "_f64", RegisterClass::b16, v);
    const std::string integer = small ? "s32" : std::string(to);
    const std::string_view reached = small ? std::string_view("s32") : to;
    const int d = step("cvt_" + integer + "_" + working, class_of(reached), v);
    return small ? convert_integer(d, "s32", to, true) : d;
  }
  int d = v;
  if (to == working) {
    d = v;
  } else if (to == "f64") {
    d = step("cvt_f64_f32", RegisterClass::b64, v);
  } else if (to == "f32") {
    d = modal_step("cvt_f32_f64", RegisterClass::b32, v);
  } else if (to == "tf32") {
    d = step("cvt_tf32_f32", RegisterClass::b32, v);
    out_.back().instr.imm = rounding;
  } else if (is_half(to)) {
    if (saturate) {
      v = step("sat_" + working, class_of(working), v);
      saturate = false;
    }
    if (working == "f32" && rounding == 0) {
      d = step("cvt_" + std::string(to) + "_f32", RegisterClass::b16, v);
    } else {
      if (working == "f32") v = step("cvt_f64_f32", RegisterClass::b64, v);
      d = temporary(RegisterClass::b16);
      emit("cvt_" + std::string(to) + "_f64", d, {v}).instr.imm = rounding;
    }
  } else {
    unsupported("conversion to ." + std::string(to));
  }
  if (flush && to == "f32") d = step("ftz_f32", RegisterClass::b32, d);
  if (saturate) d = step("sat_" + std::string(to), class_of(to), d);
  return d;
}

/// Writes a value to a result register, which may be wider than the type.
void Lowering::store_result(int d, int v, std::string_view type) {
  const RegisterClass kind = class_of_register(d);
  if (class_of_register(v) != kind) v = to_class(v, kind, is_signed(type));
  const bool fresh = is_temporary(v) && !out_.empty() && out_.back().v[0] == v && out_.back().defines == 1;
  if (!fresh) return move(d, v);
  // The last step writes the result itself.
  out_.back().v[0] = d;
  out_.back().guard = at_->guard;
  out_.back().instr.flip = at_->guard >= 0 && at_->guard_negated ? kAllLanes : 0;
}

void Lowering::cvt() {
  if (op_.take("pack")) return cvt_pack();
  static const std::string_view kInteger[] = {"rni", "rzi", "rmi", "rpi"};
  static const std::string_view kFloat[] = {"rn", "rz", "rm", "rp", "rna"};
  int rounding = 0;
  bool integral = false, away = false;
  for (int k = 0; k < 4; ++k)
    if (op_.take(kInteger[k])) {
      rounding = k;
      integral = true;
    }
  for (int k = 0; k < 5; ++k)
    if (op_.take(kFloat[k])) {
      rounding = k;
      away = k == 4;
    }
  const bool flush = op_.take("ftz");
  const bool saturate = op_.take("sat");
  const bool finite = op_.take("satfinite");
  const bool relu = op_.take("relu");
  const std::string_view to = op_.take_type(), from = op_.take_type();
  if (from.empty()) unsupported("no type");
  const bool to_tiny = to == "e4m3x2" || to == "e5m2x2", from_tiny = from == "e4m3x2" || from == "e5m2x2";
  if (to == "f16x2" || to == "bf16x2" || to_tiny || from_tiny) {
    if (finite && !to_tiny) unsupported("modifier .satfinite");
    if (to_tiny && !finite) unsupported("a conversion to 8 bits without .satfinite");
    int a = value(1, from);
    int b = operand_count() > 2 ? value(2, from) : -1;
    const std::string name(to), source(from);
    const RegisterClass kind = class_of(to);
    const int d = target(0, to);
    const int raw = temporary(kind);
    if (from == "f32" && !to_tiny) {
      if (relu || flush || rounding != 0) {
        const std::string half = name.substr(0, name.size() - 2);
        int parts[2] = {convert(b, from, half, rounding, false, false, flush),
                        convert(a, from, half, rounding, false, false, flush)};
        emit("pack_b32_b16", raw, {parts[0], parts[1]});
      } else {
        emit("pack_" + name + "_f32", raw, {a, b});
      }
    } else if (from == "f32") {
      if (relu) {
        const int zero = constant(RegisterClass::b32, 0);
        const int positive_a = temporary(RegisterClass::b32), positive_b = temporary(RegisterClass::b32);
        emit("max_nan_f32", positive_a, {a, zero});
        emit("max_nan_f32", positive_b, {b, zero});
        a = positive_a;
        b = positive_b;
      }
      emit("pack_" + name + "_f32", raw, {a, b});
    } else {
      if (relu && to_tiny) {
        const int positive = temporary(class_of(from));
        emit("relu_" + source, positive, {a});
        a = positive;
      }
      emit("cvt_" + name + "_" + source, raw, {a});
    }
    if (relu && !to_tiny) {
      emit("relu_" + name, d, {raw});
    } else {
      store_result(d, raw, to);
    }
    return;
  }
  if (finite && to != "tf32") unsupported("modifier .satfinite");
  if (away && to != "tf32") unsupported("rounding .rna");
  const Operand& result = operand(0);
  const int d = result.kind == Operand::Kind::sink ? temporary(class_of(to)) : result.reg;
  if (d < 0) unsupported("the result must be a register");
  // The operand may be in a wider register; its class is kept for integers.
  const Operand& source = operand(1);
  int v = source.kind == Operand::Kind::reg && !is_float(from) ? source.reg : value(source, from);
  int converted = convert(v, from, to, rounding, integral, saturate, flush);
  if (relu) {
    const int positive = temporary(class_of(to));
    if (to == "tf32" || to == "f32")
      emit("max_nan_f32", positive, {converted, constant(RegisterClass::b32, 0)});
    else
      emit("relu_" + std::string(to), positive, {converted});
    converted = positive;
  }
  store_result(d, converted, to);
}

/// cvt.pack.sat.to.s32{.b32} d, a, b{, c}: saturates both and packs them, c's low part above.
void Lowering::cvt_pack() {
  if (!op_.take("sat")) unsupported("cvt.pack without .sat");
  const std::string_view to = op_.take_type(), from = op_.take_type();
  const bool with_c = !op_.take_type().empty();
  const int a = convert_integer(value(1, from), from, to, true);
  const int b = convert_integer(value(2, from), from, to, true);
  const int d = target(0, "b32");
  if (type_bytes(to) == 2) {
    emit("pack_b32_b16", d, {b, a});
    return;
  }
  const int low = temporary(RegisterClass::b16);
  emit("pack_b16_b8", low, {b, a});
  const int above = temporary(RegisterClass::b16);
  if (with_c)
    emit("part_b16_b32", above, {value(3, "b32")}).instr.imm = 0;
  else
    emit("mov_b16", above, {constant(RegisterClass::b16, 0)});
  emit("pack_b32_b16", d, {low, above});
}

}  // namespace sandbox::ptx
