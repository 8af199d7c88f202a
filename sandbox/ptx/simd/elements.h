// The elements that loads and stores move: their types in memory and in registers, groups of them, and whole
// vectors.
#pragma once

#include "sandbox/ptx/simd/lanes.h"
#include "sandbox/ptx/simd/quadruples.h"

namespace sandbox::ptx::SIMD_NAMESPACE {
namespace {

struct alignas(16) u128_lane {
  u64 low, high;
};

template <int bytes>
struct Element;
template <>
struct Element<1> {
  using memory = u8;
  using lane = u16;
};
template <>
struct Element<2> {
  using memory = u16;
  using lane = u16;
};
template <>
struct Element<4> {
  using memory = u32;
  using lane = u32;
};
template <>
struct Element<8> {
  using memory = u64;
  using lane = u64;
};
template <>
struct Element<16> {
  using memory = u128_lane;
  using lane = u128_lane;
};

/// Where the elements of a lane are in an instruction.
LANE_INLINE u32 loaded_slot(const Instr* i, int v) {
  return v == 0 ? i->r[0] : i->r[3 + v];
}
LANE_INLINE u32 stored_slot(const Instr* i, int v) {
  return v == 0 ? i->r[2] : i->r[3 + v];
}

/// One lane's elements, moved by one host access of up to 16 bytes.
template <class M, int V>
struct alignas(sizeof(M) * V > 16 ? 16 : sizeof(M) * V) Group {
  M element[V];
};

/// The vector or integer that one host instruction moves whole; void for groups that no instruction moves.
template <u32 bytes>
struct Whole {
  using type = void;
};
template <>
struct Whole<16> {
  typedef u64 type __attribute__((vector_size(16)));
};
template <>
struct Whole<8> {
  using type = u64;
};
template <>
struct Whole<4> {
  using type = u32;
};
template <>
struct Whole<2> {
  using type = u16;
};
template <>
struct Whole<1> {
  using type = u8;
};

/// Copies a group; volatile keeps the compiler from splitting what another thread must never see in parts.
template <class G, class To, class From>
LANE_INLINE void move_whole(To to, From from) {
  using W = typename Whole<sizeof(G)>::type;
  if constexpr (__is_same(W, void)) {
    __builtin_memcpy(to, from, sizeof(G));
  } else {
    typedef W MayAlias __attribute__((may_alias));
    *static_cast<volatile MayAlias*>(static_cast<void*>(to)) =
        *static_cast<const volatile MayAlias*>(static_cast<const void*>(from));
  }
}

/// A strong load: an atomic one of the host, but for 16 bytes, which only a vector moves whole. Where a fence
/// would have to follow to order what comes next, it acquires without.
template <class G>
LANE_INLINE void load_strong(G* to, const G* from) {
  using W = typename Whole<sizeof(G)>::type;
  if constexpr (__is_same(W, void) || sizeof(G) == 16) {
    move_whole<G>(to, from);
  } else {
    typedef W MayAlias __attribute__((may_alias));
    const W value = __atomic_load_n(reinterpret_cast<const MayAlias*>(from), __ATOMIC_ACQUIRE);
    __builtin_memcpy(to, &value, sizeof value);
  }
}

template <class G>
LANE_INLINE void store_strong(G* to, const G* from, bool release) {
  using W = typename Whole<sizeof(G)>::type;
  if constexpr (__is_same(W, void) || sizeof(G) == 16) {
    move_whole<G>(to, from);
  } else {
    typedef W MayAlias __attribute__((may_alias));
    W value;
    __builtin_memcpy(&value, from, sizeof value);
    if (release)
      __atomic_store_n(reinterpret_cast<MayAlias*>(to), value, __ATOMIC_RELEASE);
    else
      __atomic_store_n(reinterpret_cast<MayAlias*>(to), value, __ATOMIC_RELAXED);
  }
}

/// Copies the elements of one lane as the instruction says.
template <class G>
LANE_INLINE void load_group(const Instr* i, G* to, const G* from) {
  if (i->x & kStrongAccess)
    load_strong(to, from);
  else
    move_whole<G>(to, from);
}
template <class G>
LANE_INLINE void store_group(const Warp& w, const Instr* i, G* to, const G* from) {
  if (i->x & kStrongAccess)
    store_strong(to, from, releases(w, i));
  else
    move_whole<G>(to, from);
}

template <int E, int V>
LANE_INLINE void load_contiguous(Warp& w, const Instr* i, u64 from) {
  using M = typename Element<E>::memory;
  using L = typename Element<E>::lane;
  if constexpr (E == 4 && V == 4) {
    u32* d[4];
    for (int v = 0; v < 4; ++v) d[v] = lanes<u32>(w, loaded_slot(i, v));
    split_quadruples(d, reinterpret_cast<const u32*>(from));
    return;
  }
  const M* memory = reinterpret_cast<const M*>(from);
  for (int v = 0; v < V; ++v) {
    L* d = lanes<L>(w, loaded_slot(i, v));
#pragma GCC ivdep
    for (int l = 0; l < kLanes; ++l) d[l] = L(memory[V * l + v]);
  }
}

template <int E, int V>
LANE_INLINE void store_contiguous(Warp& w, const Instr* i, u64 to) {
  using M = typename Element<E>::memory;
  using L = typename Element<E>::lane;
  M* memory = reinterpret_cast<M*>(to);
  const L* s[V];
  for (int v = 0; v < V; ++v) s[v] = lanes<L>(w, stored_slot(i, v));
  if constexpr (E == 4 && V == 4) {
    join_quadruples(memory, s);
    return;
  }
#pragma GCC ivdep
  for (int l = 0; l < kLanes; ++l)
    for (int v = 0; v < V; ++v) memory[V * l + v] = M(s[v][l]);
}

}  // namespace
}  // namespace sandbox::ptx::SIMD_NAMESPACE
