// The words for what went wrong in a kernel: where, which thread, which address.
#include <algorithm>
#include <cinttypes>
#include <cstdio>

#include "sandbox/ptx/address_space.h"
#include "sandbox/ptx/block.h"
#include "sandbox/ptx/machine_limits.h"

namespace sandbox::ptx {

static_assert(static_cast<int>(FaultKind::illegal_address) == kIllegalAddress);
static_assert(static_cast<int>(FaultKind::misaligned_address) == kMisaligned);
static_assert(static_cast<int>(FaultKind::assertion) == kAssertion);
static_assert(static_cast<int>(FaultKind::trap) == kTrap);
static_assert(static_cast<int>(FaultKind::deadlock) == kDeadlock);
static_assert(static_cast<int>(FaultKind::unsupported) == kUnsupported);

const Code* code_containing(const Warp& warp, const Instr* at) {
  const auto holds = [at](const Code& code) {
    return at >= code.instructions.data() && at < code.instructions.data() + code.instructions.size();
  };
  for (const auto& frame : warp.frames)
    if (frame->code && holds(*frame->code)) return frame->code;
  return nullptr;
}

std::string describe_place(const BlockRun& block, const Warp& warp, std::uint32_t lane, const Instr* at) {
  std::string text = "kernel " + block.context->kernel_name;
  if (const Code* code = code_containing(warp, at)) {
    const LineInfo& line = code->line_of(at);
    text += ", PTX line " + std::to_string(line.line) + " (" + std::string(line.opcode);
    const auto& files = code->function->image->files;
    if (const auto file = files.find(line.source_file); file != files.end() && line.source_line != 0)
      text += ", " + std::string(file->second) + ":" + std::to_string(line.source_line);
    text += ")";
    if (!code->function->entry) text += " in " + std::string(code->function->name);
  }
  const Dim3 size = block.context->launch->block;
  const std::uint32_t thread = block.thread_of(warp, lane);
  char where[128];
  std::snprintf(where, sizeof where, ", block (%u,%u,%u), thread (%u,%u,%u)", block.block_index.x,
                block.block_index.y, block.block_index.z, thread % size.x, thread / size.x % size.y,
                thread / size.x / size.y);
  return text + where;
}

void BlockRun::report(const Warp& warp, const LaneFault& fault) const {
  std::string text = describe_place(*this, warp, fault.lane, warp.current) + ": " + fault.what;
  if (fault.has_address) {
    char address[64];
    std::snprintf(address, sizeof address, " of %u bytes at 0x%" PRIx64, fault.bytes, fault.address);
    text += address;
    const std::string_view what = fault.what;
    if (what.find("shared") != std::string_view::npos)
      text += "; the block has " + std::to_string(warp.shared_bytes) + " bytes of shared memory";
    else if (what.find("local") != std::string_view::npos)
      text += "; a thread has " + std::to_string(warp.local_bytes) + " bytes of local memory";
    else
      text += "; " + AddressSpace::instance().describe(reinterpret_cast<const void*>(fault.address));
  }
  throw Fault{static_cast<FaultKind>(fault.kind), text};
}

void BlockRun::report_deadlock() const {
  std::string text;
  int shown = 0;
  for (const Warp& warp : warps) {
    for (const Fragment& fragment : warp.fragments) {
      if (++shown > 4) continue;
      const auto lane = static_cast<std::uint32_t>(__builtin_ctz(fragment.mask));
      if (text.empty())
        text = describe_place(*this, warp, lane, fragment.ip) + ": deadlock: ";
      else
        text += "; and " + describe_place(*this, warp, lane, fragment.ip) + " ";
      char waits[160];
      if (fragment.state == Fragment::State::barrier)
        std::snprintf(waits, sizeof waits, "%d threads wait at barrier %u for threads that cannot come",
                      __builtin_popcount(fragment.mask), fragment.needs);
      else
        std::snprintf(waits, sizeof waits,
                      "lanes 0x%08x wait for lanes 0x%08x of their warp, which cannot come", fragment.mask,
                      fragment.needs & ~fragment.mask);
      text += waits;
    }
  }
  if (shown > 4) text += "; and " + std::to_string(shown - 4) + " more";
  throw Fault{FaultKind::deadlock, text};
}

}  // namespace sandbox::ptx
