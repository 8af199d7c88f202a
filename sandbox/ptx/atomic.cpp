// Atomic operations and mbarriers, lane after lane.
#include <atomic>
#include <cstring>

#include "sandbox/ptx/atomic_ops.h"
#include "sandbox/ptx/handlers.h"
#include "sandbox/ptx/machine_limits.h"
#include "sandbox/ptx/narrow_float.h"
#include "sandbox/ptx/syntax_space.h"
#include "sandbox/ptx/warp_control.h"

namespace sandbox::ptx {
namespace {

__extension__ using u128 = unsigned __int128;

template <class T>
T combine(AtomicOp op, T old, T b, T c) {
  switch (op) {
    case AtomicOp::add:
      return old + b;
    case AtomicOp::min:
      return b < old ? b : old;
    case AtomicOp::max:
      return old < b ? b : old;
    case AtomicOp::exch:
      return b;
    case AtomicOp::cas:
      return old == b ? c : old;
    default:
      break;
  }
  if constexpr (std::is_unsigned_v<T>) {
    switch (op) {
      case AtomicOp::bit_and:
        return old & b;
      case AtomicOp::bit_or:
        return old | b;
      case AtomicOp::bit_xor:
        return old ^ b;
      case AtomicOp::inc:
        return old >= b ? 0 : static_cast<T>(old + 1);
      case AtomicOp::dec:
        return old == 0 || old > b ? b : static_cast<T>(old - 1);
      default:
        break;
    }
  }
  return old;
}

/// The orders must be constants: a thread sanitizer passes over an access whose order it does not know.
template <class U>
bool exchanged(std::atomic_ref<U>& word, U& old, U wanted, bool release) {
  return release ? word.compare_exchange_weak(old, wanted)
                 : word.compare_exchange_weak(old, wanted, std::memory_order_acquire);
}

/// Exchanges until nobody came between; T computes, U is the word in memory.
template <class T, class U>
U update(U* place, AtomicOp op, U b, U c, bool release) {
  std::atomic_ref<U> word(*place);
  U old = word.load(std::memory_order_relaxed);
  for (;;) {
    T x, y, z;
    std::memcpy(&x, &old, sizeof x);
    std::memcpy(&y, &b, sizeof y);
    std::memcpy(&z, &c, sizeof z);
    T result = combine<T>(op, x, y, z);
    if constexpr (std::is_same_v<T, float>) {
      if (result != result) {
        const std::uint32_t nan = 0x7fffffff;
        std::memcpy(&result, &nan, sizeof nan);
      }
    }
    U wanted;
    std::memcpy(&wanted, &result, sizeof wanted);
    if (exchanged(word, old, wanted, release)) return old;
  }
}

template <class Half>
std::uint16_t combine_half(AtomicOp op, std::uint16_t old, std::uint16_t b) {
  const float x = Half::widen(old), y = Half::widen(b);
  switch (op) {
    case AtomicOp::add:
      return Half::round(x + y);
    case AtomicOp::min:
      return Half::round(x != x ? y : y != y ? x : y < x ? y : x);
    case AtomicOp::max:
      return Half::round(x != x ? y : y != y ? x : x < y ? y : x);
    default:
      return b;
  }
}

template <class Half, class U>
U update_halves(U* place, AtomicOp op, U b, U c, bool release) {
  if (op == AtomicOp::exch || op == AtomicOp::cas) return update<U, U>(place, op, b, c, release);
  std::atomic_ref<U> word(*place);
  U old = word.load(std::memory_order_relaxed);
  for (;;) {
    U wanted = 0;
    for (unsigned k = 0; k < sizeof(U) / 2; ++k)
      wanted = static_cast<U>(
          wanted | static_cast<U>(combine_half<Half>(op, static_cast<std::uint16_t>(old >> (16 * k)),
                                                     static_cast<std::uint16_t>(b >> (16 * k))))
                       << (16 * k));
    if (exchanged(word, old, wanted, release)) return old;
  }
}

u128 update_128(u128* place, AtomicOp op, u128 b, u128 c) {
  u128 old = *place;
  for (;;) {
    const u128 wanted = op == AtomicOp::exch ? b : old == b ? c : old;
    const u128 seen = __sync_val_compare_and_swap(place, old, wanted);
    if (seen == old) return old;
    old = seen;
  }
}

std::uint32_t size_of(AtomicType type) {
  switch (type) {
    case AtomicType::u16:
    case AtomicType::f16:
    case AtomicType::bf16:
      return 2;
    case AtomicType::u64:
    case AtomicType::s64:
    case AtomicType::f64:
      return 8;
    case AtomicType::b128:
      return 16;
    default:
      return 4;
  }
}

std::uint64_t address_of(const Warp& warp, const Instr* i, std::uint32_t lane) {
  const auto displacement = static_cast<std::uint64_t>(i->imm);
  switch (static_cast<AddressForm>(i->y)) {
    case AddressForm::register64:
      return reinterpret_cast<const std::uint64_t*>(warp.regs + i->r[1])[lane] + displacement;
    case AddressForm::register32:
      return static_cast<std::uint32_t>(reinterpret_cast<const std::uint32_t*>(warp.regs + i->r[1])[lane] +
                                        displacement);
    default:
      return displacement;
  }
}

/// Host addresses of all lanes, checked.
void host_addresses(Warp& warp, const Instr* i, std::uint32_t mask, std::uint32_t bytes,
                    std::uint64_t* host) {
  std::uint32_t global = 0;
  const auto shared = reinterpret_cast<std::uint64_t>(warp.shared);
  const bool in_shared = static_cast<Space>(i->x & kSpaceMask) == Space::shared;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(left));
    std::uint64_t address = address_of(warp, i, lane);
    if (address % bytes != 0) throw_address_fault(kMisaligned, lane, "misaligned atomic", address, bytes);
    if (in_shared) {
      if (address + bytes > warp.shared_bytes || address > warp.shared_bytes)
        throw_address_fault(kIllegalAddress, lane, "atomic beyond shared memory", address, bytes);
      address += shared;
    } else if (address - kLocalWindow < kLocalWindowBytes) {
      throw_address_fault(kIllegalAddress, lane, "atomic on local memory", address - kLocalWindow, bytes);
    } else if (address - shared >= warp.shared_bytes) {
      global |= 1u << lane;
    }
    host[lane] = address;
  }
  if (global == 0) return;
  if (warp.check) {
    check_global(warp, i, host, global, bytes, false);
    check_global(warp, i, host, global, bytes, true);
  }
  const auto moved = static_cast<std::uint64_t>(__builtin_popcount(global)) * bytes;
  warp.counters.global_bytes_stored += moved;
  if (i->r[6]) warp.counters.global_bytes_loaded += moved;
  ++warp.counters.global_requests;
  std::uint64_t sectors[kLanes];
  int distinct = 0;
  for (std::uint32_t left = global; left != 0; left &= left - 1) {
    const std::uint64_t sector = host[__builtin_ctz(left)] / 32;
    bool seen = false;
    for (int k = distinct; k-- > 0 && !seen;) seen = sectors[k] == sector;
    if (!seen) sectors[distinct++] = sector;
  }
  warp.counters.global_sectors += static_cast<std::uint64_t>(distinct);
}

