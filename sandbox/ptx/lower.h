// Lowering of one function: PTX instructions become operations on virtual registers, which then get places.
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <unordered_map>

#include "sandbox/ptx/program.h"

namespace sandbox::ptx {

/// An opcode taken apart. Every part must be taken by somebody: nothing is ignored.
class Opcode {
 public:
  explicit Opcode(std::string_view text);

  std::string_view root() const { return parts_[0]; }
  bool take(std::string_view part);
  bool has(std::string_view part) const;
  /// Takes the next part that is a type; empty if there is none.
  std::string_view take_type();
  /// The first part that nobody took; empty if there is none.
  std::string_view rest() const;
  /// Takes the first part that nobody took.
  std::string_view take_any();

 private:
  std::vector<std::string_view> parts_;
  std::vector<bool> taken_;
};

/// The operation of that name, if there is one.
std::optional<Op> find_op(const std::string& name);

/// One operation on virtual registers.
struct Pending {
  Instr instr;
  int v[8] = {-1, -1, -1, -1, -1, -1, -1, -1};  // virtual registers behind instr.r
  int guard = -1;
  std::uint8_t defines = 0;  // bit k: r[k] is written
  int select = -1;           // a label that imm must lead to
  bool modal = false;        // runs in the floating-point mode of instr.y
  std::uint32_t source = 0;  // index of the PTX instruction
};

class Lowering {
 public:
  Lowering(Program& program, const Function& function, Code& code);
  void run();

 private:
  friend class Allocator;
  using Method = void (Lowering::*)();
  static const std::unordered_map<std::string_view, Method>& methods();

  // lower.cpp: operands and emission
  [[noreturn]] void unsupported(const std::string& what) const;
  void lower_instruction(std::uint32_t index);
  const Operand& operand(std::size_t k) const;
  std::size_t operand_count() const { return at_->operands.size(); }
  static RegisterClass class_of(std::string_view type);
  static int bits_of(RegisterClass kind);
  RegisterClass class_of_register(int v) const { return classes_[static_cast<std::size_t>(v)]; }
  int temporary(RegisterClass kind);
  int constant(RegisterClass kind, std::uint64_t bits, const Variable* variable = nullptr);
  int special(std::string_view name, RegisterClass kind);
  std::uint64_t reserved_shared_offset(std::string_view name);
  /// The register that holds an operand's value, of the type's class.
  int value(const Operand& operand, std::string_view type);
  int value(std::size_t k, std::string_view type) { return value(operand(k), type); }
  int predicate(const Operand& operand);
  int target(std::size_t k, std::string_view type);
  int symbol_address(const Operand& operand, RegisterClass kind);
  Pending& emit(Op op, int d, std::initializer_list<int> sources);
  Pending& emit(const std::string& name, int d, std::initializer_list<int> sources);
  /// Emits in a mode of rounding (0..3) and flushing.
  void emit_modal(const std::string& name, int d, std::initializer_list<int> sources, int rounding,
                  bool flush);
  void move(int d, int s);
  void keep_guard(Pending& pending) const;
  bool is_temporary(int v) const { return temporaries_[static_cast<std::size_t>(v)]; }

  // lower_integer.cpp
  int flushed(int v, std::string_view type, bool flush);
  void add_sub(), carry(), mul_mad(), div_rem(), min_max(), abs_neg(), logic(), shift(), funnel(), bits(),
      bit_field();
  void lop3(), prmt(), dot(), sad(), absolute_differences();
  // lower_float.cpp
  void float_arithmetic(const std::string&root, std::string_view type), float_unary();
  void float_min_max(std::string_view type), copysign(), testp();
  int take_rounding();
  void finish_float(int result, int d, std::string_view type, bool saturate, bool relu);
  // lower_compare.cpp
  void setp(), set(), selp(), slct();
  int compare_halves(std::string_view comparison, int a, int b, std::string_view type, bool flush,
                     int* second);
  int compare_values(std::string_view comparison, int a, int b, std::string_view type, bool flush);
  void combine(int& p, std::string_view how, const Operand& with);
  // lower_convert.cpp
  void cvt(), cvt_pack();
  int to_class(int v, RegisterClass kind, bool is_signed);
  int convert(int v, std::string_view from, std::string_view to, int rounding, bool integral, bool saturate,
              bool flush);
  int convert_integer(int v, std::string_view from, std::string_view to, bool saturate);
  void store_result(int d, int v, std::string_view type);
  void convert_packed(std::string_view to, std::string_view from);
  // lower_data.cpp
  void mov(), cvta(), isspacep();
  int pack(const Operand& vector, RegisterClass kind);
  void unpack(const Operand& vector, int s);
  // lower_memory.cpp
  void ld(), st(), atom(), prefetch(), fence(), cp_async(), createpolicy(), mbarrier(), mapa();
  struct Place {
    AddressForm form;
    int base;
    std::int64_t displacement;
  };
  Space take_space();
  bool take_memory_modifiers();
  Place place(const Operand& address, Space& space);
  void set_place(Pending& pending, const Place& place, Space space);
  // lower_control.cpp
  void bra(), brx(), call(), ret(), exit_(), trap(), barrier(), nanosleep(), nothing();
  // lower_warp.cpp
  void shfl(), vote(), match(), redux(), elect(), activemask(), warp_sync();

  void place_variables();
  FrameSpan place_in_frame(const Variable& variable);

  Program& program_;
  const Function& function_;
  const Body& body_;
  Code& code_;
  const Instruction* at_ = nullptr;
  Opcode op_;
  std::vector<Pending> out_;
  std::vector<std::uint32_t> starts_;  // PTX instruction -> index into out_
  std::vector<RegisterClass> classes_;
  std::vector<bool> temporaries_;
  std::vector<int> pinned_;  // virtual registers that keep their place: constants and specials
  std::unordered_map<std::string, int> constants_;
  std::unordered_map<std::string_view, int> specials_;
  std::unordered_map<const Variable*, std::uint64_t> frame_offsets_;
  std::uint64_t frame_bytes_ = 0;
  std::uint32_t source_ = 0;
};

/// Gives virtual registers their places and writes the final instructions (allocate.cpp).
void allocate_registers(std::vector<Pending>& code, const std::vector<RegisterClass>& classes,
                        const std::vector<bool>& pinned, const std::vector<bool>& temporary,
                        std::uint32_t& next_place, std::vector<std::uint32_t>& places);

}  // namespace sandbox::ptx
