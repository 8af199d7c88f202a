// Divergence, convergence, calls, returns and exits of warps.
#include <algorithm>

#include "sandbox/ptx/block.h"
#include "sandbox/ptx/handlers.h"
#include "sandbox/ptx/machine_limits.h"
#include "sandbox/ptx/print.h"
#include "sandbox/ptx/warp_control.h"

namespace sandbox::ptx {
namespace {

constexpr std::uint32_t kMaximumDepth = 20000;  // calls within calls

const Instr* stop(Warp& warp, Stop why, const Instr* resume) {
  warp.stop = why;
  warp.resume = resume;
  return stop_at();
}

/// Leaves lanes of the running fragment at another place.
void leave(Warp& warp, const Instr* ip, std::uint32_t mask) {
  if (mask == 0) return;
  Fragment fragment;
  fragment.ip = ip;
  fragment.frame = warp.frame;
  fragment.mask = mask;
  warp.fragments.push_back(fragment);
  warp.mask &= ~mask;
  if (ip > warp.current && ip < warp.limit) warp.limit = ip;
}

Frame* new_frame(Warp& warp) {
  if (!warp.spare_frames.empty()) {
    Frame* frame = warp.spare_frames.back();
    warp.spare_frames.pop_back();
    frame->saved.clear();
    return frame;
  }
  warp.frames.push_back(std::make_unique<Frame>());
  return warp.frames.back().get();
}

/// Lanes have left a frame for good; the last one returns it.
void drop(Warp& warp, Frame* frame, std::uint32_t lanes) {
  frame->lanes &= ~lanes;
  if (frame->lanes == 0) warp.spare_frames.push_back(frame);
}

/// Copies bytes of a frame for some lanes; frames consist of whole words.
void copy_words(Warp& warp, std::uint64_t to, std::uint64_t from, std::uint64_t bytes, std::uint32_t lanes) {
  for (std::uint64_t at = 0; at < bytes; at += 4) {
    auto* d = reinterpret_cast<std::uint32_t*>(warp.local + (to + at) / 4 * 128);
    const auto* s = reinterpret_cast<const std::uint32_t*>(warp.local + (from + at) / 4 * 128);
    for (int l = 0; l < kLanes; ++l)
      if (lanes >> l & 1) d[l] = s[l];
  }
}

/// A function that is entered again while active: its registers are kept for the return.
void save_registers(Warp& warp, Frame& frame) {
  const Code& code = *frame.code;
  const std::uint8_t* begin = warp.regs + code.registers_begin;
  frame.saved.assign(begin, begin + (code.registers_end - code.registers_begin));
}

/// Restores the lanes' parts; `places` of the function tell how wide each register is, so lanes are copied by
/// kind.
void restore_registers(Warp& warp, const Frame& frame, std::uint32_t lanes) {
  const Code& code = *frame.code;
  for (const auto& [place, kind] : code.register_places) {
    const std::uint8_t* s = frame.saved.data() + (place - code.registers_begin);
    std::uint8_t* d = warp.regs + place;
    if (kind == RegisterClass::predicate) {
      auto* bits = reinterpret_cast<std::uint32_t*>(d);
      *bits = (*bits & ~lanes) | (*reinterpret_cast<const std::uint32_t*>(s) & lanes);
      continue;
    }
    const std::size_t bytes = kind == RegisterClass::b16   ? 2
                              : kind == RegisterClass::b32 ? 4
                              : kind == RegisterClass::b64 ? 8
                                                           : 16;
    for (std::size_t l = 0; l < kLanes; ++l)
      if (lanes >> l & 1) std::copy_n(s + l * bytes, bytes, d + l * bytes);
  }
}

const Instr* enter(Warp& warp, const Instr* i, const CallSite& site, const Code& code, std::uint32_t mask) {
  leave(warp, i + 1, warp.mask & ~mask);
  count_segment(warp, i + 1);
  if (site.arguments.size() != code.parameters.size())
    throw_fault(kIllegalAddress, static_cast<std::uint32_t>(__builtin_ctz(mask)),
                "call with another number of arguments");
  Frame* caller = warp.frame;
  const std::uint64_t base = caller->local_base + caller->code->frame_bytes;
  if (base + code.frame_bytes > warp.local_bytes || caller->depth > kMaximumDepth)
    throw_fault(kIllegalAddress, static_cast<std::uint32_t>(__builtin_ctz(mask)), "stack overflow");
  Frame* frame = new_frame(warp);
  frame->code = &code;
  frame->parent = caller;
  frame->return_to = i + 1;
  frame->call = i;
  frame->lanes = mask;
  frame->depth = caller->depth + 1;
  frame->local_base = base;
  for (const Frame* outer = caller; outer; outer = outer->parent)
    if (outer->code == &code) {
      save_registers(warp, *frame);
      break;
    }
  warp.block->prepare(warp, code);
  for (std::size_t k = 0; k < code.parameters.size(); ++k)
    copy_words(warp, base + code.parameters[k].offset, caller->local_base + site.arguments[k].offset,
               std::min(code.parameters[k].bytes, site.arguments[k].bytes), mask);
  warp.frame = frame;
  warp.local_base = base;
  warp.limit = stop_at() - 1;  // nobody else is in this frame
  warp.segment = code.instructions.data();
  return code.instructions.data();
}

const Instr* call(Warp& warp, const Instr* i) {
  const std::uint32_t mask = guarded_lanes(warp, i);
  if (mask == 0) return i + 1;
  const auto& site = *reinterpret_cast<const CallSite*>(i->imm);
  if (!site.code) site.code = &warp.block->context->program->code_of(*site.callee);
  return enter(warp, i, site, *site.code, mask);
}

const Instr* call_indirect(Warp& warp, const Instr* i) {
  const std::uint32_t mask = guarded_lanes(warp, i);
  if (mask == 0) return i + 1;
  const auto& site = *reinterpret_cast<const CallSite*>(i->imm);
  const auto* pointers = reinterpret_cast<const std::uint64_t*>(warp.regs + i->r[1]);
  const auto first = static_cast<std::uint32_t>(__builtin_ctz(mask));
  std::uint32_t same = 0;
  for (std::uint32_t l = 0; l < kLanes; ++l)
    same |= static_cast<std::uint32_t>(pointers[l] == pointers[first]) << l;
  same &= mask;
  leave(warp, i, mask & ~same);  // other functions: later, at this same call
  const Function* function = find_known_function(pointers[first]);
  if (!function)
    throw_address_fault(kIllegalAddress, first, "call through a pointer to no function", pointers[first], 0);
  return enter(warp, i, site, warp.block->context->program->code_of(*function), same);
}

const Instr* ret(Warp& warp, const Instr* i) {
  const std::uint32_t mask = guarded_lanes(warp, i);
  if (mask == 0) return i + 1;
  count_segment(warp, i + 1);
  Frame* frame = warp.frame;
  Frame* caller = frame->parent;
  const auto& site = *reinterpret_cast<const CallSite*>(frame->call->imm);
  const Code& code = *frame->code;
  for (std::size_t k = 0; k < std::min(code.returns.size(), site.returns.size()); ++k)
    copy_words(warp, caller->local_base + site.returns[k].offset, frame->local_base + code.returns[k].offset,
               std::min(code.returns[k].bytes, site.returns[k].bytes), mask);
  if (!frame->saved.empty()) restore_registers(warp, *frame, mask);
  leave(warp, i + 1, warp.mask & ~mask);
  warp.frame = caller;
  warp.local_base = caller->local_base;
  const Instr* back = frame->return_to;
  drop(warp, frame, mask);
  warp.segment = back;
  if (warp.fragments.empty()) {
    warp.limit = stop_at() - 1;
    return back;
  }
  return stop(warp, Stop::reschedule, back);
}

const Instr* exit(Warp& warp, const Instr* i) {
  const std::uint32_t mask = guarded_lanes(warp, i);
  if (mask == 0) return i + 1;
  count_segment(warp, i + 1);
  warp.live &= ~mask;
  for (Frame* frame = warp.frame; frame;) {
    Frame* parent = frame->parent;
    drop(warp, frame, mask);
    frame = parent;
  }
  warp.mask &= ~mask;
  // Others may have waited for these lanes.
  for (Fragment& fragment : warp.fragments)
    if (fragment.state == Fragment::State::warp_sync) fragment.state = Fragment::State::ready;
  warp.block->recheck_barriers();
  return stop(warp, Stop::reschedule, i + 1);
}

const Instr* trap(Warp& warp, const Instr* i) {
  const std::uint32_t mask = guarded_lanes(warp, i);
  if (mask == 0) return i + 1;
  throw_fault(kTrap, static_cast<std::uint32_t>(__builtin_ctz(mask)), "trap");
}

const Instr* brx(Warp& warp, const Instr* i) {
  const std::uint32_t mask = guarded_lanes(warp, i);
  if (mask == 0) return i + 1;
  const auto& table = *reinterpret_cast<const std::vector<std::int64_t>*>(i->imm);
  const auto* index = reinterpret_cast<const std::uint32_t*>(warp.regs + i->r[1]);
  const auto first = static_cast<std::uint32_t>(__builtin_ctz(mask));
  if (index[first] >= table.size()) throw_fault(kIllegalAddress, first, "indexed branch beyond its targets");
  std::uint32_t same = 0;
  for (std::uint32_t l = 0; l < kLanes; ++l)
    same |= static_cast<std::uint32_t>(index[l] == index[first]) << l;
  same &= mask;
  count_segment(warp, i + 1);
  const Instr* target = i + table[index[first]];
  if (same == warp.mask) {
    warp.segment = target;
    return target;
  }
  leave(warp, i, mask & ~same);
  leave(warp, i + 1, warp.mask & ~same);
  warp.segment = target;
  return stop(warp, Stop::reschedule, target);
}

const Instr* nanosleep(Warp& warp, const Instr* i) {
  return stop(warp, Stop::yield, i + 1);
}

}  // namespace

const Instr* diverge(Warp& warp, const Instr* branch, const Instr* target, std::uint32_t taken) {
  count_segment(warp, branch + 1);
  const Instr* next = branch + 1;
  const std::uint32_t others = warp.mask & ~taken;
  if (target < next) {
    leave(warp, next, others);
    warp.segment = target;
    return target;
  }
  leave(warp, target, taken);
  warp.segment = next;
  return next;
}

const Instr* wait_for_members(Warp& warp, const Instr* at, std::uint32_t mask, const std::uint32_t* members) {
  // Lanes whose company is complete go first, alone.
  std::uint32_t complete = 0;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const int l = __builtin_ctz(left);
    if ((members[l] & warp.live & ~mask) == 0) complete |= 1u << l;
  }
  if (complete != 0) {
    leave(warp, at, mask & ~complete);
    leave(warp, at + 1, warp.mask & ~complete);
    return stop(warp, Stop::reschedule, at);
  }
  // bar.warp.sync brings lanes together wherever they wait; all others must meet at one instruction.
  const auto meets = [at](const Fragment& fragment) {
    return fragment.state == Fragment::State::warp_sync &&
           (fragment.ip == at || (at->op == Op::warp_sync && fragment.ip->op == Op::warp_sync));
  };
  std::uint32_t together = mask;
  std::uint32_t needs = 0;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) needs |= members[__builtin_ctz(left)];
  for (bool grown = true; grown;) {  // those we need, those they need, ...
    grown = false;
    for (const Fragment& fragment : warp.fragments)
      if (meets(fragment) && (fragment.mask & needs) && (fragment.mask & ~together)) {
        together |= fragment.mask;
        needs |= fragment.needs;
        grown = true;
      }
  }
  needs &= warp.live;
  leave(warp, at + 1, warp.mask & ~mask);
  if ((needs & ~together) != 0) {
    warp.needs = needs;
    return stop(warp, Stop::warp_sync, at);
  }
  if (at->op == Op::warp_sync) {
    for (Fragment& fragment : warp.fragments)
      if (meets(fragment) && (fragment.mask & together)) {
        fragment.state = Fragment::State::ready;
        ++fragment.ip;
      }
    return stop(warp, Stop::reschedule, at + 1);
  }
  // Lanes in several activations execute together once, then go on apart.
  const std::uint32_t own = warp.mask;
  warp.mask = together;
  at->fn(warp, at);
  warp.mask = own;
  for (Fragment& fragment : warp.fragments)
    if (meets(fragment) && (fragment.mask & together)) {
      fragment.state = Fragment::State::ready;
      ++fragment.ip;
    }
  return stop(warp, Stop::reschedule, at + 1);
}

void install_control(Handler* handlers) {
#define INSTALL(name) handlers[static_cast<int>(Op::name)] = name;
  INSTALL(call)
  INSTALL(call_indirect)
  INSTALL(ret)
  INSTALL(exit)
  INSTALL(trap)
  INSTALL(brx)
  INSTALL(nanosleep)
#undef INSTALL
}

}  // namespace sandbox::ptx