template <class U, class F>
void each_lane(Warp& warp, const Instr* i, std::uint32_t mask, const std::uint64_t* host, F operate) {
  const U* b = reinterpret_cast<const U*>(warp.regs + i->r[2]);
  const U* c = reinterpret_cast<const U*>(warp.regs + i->r[3]);
  U* d = reinterpret_cast<U*>(warp.regs + i->r[0]);
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    const U old = operate(reinterpret_cast<U*>(host[lane]), b[lane], c[lane]);
    if (i->r[6]) d[lane] = old;
  }
}

const Instr* atomic(Warp& warp, const Instr* i) {
  const std::uint32_t mask = guarded_lanes(warp, i);
  if (mask == 0) return i + 1;
  const auto op = static_cast<AtomicOp>(i->r[7] & 255);
  const auto type = static_cast<AtomicType>(i->r[7] >> 8);
  const bool release = releases(warp, i);
  std::uint64_t host[kLanes] = {};
  host_addresses(warp, i, mask, size_of(type), host);
  const auto plain = [&](auto compute, auto word) {
    using T = decltype(compute);
    using U = decltype(word);
    each_lane<U>(warp, i, mask, host,
                 [op, release](U* place, U b, U c) { return update<T, U>(place, op, b, c, release); });
  };
  using namespace std;
  switch (type) {
    case AtomicType::u16:
      plain(uint16_t{}, uint16_t{});
      break;
    case AtomicType::u32:
      plain(uint32_t{}, uint32_t{});
      break;
    case AtomicType::s32:
      if (op == AtomicOp::min || op == AtomicOp::max)
        plain(int32_t{}, uint32_t{});
      else
        plain(uint32_t{}, uint32_t{});
      break;
    case AtomicType::u64:
      plain(uint64_t{}, uint64_t{});
      break;
    case AtomicType::s64:
      if (op == AtomicOp::min || op == AtomicOp::max)
        plain(int64_t{}, uint64_t{});
      else
        plain(uint64_t{}, uint64_t{});
      break;
    case AtomicType::f32:
      plain(float{}, uint32_t{});
      break;
    case AtomicType::f64:
      plain(double{}, uint64_t{});
      break;
    case AtomicType::b128:
      each_lane<u128>(warp, i, mask, host,
                      [op](u128* place, u128 b, u128 c) { return update_128(place, op, b, c); });
      break;
    case AtomicType::f16:
      each_lane<uint16_t>(warp, i, mask, host, [op, release](uint16_t* p, uint16_t b, uint16_t c) {
        return update_halves<Float16>(p, op, b, c, release);
      });
      break;
    case AtomicType::bf16:
      each_lane<uint16_t>(warp, i, mask, host, [op, release](uint16_t* p, uint16_t b, uint16_t c) {
        return update_halves<BFloat16>(p, op, b, c, release);
      });
      break;
    case AtomicType::f16x2:
      each_lane<uint32_t>(warp, i, mask, host, [op, release](uint32_t* p, uint32_t b, uint32_t c) {
        return update_halves<Float16>(p, op, b, c, release);
      });
      break;
    case AtomicType::bf16x2:
      each_lane<uint32_t>(warp, i, mask, host, [op, release](uint32_t* p, uint32_t b, uint32_t c) {
        return update_halves<BFloat16>(p, op, b, c, release);
      });
      break;
  }
  // What returns a value may be a spin; what returns none cannot.
  if (!i->r[6] || ++warp.spins < kSpinBudget) return i + 1;
  warp.stop = Stop::yield;
  warp.resume = i + 1;
  return stop_at();
}

