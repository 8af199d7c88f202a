// Lowers a kernel with everything it calls and lays out its shared and local memory.
#include "sandbox/ptx/program.h"

#include <algorithm>
#include <unordered_set>

#include "sandbox/ptx/lower.h"
#include "sandbox/ptx/machine.h"

namespace sandbox::ptx {
namespace {

constexpr std::uint64_t kStackBytes = 64 * 1024;  // a thread's, where the depth of calls is not known

/// Bytes of the deepest chain of calls by name; sets `open` where there is no bound.
std::uint64_t deepest(const Code& code, std::unordered_set<const Code*>& active, bool& open) {
  if (!active.insert(&code).second) {
    open = true;
    return 0;
  }
  open |= code.has_indirect_calls;
  std::uint64_t below = 0;
  for (const auto& site : code.calls)
    if (site->code) below = std::max(below, deepest(*site->code, active, open));
  active.erase(&code);
  return code.frame_bytes + below;
}

}  // namespace

Program::Program(const Function& kernel, Linker& linker) : linker_(linker) {
  std::lock_guard lock(mutex_);
  entry_ = &lower(kernel);
  bool open = false;
  std::unordered_set<const Code*> active;
  local_bytes_ = deepest(*entry_, active, open);
  if (open) local_bytes_ += kStackBytes;
  may_grow_ = open;
  sealed_ = true;
}

const Code& Program::code_of(const Function& function) {
  std::lock_guard lock(mutex_);
  return lower(function);
}

const Code& Program::lower(const Function& function) {
  auto& place = codes_[&function];
  if (place) return *place;
  place = std::make_unique<Code>();
  Code& code = *place;
  code.function = &function;
  code.registers_begin = next_register_;
  Lowering(*this, function, code).run();
  next_register_ = code.registers_end;
  for (const auto& site : code.calls)
    if (site->callee && site->system == SystemCall::none) site->code = &lower(*site->callee);
  return code;
}

std::uint64_t Program::shared_offset(const Variable& variable) {
  const auto [entry, fresh] = shared_offsets_.emplace(&variable, 0);
  if (!fresh) return entry->second;
  if (sealed_)
    throw Fault{FaultKind::unsupported, "a function called by pointer uses shared memory of its own (" +
                                            std::string(variable.name) + ")"};
  const std::uint64_t align = std::max<std::uint64_t>(variable.align, 1);
  shared_bytes_ = (shared_bytes_ + align - 1) / align * align;
  entry->second = shared_bytes_;
  shared_bytes_ += variable.bytes;
  return entry->second;
}

void Program::need_dynamic_shared(const Variable& variable) {
  dynamic_shared_align_ = std::max<std::uint64_t>(dynamic_shared_align_, variable.align);
}

}  // namespace sandbox::ptx
