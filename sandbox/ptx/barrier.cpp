// Block-wide barriers: named, counted, arriving and reducing ones.
#include "sandbox/ptx/block.h"
#include "sandbox/ptx/handlers.h"
#include "sandbox/ptx/machine_limits.h"

namespace sandbox::ptx {
namespace {

enum Kind : std::uint8_t { kSync, kArrive, kPopc, kAnd, kOr };

void deliver(Warp& warp, const Instr* i, const BarrierState& state, std::uint32_t mask) {
  if (i->x < kPopc) return;
  if (i->x == kPopc) {
    auto* d = reinterpret_cast<std::uint32_t*>(warp.regs + i->r[0]);
    for (int l = 0; l < kLanes; ++l)
      if (mask >> l & 1) d[l] = state.yes;
    return;
  }
  const bool result = i->x == kAnd ? state.yes == state.total : state.yes != 0;
  auto& p = *reinterpret_cast<std::uint32_t*>(warp.regs + i->r[0]);
  p = result ? p | mask : p & ~mask;
}

const Instr* barrier(Warp& warp, const Instr* i) {
  const std::uint32_t mask = guarded_lanes(warp, i);
  if (mask == 0) return i + 1;
  const auto first = static_cast<std::uint32_t>(__builtin_ctz(mask));
  const auto* numbers = reinterpret_cast<const std::uint32_t*>(warp.regs + i->r[1]);
  const std::uint32_t number = numbers[first];
  if (number >= kBarriers) throw_fault(kIllegalAddress, first, "barrier number beyond 15");
  std::uint32_t same = 0;
  for (std::uint32_t l = 0; l < kLanes; ++l) same |= static_cast<std::uint32_t>(numbers[l] == number) << l;
  same &= mask;

  BlockRun& block = *warp.block;
  BarrierState& state = block.barriers[number];
  const std::uint32_t threads = i->y ? reinterpret_cast<const std::uint32_t*>(warp.regs + i->r[2])[first] : 0;
  if (!state.active) {
    state.arrived.assign(block.warps.size(), 0);
    state.active = true;
    block.active_barriers |= 1u << number;
    state.yes = state.total = 0;
    state.threads = threads;
  }
  if (threads != 0) state.threads = threads;
  state.arrived[warp.index] |= same;
  if (i->x >= kPopc) {
    const auto p = *reinterpret_cast<const std::uint32_t*>(warp.regs + i->r[3]);
    state.yes += static_cast<std::uint32_t>(__builtin_popcount(p & same));
    state.total += static_cast<std::uint32_t>(__builtin_popcount(same));
  }

  // The running lanes become a fragment, so that release treats all waiters alike.
  const auto leave = [&](const Instr* ip, std::uint32_t lanes, Fragment::State how) {
    if (lanes == 0) return;
    Fragment fragment;
    fragment.ip = ip;
    fragment.frame = warp.frame;
    fragment.mask = lanes;
    fragment.state = how;
    fragment.needs = number;
    warp.fragments.push_back(fragment);
  };
  count_segment(warp, i + 1);
  leave(i, mask & ~same, Fragment::State::ready);
  leave(i + 1, warp.mask & ~mask, Fragment::State::ready);
  if (i->x == kArrive)
    leave(i + 1, same, Fragment::State::ready);
  else
    leave(i, same, Fragment::State::barrier);
  warp.mask = 0;
  block.try_release(static_cast<int>(number));
  warp.stop = Stop::reschedule;
  warp.resume = i + 1;
  return stop_at();
}

}  // namespace

void BlockRun::try_release(int number) {
  BarrierState& state = barriers[number];
  if (!state.active) return;
  if (state.threads == 0) {
    for (const Warp& warp : warps)
      if (warp.live & ~state.arrived[warp.index]) return;
  } else {
    std::uint32_t arrived = 0;  // hardware counts whole warps
    for (const Warp& warp : warps) {
      const std::uint32_t here = state.arrived[warp.index];
      if (here != 0)
        arrived += (warp.live & ~here) == 0 ? 32 : static_cast<std::uint32_t>(__builtin_popcount(here));
    }
    if (arrived < state.threads) return;
  }
  state.active = false;
  active_barriers &= ~(1u << number);
  for (Warp& warp : warps)
    for (Fragment& fragment : warp.fragments)
      if (fragment.state == Fragment::State::barrier &&
          fragment.needs == static_cast<std::uint32_t>(number)) {
        deliver(warp, fragment.ip, state, fragment.mask);
        fragment.state = Fragment::State::ready;
        ++fragment.ip;
      }
}

void BlockRun::recheck_barriers() {
  for (std::uint32_t left = active_barriers; left != 0; left &= left - 1) try_release(__builtin_ctz(left));
}

void install_barrier(Handler* handlers) {
  handlers[static_cast<int>(Op::barrier)] = barrier;
}

}  // namespace sandbox::ptx
