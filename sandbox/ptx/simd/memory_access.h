// What loads and stores share: addresses of all lanes, bounds, alignment, counters.
#pragma once

#include "sandbox/ptx/machine_limits.h"
#include "sandbox/ptx/simd/lanes.h"
#include "sandbox/ptx/syntax_space.h"

namespace sandbox::ptx::SIMD_NAMESPACE {
namespace {

/// The addresses of one access and what is known about them.
struct Access {
  alignas(64) u64 at[kLanes];
  u64 low = 0, high = 0;    // [low, high) covers all active lanes
  u64 low_bits = 0;         // OR of all addresses
  bool contiguous = false;  // all lanes active, one behind the other
};

LANE_INLINE void form_addresses(Warp& w, const Instr* i, Access& access) {
  const u64 displacement = static_cast<u64>(i->imm);
  switch (static_cast<AddressForm>(i->y)) {
    case AddressForm::register64: {
      const u64* base = lanes<u64>(w, i->r[1]);
      for (int l = 0; l < kLanes; ++l) access.at[l] = base[l] + displacement;
      break;
    }
    case AddressForm::register32: {
      const u32* base = lanes<u32>(w, i->r[1]);
      for (int l = 0; l < kLanes; ++l) access.at[l] = u32(base[l] + u32(displacement));
      break;
    }
    case AddressForm::absolute:
      for (int l = 0; l < kLanes; ++l) access.at[l] = displacement;
      break;
    case AddressForm::frame:
      for (int l = 0; l < kLanes; ++l) access.at[l] = w.local_base + displacement;
      break;
  }
}

template <u32 bytes>
LANE_INLINE void survey(Access& access, u32 mask) {
  if (mask == kAllLanes) {
    u64 difference = 0;
    for (int l = 0; l < kLanes; ++l) difference |= access.at[l] ^ (access.at[0] + u64(l) * bytes);
    if (difference == 0) {
      access.contiguous = true;
      access.low = access.low_bits = access.at[0];
      access.high = access.at[0] + kLanes * u64(bytes);
      return;
    }
  }
  access.contiguous = false;
  u64 low = ~u64(0), high = 0, all = 0;
  if (__builtin_popcount(mask) <= 4) {
    for (u32 left = mask; left != 0; left &= left - 1) {
      const u64 a = access.at[__builtin_ctz(left)];
      low = a < low ? a : low;
      high = a > high ? a : high;
      all |= a;
    }
  } else {
    for (int l = 0; l < kLanes; ++l) {  // idle lanes: the highest address for `low`, the lowest for `high`
      const u64 active = u64(0) - u64(mask >> l & 1);
      const u64 a = access.at[l] & active, b = a | ~active;
      low = b < low ? b : low;
      high = a > high ? a : high;
      all |= a;
    }
  }
  access.low = low;
  access.high = high + bytes;
  access.low_bits = all;
}

/// Distinct 32-byte sectors of an access; aligned elements never straddle two.
template <u32 bytes>
LANE_INLINE u32 count_sectors(const Access& access, u32 mask) {
  if (access.contiguous) return u32(((access.high - 1) >> 5) - (access.low >> 5)) + 1;
  if (((access.high - 1) >> 5) == (access.low >> 5)) return 1;
  alignas(64) u64 sector[kLanes];
  u64 previous = access.low >> 5;  // idle lanes repeat a sector that counts anyway
  for (int l = 0; l < kLanes; ++l) {
    if (mask >> l & 1) previous = access.at[l] >> 5;
    sector[l] = previous;
  }
  u64 changes = 1, descents = 0;
  for (int l = 1; l < kLanes; ++l) {
    descents |= u64(sector[l] < sector[l - 1]);
    changes += u64(sector[l] != sector[l - 1]);
  }
  if (descents == 0) return u32(changes);
  u32 distinct = 0;
  for (int l = 0; l < kLanes; ++l) {
    u64 seen = 0;
    for (int k = 0; k < l; ++k) seen |= sector[k] == sector[l];
    distinct += seen == 0;
  }
  return distinct;
}

template <u32 bytes>
LANE_INLINE void require_aligned(const Access& access, u32 mask) {
  if (__builtin_expect((access.low_bits & (bytes - 1)) == 0, 1)) return;
  for (u32 left = mask; left != 0; left &= left - 1) {
    const u32 l = u32(__builtin_ctz(left));
    if (access.at[l] & (bytes - 1))
      throw_address_fault(kMisaligned, l, "misaligned access", access.at[l], bytes);
  }
}

/// Bounds of a window that is addressed from 0.
template <u32 bytes>
LANE_INLINE void require_inside(const Access& access, u32 mask, u64 window_bytes, const char* what) {
  if (__builtin_expect(access.high <= window_bytes && access.low <= window_bytes, 1)) return;
  for (u32 left = mask; left != 0; left &= left - 1) {
    const u32 l = u32(__builtin_ctz(left));
    if (access.at[l] > window_bytes || access.at[l] + bytes > window_bytes)
      throw_address_fault(kIllegalAddress, l, what, access.at[l], bytes);
  }
}

template <u32 bytes, bool write>
LANE_INLINE void check_and_count(Warp& w, const Instr* i, const Access& access, u32 mask, bool count) {
  if (count) {
    const u64 moved = u64(u32(__builtin_popcount(mask))) * bytes;
    (write ? w.counters.global_bytes_stored : w.counters.global_bytes_loaded) += moved;
    ++w.counters.global_requests;
    w.counters.global_sectors += count_sectors<bytes>(access, mask);
  }
  require_aligned<bytes>(access, mask);
  if (!w.check) return;
  const CachedRange& known = w.cache[i->ordinal % kCachedRanges];
  if (__builtin_expect(access.low >= known.base && access.high <= known.end && access.low < access.high, 1)) {
    const MemoryRange& range = *known.range;
    if (__atomic_load_n(reinterpret_cast<const u64*>(&range.live_serial), __ATOMIC_RELAXED) == known.serial &&
        range.written.fully_written())
      return;
  }
  check_global(w, i, access.at, mask, bytes, write);
}

enum class Window : u8 { host, shared, local };

LANE_INLINE bool in_shared(const Warp& w, u64 address) {
  return address - reinterpret_cast<u64>(w.shared) < w.shared_bytes;
}
LANE_INLINE bool in_local(u64 address) {
  return address - kLocalWindow < kLocalWindowBytes;
}

/// Calls access_window(Window, mask) for the windows that a generic access falls into.
template <class F>
LANE_INLINE void split_generic(Warp& w, const Access& access, u32 mask, F access_window) {
  u32 shared = 0, local = 0;
  const u64 shared_at = reinterpret_cast<u64>(w.shared);
  if (access.high > shared_at && access.low < shared_at + w.shared_bytes)
    for (u32 l = 0; l < kLanes; ++l) shared |= u32(in_shared(w, access.at[l])) << l;
  if (access.high > kLocalWindow && access.low < kLocalWindow + kLocalWindowBytes)
    for (u32 l = 0; l < kLanes; ++l) local |= u32(in_local(access.at[l])) << l;
  shared &= mask;
  local &= mask;
  const u32 host = mask & ~shared & ~local;
  if (host) access_window(Window::host, host);
  if (shared) access_window(Window::shared, shared);
  if (local) access_window(Window::local, local);
}

/// A strong read may be one turn of a spin loop: after some of them other lanes and warps get their turn.
LANE_INLINE const Instr* after_strong_read(Warp& w, const Instr* i) {
  if (++w.spins < kSpinBudget) return i + 1;
  w.stop = Stop::yield;
  w.resume = i + 1;
  return stop_at();
}

}  // namespace
}  // namespace sandbox::ptx::SIMD_NAMESPACE
