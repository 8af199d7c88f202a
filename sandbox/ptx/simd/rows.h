// Rows: accesses of all 32 lanes at equal, ascending distances, found and moved without looking at each lane.
#pragma once

#include "sandbox/ptx/simd/distances.h"
#include "sandbox/ptx/simd/elements.h"
#include "sandbox/ptx/simd/memory_access.h"

namespace sandbox::ptx::SIMD_NAMESPACE {
namespace {

/// Lane l is at low + l * step.
struct Row {
  u64 low = 0;
  u64 step = 0;
  u64 high = 0;  // behind the last lane's last byte
};

constexpr u64 kLargestStep = u64(1) << 20;

/// Finds the row of an instruction that all lanes execute; false if its addresses are no row.
template <u32 bytes>
LANE_INLINE bool find_row(Warp& w, const Instr* i, Row& row) {
  const u64 displacement = static_cast<u64>(i->imm);
  switch (static_cast<AddressForm>(i->y)) {
    case AddressForm::register64: {
      const u64* base = lanes<u64>(w, i->r[1]);
      row.step = base[1] - base[0];
      if (row.step > kLargestStep || !equal_distances(base, row.step)) return false;
      row.low = base[0] + displacement;
      break;
    }
    case AddressForm::register32: {
      const u32* base = lanes<u32>(w, i->r[1]);
      const u32 step = base[1] - base[0];
      row.step = step;
      if (row.step > kLargestStep || !equal_distances(base, step)) return false;
      row.low = u32(base[0] + u32(displacement));
      if (row.low + 31 * row.step > 0xffffffffu) return false;  // addresses of 32 bits wrap
      break;
    }
    case AddressForm::absolute:
      row.low = displacement;
      break;
    case AddressForm::frame:
      row.low = w.local_base + displacement;
      break;
  }
  row.high = row.low + 31 * row.step + bytes;
  return row.high > row.low && ((row.low | row.step) & (bytes - 1)) == 0;
}

/// Distinct 32-byte sectors: none is skipped up to a step of 32, none is shared from there on.
LANE_INLINE u32 count_sectors(const Row& row) {
  return row.step >= 32 ? kLanes : u32(((row.high - 1) >> 5) - (row.low >> 5)) + 1;
}

/// True if the whole row is known to be allowed; the slow way finds out what is wrong otherwise.
template <u32 bytes, bool write>
LANE_INLINE bool row_allowed(Warp& w, const Instr* i, const Row& row) {
  if (!w.check) return true;
  const CachedRange& known = w.cache[i->ordinal % kCachedRanges];
  if (__builtin_expect(row.low >= known.base && row.high <= known.end, 1)) {
    const MemoryRange& range = *known.range;
    if (__atomic_load_n(reinterpret_cast<const u64*>(&range.live_serial), __ATOMIC_RELAXED) == known.serial &&
        range.written.fully_written())
      return true;
  }
  return check_hull(w, i, row.low, row.high, row.step <= bytes, write);
}

template <int E, int V>
LANE_INLINE void load_row(Warp& w, const Instr* i, const Row& row, u64 origin) {
  using M = typename Element<E>::memory;
  using L = typename Element<E>::lane;
  const u64 from = origin + row.low;
  const u64 step = row.step;
  if (step == E * V && !(i->x & kStrongAccess)) return load_contiguous<E, V>(w, i, from);
  L* d[V];
  for (int v = 0; v < V; ++v) d[v] = lanes<L>(w, loaded_slot(i, v));
  if (step == 0) {
    Group<M, V> group;
    load_group(i, &group, reinterpret_cast<const Group<M, V>*>(from));
    for (int v = 0; v < V; ++v) {
      const L value = L(group.element[v]);
      for (int l = 0; l < kLanes; ++l) d[v][l] = value;
    }
    return;
  }
  if constexpr (E == 4 && V == 4) {
    if (!(i->x & kStrongAccess))
      return split_rows(
          d, [from, step](u32 l) LANE_LAMBDA { return reinterpret_cast<const __m128i*>(from + l * step); });
  }
  for (u32 l = 0; l < kLanes; ++l) {
    Group<M, V> group;
    load_group(i, &group, reinterpret_cast<const Group<M, V>*>(from + l * step));
    for (int v = 0; v < V; ++v) d[v][l] = L(group.element[v]);
  }
}

template <int E, int V>
LANE_INLINE void store_row(Warp& w, const Instr* i, const Row& row, u64 origin) {
  using M = typename Element<E>::memory;
  using L = typename Element<E>::lane;
  const u64 to = origin + row.low;
  const u64 step = row.step;
  if (step == E * V && !(i->x & kStrongAccess)) return store_contiguous<E, V>(w, i, to);
  const L* s[V];
  for (int v = 0; v < V; ++v) s[v] = lanes<L>(w, stored_slot(i, v));
  if constexpr (E == 4 && V == 4) {
    if (!(i->x & kStrongAccess))
      return join_rows([to, step](u32 l) LANE_LAMBDA { return reinterpret_cast<__m128i*>(to + l * step); },
                       s);
  }
  for (u32 l = 0; l < kLanes; ++l) {
    Group<M, V> group;
    for (int v = 0; v < V; ++v) group.element[v] = M(s[v][l]);
    store_group(w, i, reinterpret_cast<Group<M, V>*>(to + l * step), &group);
  }
}

template <int E, int V, bool write>
LANE_INLINE void move_row(Warp& w, const Instr* i, const Row& row, u64 origin) {
  if constexpr (write)
    store_row<E, V>(w, i, row, origin);
  else
    load_row<E, V>(w, i, row, origin);
}

/// Moves the whole access if it is a row that needs no closer look; else leaves everything as it was.
template <int E, int V, bool write>
LANE_INLINE bool moved_as_row(Warp& w, const Instr* i) {
  constexpr u32 bytes = E * V;
  Row row;
  const Space space = static_cast<Space>(i->x & kSpaceMask);
  if (space == Space::local || space == Space::param || !find_row<bytes>(w, i, row)) return false;
  if (space == Space::shared) {
    if (row.high > w.shared_bytes) return false;
    move_row<E, V, write>(w, i, row, reinterpret_cast<u64>(w.shared));
    return true;
  }
  if (space == Space::generic) {
    const u64 shared = reinterpret_cast<u64>(w.shared);
    if (row.high > shared && row.low < shared + w.shared_bytes) return false;
    if (row.high > kLocalWindow && row.low < kLocalWindow + kLocalWindowBytes) return false;
  }
  if (!row_allowed<bytes, write>(w, i, row)) return false;
  if (space != Space::constant) {
    (write ? w.counters.global_bytes_stored : w.counters.global_bytes_loaded) += kLanes * u64(bytes);
    ++w.counters.global_requests;
    w.counters.global_sectors += count_sectors(row);
  }
  move_row<E, V, write>(w, i, row, 0);
  return true;
}

}  // namespace
}  // namespace sandbox::ptx::SIMD_NAMESPACE
