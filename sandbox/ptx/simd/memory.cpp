// Loads and stores: rows of lanes as vectors, all others lane by lane.
#include "sandbox/ptx/simd/elements.h"
#include "sandbox/ptx/simd/memory_access.h"
#include "sandbox/ptx/simd/rows.h"
#include "sandbox/ptx/simd/tables.h"

namespace sandbox::ptx::SIMD_NAMESPACE {
namespace {

template <int E, int V>
LANE_INLINE void load_lanes(Warp& w, const Instr* i, const Access& access, u32 mask, u64 origin) {
  using M = typename Element<E>::memory;
  using L = typename Element<E>::lane;
  L* d[V];
  for (int v = 0; v < V; ++v) d[v] = lanes<L>(w, loaded_slot(i, v));
  if constexpr (E == 4 && V == 4) {
    if (mask == kAllLanes && !(i->x & kStrongAccess))
      return split_rows(d, [&access, origin](u32 l) LANE_LAMBDA {
        return reinterpret_cast<const __m128i*>(origin + access.at[l]);
      });
  }
  for (u32 left = mask; left != 0; left &= left - 1) {
    const u32 l = u32(__builtin_ctz(left));
    Group<M, V> group;
    load_group(i, &group, reinterpret_cast<const Group<M, V>*>(origin + access.at[l]));
    for (int v = 0; v < V; ++v) d[v][l] = L(group.element[v]);
  }
}

template <int E, int V>
LANE_INLINE void store_lanes(Warp& w, const Instr* i, const Access& access, u32 mask, u64 origin) {
  using M = typename Element<E>::memory;
  using L = typename Element<E>::lane;
  const L* s[V];
  for (int v = 0; v < V; ++v) s[v] = lanes<L>(w, stored_slot(i, v));
  for (u32 left = mask; left != 0; left &= left - 1) {
    const u32 l = u32(__builtin_ctz(left));
    Group<M, V> group;
    for (int v = 0; v < V; ++v) group.element[v] = M(s[v][l]);
    store_group(w, i, reinterpret_cast<Group<M, V>*>(origin + access.at[l]), &group);
  }
}

LANE_INLINE u8* local_place(Warp& w, u64 address, u32 lane) {
  return w.local + (address >> 2) * (4 * kLanes) + 4 * lane + (address & 3);
}

/// Local memory keeps the same word of all lanes together, so that equal addresses are one vector.
template <int E, int V>
void load_local(Warp& w, const Instr* i, const Access& access, u32 mask, u64 window) {
  using M = typename Element<E>::memory;
  using L = typename Element<E>::lane;
  const u64 first = access.at[__builtin_ctz(mask)];
  u64 difference = 0;
  for (int l = 0; l < kLanes; ++l) difference |= (mask >> l & 1) ? access.at[l] ^ first : 0;
  if (difference == 0 && (E == 4 || E == 8)) {
    for (int v = 0; v < V; ++v) {
      const u32* word = reinterpret_cast<const u32*>(local_place(w, first - window + u64(E) * v, 0));
      alignas(64) L r[kLanes];
      for (int l = 0; l < kLanes; ++l) {
        if constexpr (E == 8)
          r[l] = u64(word[l + kLanes]) << 32 | word[l];
        else if constexpr (E == 4)
          r[l] = word[l];
      }
      blend(lanes<L>(w, loaded_slot(i, v)), r, mask);
    }
    return;
  }
  for (u32 left = mask; left != 0; left &= left - 1) {
    const u32 l = u32(__builtin_ctz(left));
    for (int v = 0; v < V; ++v) {
      const u64 at = access.at[l] - window + u64(E) * v;
      M element;
      if constexpr (E <= 4) {
        element = *reinterpret_cast<const M*>(local_place(w, at, l));
      } else {
        u32 words[E / 4];
        for (u32 k = 0; k < E / 4; ++k)
          words[k] = *reinterpret_cast<const u32*>(local_place(w, at + 4 * k, l));
        __builtin_memcpy(&element, words, E);
      }
      lanes<L>(w, loaded_slot(i, v))[l] = L(element);
    }
  }
}

template <int E, int V>
void store_local(Warp& w, const Instr* i, const Access& access, u32 mask, u64 window) {
  using M = typename Element<E>::memory;
  using L = typename Element<E>::lane;
  const u64 first = access.at[__builtin_ctz(mask)];
  u64 difference = 0;
  for (int l = 0; l < kLanes; ++l) difference |= (mask >> l & 1) ? access.at[l] ^ first : 0;
  if (difference == 0 && (E == 4 || E == 8)) {
    for (int v = 0; v < V; ++v) {
      u32* word = reinterpret_cast<u32*>(local_place(w, first - window + u64(E) * v, 0));
      const L* s = lanes<L>(w, stored_slot(i, v));
      alignas(64) u32 low[kLanes], high[kLanes];
      if constexpr (E == 4) {
        blend(word, s, mask);
      } else if constexpr (E == 8) {
        for (int l = 0; l < kLanes; ++l) {
          low[l] = u32(s[l]);
          high[l] = u32(s[l] >> 32);
        }
        blend(word, low, mask);
        blend(word + kLanes, high, mask);
      }
    }
    return;
  }
  for (u32 left = mask; left != 0; left &= left - 1) {
    const u32 l = u32(__builtin_ctz(left));
    for (int v = 0; v < V; ++v) {
      const u64 at = access.at[l] - window + u64(E) * v;
      const M element = M(lanes<L>(w, stored_slot(i, v))[l]);
      if constexpr (E <= 4) {
        *reinterpret_cast<M*>(local_place(w, at, l)) = element;
      } else {
        u32 words[E / 4];
        __builtin_memcpy(words, &element, E);
        for (u32 k = 0; k < E / 4; ++k) *reinterpret_cast<u32*>(local_place(w, at + 4 * k, l)) = words[k];
      }
    }
  }
}

template <int E, int V, bool write>
LANE_INLINE void move_lanes(Warp& w, const Instr* i, const Access& access, u32 mask, u64 origin) {
  // Strong accesses stay whole lane by lane.
  if (access.contiguous && mask == kAllLanes && !(i->x & kStrongAccess)) {
    if constexpr (write)
      store_contiguous<E, V>(w, i, origin + access.low);
    else
      load_contiguous<E, V>(w, i, origin + access.low);
  } else {
    if constexpr (write)
      store_lanes<E, V>(w, i, access, mask, origin);
    else
      load_lanes<E, V>(w, i, access, mask, origin);
  }
}

template <int E, int V, bool write>
LANE_INLINE void move_local(Warp& w, const Instr* i, const Access& access, u32 mask, u64 window) {
  if constexpr (write)
    store_local<E, V>(w, i, access, mask, window);
  else
    load_local<E, V>(w, i, access, mask, window);
}

template <int E, int V, bool write>
void move_generic(Warp& w, const Instr* i, const Access& access, u32 mask) {
  constexpr u32 bytes = E * V;
  split_generic(w, access, mask, [&](Window window, u32 part) {
    if (window == Window::host) {
      // Surveyed again: other lanes may have been in other windows.
      Access only = access;
      survey<bytes>(only, part);
      // cvta.param: a kernel's parameters have generic addresses, to read only, and are no traffic.
      const u64 parameters = reinterpret_cast<u64>(w.params);
      if (!write && only.low >= parameters && only.high <= parameters + w.param_bytes) {
        require_aligned<bytes>(only, part);
      } else {
        check_and_count<bytes, write>(w, i, only, part, true);
      }
      move_lanes<E, V, write>(w, i, only, part, 0);
    } else if (window == Window::shared) {
      require_aligned<bytes>(access, part);
      for (u32 left = part; left != 0; left &= left - 1) {
        const u32 l = u32(__builtin_ctz(left));
        if (access.at[l] + bytes > reinterpret_cast<u64>(w.shared) + w.shared_bytes)
          throw_address_fault(kIllegalAddress, l, "access beyond shared memory", access.at[l], bytes);
      }
      move_lanes<E, V, write>(w, i, access, part, 0);
    } else {
      require_aligned<bytes>(access, part);
      for (u32 left = part; left != 0; left &= left - 1) {
        const u32 l = u32(__builtin_ctz(left));
        if (access.at[l] - kLocalWindow + bytes > w.local_bytes)
          throw_address_fault(kIllegalAddress, l, "access beyond local memory", access.at[l] - kLocalWindow,
                              bytes);
      }
      move_local<E, V, write>(w, i, access, part, kLocalWindow);
    }
  });
}

/// Looks at every lane.
template <int E, int V, bool write>
[[gnu::noinline]] const Instr* move_scattered(Warp& w, const Instr* i, u32 mask) {
  constexpr u32 bytes = E * V;
  Access access;
  form_addresses(w, i, access);
  survey<bytes>(access, mask);
  switch (static_cast<Space>(i->x & kSpaceMask)) {
    case Space::global:
      check_and_count<bytes, write>(w, i, access, mask, true);
      move_lanes<E, V, write>(w, i, access, mask, 0);
      break;
    case Space::constant:
      check_and_count<bytes, write>(w, i, access, mask, false);
      move_lanes<E, V, write>(w, i, access, mask, 0);
      break;
    case Space::generic:
      move_generic<E, V, write>(w, i, access, mask);
      break;
    case Space::shared:
      require_inside<bytes>(access, mask, w.shared_bytes, "access beyond shared memory");
      require_aligned<bytes>(access, mask);
      move_lanes<E, V, write>(w, i, access, mask, reinterpret_cast<u64>(w.shared));
      break;
    case Space::local:
      require_inside<bytes>(access, mask, w.local_bytes, "access beyond local memory");
      require_aligned<bytes>(access, mask);
      move_local<E, V, write>(w, i, access, mask, 0);
      break;
    case Space::param:
      for (u32 left = mask; left != 0; left &= left - 1) {
        const u32 l = u32(__builtin_ctz(left));
        const u64 offset = access.at[l] - reinterpret_cast<u64>(w.params);
        if (offset > w.param_bytes || offset + bytes > w.param_bytes)
          throw_address_fault(kIllegalAddress, l, "access beyond the kernel's parameters", access.at[l],
                              bytes);
      }
      require_aligned<bytes>(access, mask);
      move_lanes<E, V, write>(w, i, access, mask, 0);
      break;
  }
  if (!write && (i->x & kStrongAccess)) return after_strong_read(w, i);
  return i + 1;
}

LANE_INLINE void note_weak_store(Warp& w, const Instr* i) {
  const Space space = static_cast<Space>(i->x & kSpaceMask);
  if (!(i->x & kStrongAccess) && (space == Space::global || space == Space::generic)) w.fenced = false;
}

template <int E, int V, bool write>
LANE_INLINE const Instr* move(Warp& w, const Instr* i) {
  const u32 mask = guarded_lanes(w, i);
  if (mask == 0) return i + 1;
  if constexpr (write && kModelsFences) note_weak_store(w, i);
  if (mask == kAllLanes && moved_as_row<E, V, write>(w, i))
    return !write && (i->x & kStrongAccess) ? after_strong_read(w, i) : i + 1;
  return move_scattered<E, V, write>(w, i, mask);
}

template <class L, class M>
LANE_INLINE const Instr* broadcast_param(Warp& w, const Instr* i) {
  const u32 mask = guarded_lanes(w, i);
  const L value = L(*reinterpret_cast<const M*>(w.params + i->imm));
  L* d = lanes<L>(w, i->r[0]);
  if (mask == kAllLanes) {
    for (int l = 0; l < kLanes; ++l) d[l] = value;
  } else {
    for (int l = 0; l < kLanes; ++l) d[l] = (mask >> l & 1) ? value : d[l];
  }
  return i + 1;
}

const Instr* ld_kernel_param_1(Warp& w, const Instr* i) {
  return broadcast_param<u16, u8>(w, i);
}
const Instr* ld_kernel_param_2(Warp& w, const Instr* i) {
  return broadcast_param<u16, u16>(w, i);
}
const Instr* ld_kernel_param_4(Warp& w, const Instr* i) {
  return broadcast_param<u32, u32>(w, i);
}
const Instr* ld_kernel_param_8(Warp& w, const Instr* i) {
  return broadcast_param<u64, u64>(w, i);
}

// clang-format off
#define EACH_SHAPE(X) \
  X(1, 1, 1) X(2, 2, 1) X(4, 4, 1) X(8, 8, 1) X(16, 16, 1) X(1x2, 1, 2) X(2x2, 2, 2) X(4x2, 4, 2) \
  X(8x2, 8, 2) X(1x4, 1, 4) X(2x4, 2, 4) X(4x4, 4, 4) X(8x4, 8, 4)
// clang-format on
#define DEFINE(suffix, E, V)                          \
  const Instr* ld_##suffix(Warp& w, const Instr* i) { \
    return move<E, V, false>(w, i);                   \
  }                                                   \
  const Instr* st_##suffix(Warp& w, const Instr* i) { \
    return move<E, V, true>(w, i);                    \
  }
EACH_SHAPE(DEFINE)
#undef DEFINE

}  // namespace

void install_memory(Handler* handlers) {
#define INSTALL(suffix, E, V)                                \
  handlers[static_cast<int>(Op::ld_##suffix)] = ld_##suffix; \
  handlers[static_cast<int>(Op::st_##suffix)] = st_##suffix;
  EACH_SHAPE(INSTALL)
#undef INSTALL
  handlers[static_cast<int>(Op::ld_kernel_param_1)] = ld_kernel_param_1;
  handlers[static_cast<int>(Op::ld_kernel_param_2)] = ld_kernel_param_2;
  handlers[static_cast<int>(Op::ld_kernel_param_4)] = ld_kernel_param_4;
  handlers[static_cast<int>(Op::ld_kernel_param_8)] = ld_kernel_param_8;
}

}  // namespace sandbox::ptx::SIMD_NAMESPACE