/// An mbarrier word: bits 0..19 arrivals still missing, 20..39 expected ones, bit 63 the phase's parity.
const Instr* mbarrier(Warp& warp, const Instr* i) {
  const std::uint32_t mask = guarded_lanes(warp, i);
  if (mask == 0) return i + 1;
  std::uint64_t host[kLanes] = {};
  host_addresses(warp, i, mask, 8, host);
  const auto op = static_cast<MbarrierOp>(i->r[7] & 255);
  const bool by_parity = i->r[7] & 256;
  const auto* b = reinterpret_cast<const std::uint64_t*>(warp.regs + i->r[2]);
  constexpr std::uint64_t kCount = (1u << 20) - 1, kPhase = std::uint64_t{1} << 63;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const int lane = __builtin_ctz(left);
    auto& word = *reinterpret_cast<std::uint64_t*>(host[lane]);
    switch (op) {
      case MbarrierOp::init:
        word = (b[lane] & kCount) | (b[lane] & kCount) << 20;
        break;
      case MbarrierOp::invalidate:
        word = 0;
        break;
      case MbarrierOp::drop:
      case MbarrierOp::arrive: {
        reinterpret_cast<std::uint64_t*>(warp.regs + i->r[0])[lane] = word;
        std::uint64_t expected = word >> 20 & kCount;
        const std::uint64_t missing = (word & kCount) - (b[lane] & kCount);
        if (op == MbarrierOp::drop) expected -= b[lane] & kCount;
        const std::uint64_t phase = word & kPhase;
        word = missing == 0 ? (phase ^ kPhase) | expected | expected << 20
                            : phase | (missing & kCount) | expected << 20;
        break;
      }
      case MbarrierOp::test: {
        const std::uint64_t waited = by_parity ? b[lane] << 63 : b[lane] & kPhase;
        auto& p = *reinterpret_cast<std::uint32_t*>(warp.regs + i->r[0]);
        const std::uint32_t bit = 1u << lane;
        p = (word & kPhase) != waited ? p | bit : p & ~bit;
        break;
      }
      case MbarrierOp::pending:
        break;
    }
  }
  if (op != MbarrierOp::test || ++warp.spins < 4) return i + 1;
  warp.stop = Stop::yield;
  warp.resume = i + 1;
  return stop_at();
}

}  // namespace

void install_atomic(Handler* handlers) {
  handlers[static_cast<int>(Op::atomic)] = atomic;
  handlers[static_cast<int>(Op::mbarrier)] = mbarrier;
}

}  // namespace sandbox::ptx
