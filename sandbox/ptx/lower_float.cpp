// Lowering of floating-point functions, minima and maxima.
#include "sandbox/ptx/lower.h"

namespace sandbox::ptx {

/// 0 nearest, 1 toward zero, 2 down, 3 up.
int Lowering::take_rounding() {
  if (op_.take("rn")) return 0;
  if (op_.take("rz")) return 1;
  if (op_.take("rm")) return 2;
  if (op_.take("rp")) return 3;
  return 0;
}

/// Applies .sat or .relu to a raw result, if asked for.
void Lowering::finish_float(int raw, int d, std::string_view type, bool saturate, bool relu) {
  const std::string name(type);
  if (saturate)
    emit("sat_" + name, d, {raw});
  else if (relu)
    emit("relu_" + name, d, {raw});
  else if (raw != d)
    emit("ftz_" + name, d, {raw});
}

/// rcp, sqrt, rsqrt, sin, cos, lg2, ex2, tanh
void Lowering::float_unary() {
  const std::string root(op_.root());
  const bool approximate = op_.take("approx");
  const int rounding = take_rounding();
  const bool flush = op_.take("ftz");
  const std::string_view type = op_.take_type();
  std::string name = root + "_" + std::string(type);
  if (type == "f64" && approximate && flush) name = root + "_approx_f64";
  const int d = target(0, type);
  const int a = value(1, type);
  if (type == "f32") {
    // Library functions must not see the processor's flush modes: flush before and after.
    if (root == "rcp" || root == "sqrt") {
      emit_modal(name, d, {a}, rounding, flush);
    } else if (flush) {
      const int flushed = temporary(RegisterClass::b32), raw = temporary(RegisterClass::b32);
      emit("ftz_f32", flushed, {a});
      emit(name, raw, {flushed});
      emit("ftz_f32", d, {raw});
    } else {
      emit(name, d, {a});
    }
  } else if (type == "f64") {
    emit_modal(name, d, {a}, rounding, false);
  } else {
    const int raw = flush ? temporary(class_of(type)) : d;
    emit(name, raw, {a});
    if (flush) emit("ftz_" + std::string(type), d, {raw});
  }
}

void Lowering::float_min_max(std::string_view) {
  const std::string root(op_.root());
  const bool flush = op_.take("ftz");
  const bool nan = op_.take("NaN");
  const bool sign = op_.take("xorsign") && op_.take("abs");
  const std::string_view type = op_.take_type();
  const std::string name(type);
  int a = value(1, type), b = value(2, type);
  if (flush) {
    const int flushed_a = temporary(class_of(type)), flushed_b = temporary(class_of(type));
    emit("ftz_" + name, flushed_a, {a});
    emit("ftz_" + name, flushed_b, {b});
    a = flushed_a;
    b = flushed_b;
  }
  const std::string operation = (sign ? "xorsign_" : "") + root + (nan ? "_nan" : "") + "_" + name;
  const int d = target(0, type);
  if (operand_count() == 4) {  // three operands
    int c = value(3, type);
    const int raw = temporary(class_of(type));
    if (flush) {
      const int flushed_c = temporary(class_of(type));
      emit("ftz_" + name, flushed_c, {c});
      c = flushed_c;
    }
    emit(operation, raw, {a, b});
    emit(operation, d, {raw, c});
  } else {
    emit(operation, d, {a, b});
  }
}

void Lowering::copysign() {
  const std::string_view type = op_.take_type();
  emit("copysign_" + std::string(type), target(0, type), {value(1, type), value(2, type)});
}

void Lowering::testp() {
  const std::string property(op_.take_any());
  const std::string_view type = op_.take_type();
  const int a = value(1, type);
  emit("testp_" + property + "_" + std::string(type), target(0, "pred"), {a, a});
}

}  // namespace sandbox::ptx
