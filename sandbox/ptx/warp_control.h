// The hard half of divergence and convergence, called by handlers when lanes are not together.
#pragma once

#include "sandbox/ptx/warp.h"

namespace sandbox::ptx {

/// The lanes `taken` go to `target`, the others to the next instruction; the earlier place continues.
const Instr* diverge(Warp& warp, const Instr* branch, const Instr* target, std::uint32_t taken);

/// Stops the running fragment at `at` until the lanes that its members name have come; returns where to go
/// on.
const Instr* wait_for_members(Warp& warp, const Instr* at, std::uint32_t mask, const std::uint32_t* members);

/// nullptr if all members that are alive are here; else what the handler must return.
inline const Instr* await_members(Warp& warp, const Instr* at, std::uint32_t mask,
                                  const std::uint32_t* members) {
  if (mask == warp.live) return nullptr;
  std::uint32_t needs = 0;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) needs |= members[__builtin_ctz(left)];
  if ((needs & warp.live & ~mask) == 0) return nullptr;
  return wait_for_members(warp, at, mask, members);
}

}  // namespace sandbox::ptx
