// Lowering of comparisons and selections.
#include "sandbox/ptx/lower.h"

namespace sandbox::ptx {
namespace {

constexpr std::string_view kComparisons[] = {"eq", "ne",  "lt",  "le",  "gt",  "ge",  "lo",  "ls",  "hi",
                                             "hs", "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"};

std::string_view take_comparison(Opcode& opcode) {
  for (const auto comparison : kComparisons)
    if (opcode.take(comparison)) return comparison;
  return {};
}

std::string_view take_combination(Opcode& opcode) {
  for (const std::string_view how : {"and", "or", "xor"})
    if (opcode.take(how)) return how;
  return {};
}

bool is_pair(std::string_view type) {
  return type == "f16x2" || type == "bf16x2";
}

}  // namespace

/// A predicate that holds the comparison of two registers of a scalar type.
int Lowering::compare_values(std::string_view comparison, int a, int b, std::string_view type, bool flush) {
  const int p = temporary(RegisterClass::predicate);
  if (type == "f32" || type == "f64") {
    emit_modal(std::string(comparison) + "_" + std::string(type), p, {a, b}, 0, flush);
  } else if (type == "f16" || type == "bf16") {
    const int wide_a = convert(a, type, "f32", 0, false, false, false);
    const int wide_b = convert(b, type, "f32", 0, false, false, false);
    emit_modal(std::string(comparison) + "_f32", p, {wide_a, wide_b}, 0, false);
  } else {
    const std::string width = std::to_string(8 * type_bytes(type));
    std::string name(comparison);
    std::string kind = type[0] == 's' ? "s" : "u";
    if (name == "lo" || name == "ls" || name == "hi" || name == "hs") {
      name = name == "lo" ? "lt" : name == "ls" ? "le" : name == "hi" ? "gt" : "ge";
      kind = "u";
    }
    if (name == "eq" || name == "ne") kind = "b";
    emit(name + "_" + kind + width, p, {a, b});
  }
  return p;
}

/// Compares the low halves of two pairs; `second` receives the comparison of the high halves.
int Lowering::compare_halves(std::string_view comparison, int a, int b, std::string_view type, bool flush,
                             int* second) {
  const std::string_view scalar = type.substr(0, type.size() - 2);
  int results[2];
  for (int half = 0; half < 2; ++half) {
    const int part_a = temporary(RegisterClass::b16), part_b = temporary(RegisterClass::b16);
    emit("part_b16_b32", part_a, {a}).instr.imm = 16 * half;
    emit("part_b16_b32", part_b, {b}).instr.imm = 16 * half;
    results[half] = compare_values(comparison, part_a, part_b, scalar, flush);
  }
  *second = results[1];
  return results[0];
}

void Lowering::combine(int& p, std::string_view how, const Operand& with) {
  if (how.empty()) return;
  const int combined = temporary(RegisterClass::predicate);
  emit(std::string(how) + "_pred", combined, {p, predicate(with)});
  p = combined;
}

void Lowering::setp() {
  const std::string_view comparison = take_comparison(op_);
  const std::string_view how = take_combination(op_);
  const bool flush = op_.take("ftz");
  const std::string_view type = op_.take_type();
  if (comparison.empty() || type.empty()) unsupported("no comparison or no type");
  const int a = value(1, type), b = value(2, type);
  const Operand& result = operand(0);
  if (is_pair(type)) {
    int high = -1;
    int low = compare_halves(comparison, a, b, type, flush, &high);
    if (!how.empty()) {
      combine(low, how, operand(3));
      combine(high, how, operand(3));
    }
    if (result.reg >= 0) move(result.reg, low);
    if (result.second >= 0) move(result.second, high);
    return;
  }
  const int plain = compare_values(comparison, a, b, type, flush);
  if (how.empty() && result.second < 0 && result.reg >= 0) {
    // The common form writes its result at once.
    out_.back().v[0] = result.reg;
    out_.back().guard = at_->guard;
    out_.back().instr.flip = at_->guard >= 0 && at_->guard_negated ? kAllLanes : 0;
    return;
  }
  int first = plain, second = -1;
  if (result.second >= 0) {
    second = temporary(RegisterClass::predicate);
    emit(Op::not_pred, second, {plain});
    if (!how.empty()) combine(second, how, operand(3));
  }
  if (!how.empty()) combine(first, how, operand(3));
  if (result.reg >= 0) move(result.reg, first);
  if (result.second >= 0) move(result.second, second);
}

/// set: all ones or 1.0 where the comparison holds.
void Lowering::set() {
  const std::string_view comparison = take_comparison(op_);
  const std::string_view how = take_combination(op_);
  const bool flush = op_.take("ftz");
  const std::string_view to = op_.take_type(), from = op_.take_type();
  if (comparison.empty() || from.empty()) unsupported("no comparison or no type");
  const int a = value(1, from), b = value(2, from);
  const int d = target(0, to);
  if (is_pair(from)) {
    int high = -1;
    int low = compare_halves(comparison, a, b, from, flush, &high);
    if (!how.empty()) {
      combine(low, how, operand(3));
      combine(high, how, operand(3));
    }
    const std::uint64_t yes = to == "f16x2" ? 0x3c00 : to == "bf16x2" ? 0x3f80 : 0xffff;
    const int one = constant(RegisterClass::b16, yes), none = constant(RegisterClass::b16, 0);
    const int low_value = temporary(RegisterClass::b16), high_value = temporary(RegisterClass::b16);
    emit("selp_b16", low_value, {one, none, low});
    emit("selp_b16", high_value, {one, none, high});
    emit("pack_b32_b16", d, {low_value, high_value});
    return;
  }
  int p = compare_values(comparison, a, b, from, flush);
  if (!how.empty()) combine(p, how, operand(3));
  const std::uint64_t yes = to == "f32"    ? 0x3f800000
                            : to == "f16"  ? 0x3c00
                            : to == "bf16" ? 0x3f80
                                           : ~std::uint64_t{0};
  const RegisterClass kind = class_of(to);
  emit("selp_b" + std::to_string(bits_of(kind)), d, {constant(kind, yes), constant(kind, 0), p});
}

void Lowering::selp() {
  const std::string_view type = op_.take_type();
  const int a = value(1, type), b = value(2, type);
  const Operand& choice = operand(3);
  Operand plain = choice;
  plain.negated = false;
  Pending& pending =
      emit("selp_b" + std::to_string(bits_of(class_of(type))), target(0, type), {a, b, predicate(plain)});
  pending.instr.imm = choice.negated ? -1 : 0;
}

void Lowering::slct() {
  const bool flush = op_.take("ftz");
  const std::string_view type = op_.take_type(), by = op_.take_type();
  int c = value(3, by);
  if (flush) {
    const int flushed = temporary(RegisterClass::b32);
    emit("ftz_f32", flushed, {c});
    c = flushed;
  }
  emit("slct_b" + std::to_string(bits_of(class_of(type))) + "_" + std::string(by), target(0, type),
       {value(1, type), value(2, type), c});
}

}  // namespace sandbox::ptx
