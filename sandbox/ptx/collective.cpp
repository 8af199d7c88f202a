// What the lanes of a warp compute together: votes, matches, reductions, elections.
#include "sandbox/ptx/handlers.h"
#include "sandbox/ptx/warp_control.h"

namespace sandbox::ptx {
namespace {

template <class T>
T* lanes(Warp& warp, std::uint32_t slot) {
  return reinterpret_cast<T*>(warp.regs + slot);
}

std::uint32_t& predicate(Warp& warp, std::uint32_t slot) {
  return *lanes<std::uint32_t>(warp, slot);
}

void set_predicate(Warp& warp, std::uint32_t slot, std::uint32_t bits, std::uint32_t mask) {
  std::uint32_t& p = predicate(warp, slot);
  p = (p & ~mask) | (bits & mask);
}

/// Calls each(lanes, members) for every set of lanes that named the same members.
template <class F>
void for_each_group(std::uint32_t mask, const std::uint32_t* members, F each) {
  while (mask != 0) {
    const std::uint32_t named = members[__builtin_ctz(mask)];
    std::uint32_t group = 0;
    for (std::uint32_t left = mask; left != 0; left &= left - 1) {
      const int l = __builtin_ctz(left);
      if (members[l] == named) group |= 1u << l;
    }
    each(group);
    mask &= ~group;
  }
}

const Instr* vote(Warp& warp, const Instr* i) {
  const std::uint32_t mask = guarded_lanes(warp, i);
  if (mask == 0) return i + 1;
  const auto* members = lanes<std::uint32_t>(warp, i->r[2]);
  if (const Instr* elsewhere = await_members(warp, i, mask, members)) return elsewhere;
  const std::uint32_t p = predicate(warp, i->r[1]);
  for_each_group(mask, members, [&](std::uint32_t group) {
    const std::uint32_t yes = p & group;
    if (i->x == 3) {
      auto* d = lanes<std::uint32_t>(warp, i->r[0]);
      for (int l = 0; l < kLanes; ++l)
        if (group >> l & 1) d[l] = yes;
      return;
    }
    const bool result = i->x == 0 ? yes == group : i->x == 1 ? yes != 0 : yes == 0 || yes == group;
    set_predicate(warp, i->r[0], result ? kAllLanes : 0, group);
  });
  return i + 1;
}

template <class T>
void match_values(Warp& warp, const Instr* i, std::uint32_t mask, const std::uint32_t* members) {
  const T* a = lanes<T>(warp, i->r[1]);
  std::uint32_t results[kLanes] = {};
  std::uint32_t all = 0;
  for_each_group(mask, members, [&](std::uint32_t group) {
    bool equal = true;
    for (std::uint32_t left = group; left != 0; left &= left - 1) {
      const int l = __builtin_ctz(left);
      std::uint32_t same = 0;
      for (std::uint32_t others = group; others != 0; others &= others - 1) {
        const int k = __builtin_ctz(others);
        if (a[k] == a[l]) same |= 1u << k;
      }
      results[l] = same;
      equal &= same == group;
    }
    if (equal) all |= group;
  });
  auto* d = lanes<std::uint32_t>(warp, i->r[0]);
  for (int l = 0; l < kLanes; ++l)
    if (mask >> l & 1) d[l] = i->x == 0 || (all >> l & 1) ? results[l] : 0;
  if (i->imm) set_predicate(warp, i->r[4], all, mask);
}

const Instr* match(Warp& warp, const Instr* i) {
  const std::uint32_t mask = guarded_lanes(warp, i);
  if (mask == 0) return i + 1;
  const auto* members = lanes<std::uint32_t>(warp, i->r[2]);
  if (const Instr* elsewhere = await_members(warp, i, mask, members)) return elsewhere;
  if (i->y == 8)
    match_values<std::uint64_t>(warp, i, mask, members);
  else
    match_values<std::uint32_t>(warp, i, mask, members);
  return i + 1;
}

std::uint32_t reduce(int how, bool is_signed, std::uint32_t a, std::uint32_t b) {
  const bool less = is_signed ? static_cast<std::int32_t>(a) < static_cast<std::int32_t>(b) : a < b;
  switch (how) {
    case 0:
      return a + b;
    case 1:
      return less ? a : b;
    case 2:
      return less ? b : a;
    case 3:
      return a & b;
    case 4:
      return a | b;
    default:
      return a ^ b;
  }
}

const Instr* redux(Warp& warp, const Instr* i) {
  const std::uint32_t mask = guarded_lanes(warp, i);
  if (mask == 0) return i + 1;
  const auto* members = lanes<std::uint32_t>(warp, i->r[2]);
  if (const Instr* elsewhere = await_members(warp, i, mask, members)) return elsewhere;
  const auto* a = lanes<std::uint32_t>(warp, i->r[1]);
  std::uint32_t results[kLanes] = {};
  for_each_group(mask, members, [&](std::uint32_t group) {
    std::uint32_t result = a[__builtin_ctz(group)];
    for (std::uint32_t left = group & (group - 1); left != 0; left &= left - 1)
      result = reduce(i->x, i->y != 0, result, a[__builtin_ctz(left)]);
    for (std::uint32_t left = group; left != 0; left &= left - 1) results[__builtin_ctz(left)] = result;
  });
  auto* d = lanes<std::uint32_t>(warp, i->r[0]);
  for (int l = 0; l < kLanes; ++l)
    if (mask >> l & 1) d[l] = results[l];
  return i + 1;
}

const Instr* elect(Warp& warp, const Instr* i) {
  const std::uint32_t mask = guarded_lanes(warp, i);
  if (mask == 0) return i + 1;
  const auto* members = lanes<std::uint32_t>(warp, i->r[1]);
  if (const Instr* elsewhere = await_members(warp, i, mask, members)) return elsewhere;
  std::uint32_t leaders[kLanes] = {};
  std::uint32_t elected = 0;
  for_each_group(mask, members, [&](std::uint32_t group) {
    const auto leader = static_cast<std::uint32_t>(__builtin_ctz(group));
    elected |= 1u << leader;
    for (std::uint32_t left = group; left != 0; left &= left - 1) leaders[__builtin_ctz(left)] = leader;
  });
  auto* d = lanes<std::uint32_t>(warp, i->r[0]);
  for (int l = 0; l < kLanes; ++l)
    if (mask >> l & 1) d[l] = leaders[l];
  set_predicate(warp, i->r[4], elected, mask);
  return i + 1;
}

const Instr* warp_sync(Warp& warp, const Instr* i) {
  const std::uint32_t mask = guarded_lanes(warp, i);
  if (mask == 0) return i + 1;
  const Instr* elsewhere = await_members(warp, i, mask, lanes<std::uint32_t>(warp, i->r[1]));
  return elsewhere ? elsewhere : i + 1;
}

}  // namespace

void install_collective(Handler* handlers) {
#define INSTALL(name) handlers[static_cast<int>(Op::name)] = name;
  INSTALL(vote)
  INSTALL(match)
  INSTALL(redux)
  INSTALL(elect)
  INSTALL(warp_sync)
#undef INSTALL
}

}  // namespace sandbox::ptx
