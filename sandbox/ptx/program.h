// A kernel lowered for execution: the code of its functions, their registers, shared and local memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "sandbox/ptx/ir.h"
#include "sandbox/ptx/syntax.h"

namespace sandbox::ptx {

enum class Special : std::uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  nwarpid,
  smid,
  nsmid,
  gridid,
  lanemask_eq,
  lanemask_le,
  lanemask_lt,
  lanemask_ge,
  lanemask_gt,
  dynamic_smem_size,
  total_smem_size,
  grid_workspace_high,
  grid_workspace_low,
  zero,
  one,
};

/// A value that is in a register from the start: a number, or the address of something.
struct ConstantInit {
  std::uint32_t slot = 0;
  RegisterClass kind = RegisterClass::b32;
  std::uint64_t bits = 0;
  const Variable* variable =
      nullptr;  // plus its address on the device, or the offset of dynamic shared memory
};

struct SpecialInit {
  std::uint32_t slot = 0;
  Special special = Special::zero;
};

struct LineInfo {
  std::uint32_t line = 0;
  std::uint16_t source_file = 0;
  std::uint32_t source_line = 0;
  std::string_view opcode;
};

struct Code;

/// Bytes of a frame that a call copies.
struct FrameSpan {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

enum class SystemCall : std::uint8_t { none, print, assert_fail, allocate, release };

struct CallSite {
  const Function* callee = nullptr;    // nullptr: indirect
  mutable const Code* code = nullptr;  // of the callee, once lowered
  SystemCall system = SystemCall::none;
  std::vector<FrameSpan> arguments, returns;  // in the caller's frame
};

struct Code {
  const Function* function = nullptr;
  std::vector<Instr> instructions;
  std::vector<LineInfo> lines;  // of each instruction
  std::vector<ConstantInit> constants;
  std::vector<SpecialInit> specials;
  std::vector<std::unique_ptr<CallSite>> calls;
  std::vector<std::unique_ptr<std::vector<std::int64_t>>> tables;        // brx.idx: distances
  std::vector<FrameSpan> parameters, returns;                            // in its own frame
  std::uint32_t registers_begin = 0, registers_end = 0;                  // its part of the register file
  std::vector<std::pair<std::uint32_t, RegisterClass>> register_places;  // all but constants
  std::uint64_t frame_bytes = 0;
  bool has_indirect_calls = false;

  const LineInfo& line_of(const Instr* at) const {
    return lines[static_cast<std::size_t>(at - instructions.data())];
  }
};

/// What lowering asks of the module around a function.
class Linker {
 public:
  virtual ~Linker() = default;
  virtual const Function* find_function(const Image& from, std::string_view name) = 0;
  virtual const Variable* find_variable(const Image& from, std::string_view name) = 0;
};

class Program {
 public:
  /// Lowers the kernel and all functions that it calls by name. Throws Fault.
  Program(const Function& kernel, Linker& linker);

  const Code& entry() const { return *entry_; }
  /// The code of a function; lowered at the first request. Thread-safe.
  const Code& code_of(const Function& function);
  std::uint64_t static_shared_bytes() const { return shared_bytes_; }
  /// Bytes of registers a warp needs; functions called by pointer may still come.
  std::uint64_t register_bytes() const { return next_register_; }
  bool may_grow() const { return may_grow_; }
  /// Bytes of local memory a thread needs.
  std::uint64_t local_bytes() const { return local_bytes_; }
  Linker& linker() { return linker_; }

  /// Where a shared variable lies; placed at the first request (while lowering).
  std::uint64_t shared_offset(const Variable& variable);
  /// Notes that an extern shared array is used; all of them begin where static shared memory ends.
  void need_dynamic_shared(const Variable& variable);
  /// Dynamic shared memory begins here; known when all functions are lowered.
  std::uint64_t dynamic_shared_offset() const {
    return (shared_bytes_ + dynamic_shared_align_ - 1) / dynamic_shared_align_ * dynamic_shared_align_;
  }

 private:
  const Code& lower(const Function& function);

  Linker& linker_;
  std::mutex mutex_;
  std::unordered_map<const Function*, std::unique_ptr<Code>> codes_;
  std::unordered_map<const Variable*, std::uint64_t> shared_offsets_;
  const Code* entry_ = nullptr;
  std::uint64_t shared_bytes_ = 0;
  std::uint64_t dynamic_shared_align_ = 16;
  std::uint64_t local_bytes_ = 0;
  std::uint32_t next_register_ = kFirstSlot;
  bool may_grow_ = false;
  bool sealed_ = false;  // launched: shared memory cannot grow any more
};

}  // namespace sandbox::ptx
