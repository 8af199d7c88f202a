// Calls of the system (printf, assert, malloc), clocks, fences and instructions in other floating-point
// modes.
#include <immintrin.h>

#include <atomic>
#include <chrono>
#include <cstring>

#include "sandbox/ptx/block.h"
#include "sandbox/ptx/handlers.h"
#include "sandbox/ptx/machine_limits.h"
#include "sandbox/ptx/print.h"
#include "sandbox/ptx/simd/tables.h"
#include "sandbox/ptx/warp_control.h"

namespace sandbox::ptx {
namespace {

/// A word or two of the caller's frame.
std::uint64_t argument(const Warp& warp, std::uint32_t lane, const FrameSpan& span) {
  const std::uint64_t at = (warp.local_base + span.offset) / 4 * 128 + 4 * lane;
  std::uint32_t low = 0, high = 0;
  std::memcpy(&low, warp.local + at, 4);
  if (span.bytes > 4) std::memcpy(&high, warp.local + at + 128, 4);
  return static_cast<std::uint64_t>(high) << 32 | low;
}

void set_result(Warp& warp, std::uint32_t lane, const FrameSpan& span, std::uint64_t value) {
  const std::uint64_t at = (warp.local_base + span.offset) / 4 * 128 + 4 * lane;
  const auto low = static_cast<std::uint32_t>(value), high = static_cast<std::uint32_t>(value >> 32);
  std::memcpy(warp.local + at, &low, 4);
  if (span.bytes > 4) std::memcpy(warp.local + at + 128, &high, 4);
}

[[noreturn]] void assertion_failed(Warp& warp, const Instr* i, std::uint32_t lane, const CallSite& site) {
  const std::string message = read_string(warp, i, lane, argument(warp, lane, site.arguments[0]));
  const std::string file = read_string(warp, i, lane, argument(warp, lane, site.arguments[1]));
  const auto line = argument(warp, lane, site.arguments[2]);
  const std::string function = read_string(warp, i, lane, argument(warp, lane, site.arguments[3]));
  throw Fault{FaultKind::assertion, file + ":" + std::to_string(line) + ": " + function + ": " +
                                        describe_place(*warp.block, warp, lane, i) + " assertion `" +
                                        message + "' failed"};
}

const Instr* system_call(Warp& warp, const Instr* i) {
  const std::uint32_t mask = guarded_lanes(warp, i);
  const auto& site = *reinterpret_cast<const CallSite*>(i->imm);
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(left));
    std::uint64_t result = 0;
    switch (site.system) {
      case SystemCall::print:
        warp.block->context->printer->add(format_text(warp, i, lane, argument(warp, lane, site.arguments[0]),
                                                      argument(warp, lane, site.arguments[1])));
        result = 1;
        break;
      case SystemCall::assert_fail:
        assertion_failed(warp, i, lane, site);
      case SystemCall::allocate: {
        const auto bytes = static_cast<std::size_t>(argument(warp, lane, site.arguments[0]));
        result = reinterpret_cast<std::uint64_t>(AddressSpace::instance().allocate(
            std::max<std::size_t>(bytes, 1), warp.block->context->launch->device, MemoryKind::device));
        break;
      }
      case SystemCall::release: {
        auto* memory = reinterpret_cast<void*>(argument(warp, lane, site.arguments[0]));
        if (memory && !AddressSpace::instance().release(memory))
          throw_address_fault(kIllegalAddress, lane, "free of an address that malloc did not return",
                              reinterpret_cast<std::uint64_t>(memory), 0);
        break;
      }
      case SystemCall::none:
        break;
    }
    if (!site.returns.empty()) set_result(warp, lane, site.returns[0], result);
  }
  return i + 1;
}

const Instr* clock(Warp& warp, const Instr* i) {
  const std::uint32_t mask = guarded_lanes(warp, i);
  std::uint64_t now =
      i->x == 0 ? __builtin_ia32_rdtsc()
                : static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                                 std::chrono::system_clock::now().time_since_epoch())
                                                 .count());
  now >>= i->imm;
  for (std::uint32_t l = 0; l < kLanes; ++l) {
    if (!(mask >> l & 1)) continue;
    if (i->y == 8)
      reinterpret_cast<std::uint64_t*>(warp.regs + i->r[0])[l] = now;
    else
      reinterpret_cast<std::uint32_t*>(warp.regs + i->r[0])[l] = static_cast<std::uint32_t>(now);
  }
  // Who looks at the clock may be waiting for it.
  if (++warp.spins < kSpinBudget) return i + 1;
  warp.stop = Stop::yield;
  warp.resume = i + 1;
  return stop_at();
}

const Instr* fence(Warp& warp, const Instr* i) {
  // A thread sanitizer knows no fences; what follows behaves as if there had been one.
  if constexpr (kModelsFences)
    warp.fenced = true;
  else
    std::atomic_thread_fence(std::memory_order_seq_cst);
  return i + 1;
}

/// Runs another handler with the processor's rounding and flushing set as the instruction says.
const Instr* modal(Warp& warp, const Instr* i) {
  static constexpr unsigned rounding[] = {0x0000, 0x6000, 0x2000, 0x4000};
  const unsigned before = _mm_getcsr();
  _mm_setcsr((before & ~0x6000u) | rounding[i->y & kRoundingMask] | (i->y & kFlush ? 0x8040u : 0u));
  std::atomic_signal_fence(std::memory_order_seq_cst);
  const Instr* next = simd_build().handlers[static_cast<int>(i->op)](warp, i);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  _mm_setcsr(before);
  return next;
}

/// cp.async: r[1] shared address, r[2] global address, r[3] bytes to read; the rest of r[7] bytes becomes
/// zero.
const Instr* copy_async(Warp& warp, const Instr* i) {
  const std::uint32_t mask = guarded_lanes(warp, i);
  const auto* from = reinterpret_cast<const std::uint64_t*>(warp.regs + i->r[2]);
  const auto* sizes = reinterpret_cast<const std::uint32_t*>(warp.regs + i->r[3]);
  const std::uint32_t bytes = i->r[7];
  std::uint32_t reading = 0;
  for (std::uint32_t left = mask; left != 0; left &= left - 1) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(left));
    std::uint64_t to = static_cast<std::uint64_t>(i->imm);
    if (static_cast<AddressForm>(i->y) == AddressForm::register32)
      to += reinterpret_cast<const std::uint32_t*>(warp.regs + i->r[1])[lane];
    else if (static_cast<AddressForm>(i->y) == AddressForm::register64)
      to += reinterpret_cast<const std::uint64_t*>(warp.regs + i->r[1])[lane];
    if (to + bytes > warp.shared_bytes)
      throw_address_fault(kIllegalAddress, lane, "access beyond shared memory", to, bytes);
    if (to % bytes != 0 || (sizes[lane] != 0 && from[lane] % bytes != 0))
      throw_address_fault(kMisaligned, lane, "misaligned access", to % bytes != 0 ? to : from[lane], bytes);
    if (sizes[lane] != 0) {
      std::uint64_t addresses[kLanes] = {};
      addresses[lane] = from[lane];
      if (warp.check) check_global(warp, i, addresses, 1u << lane, std::min(sizes[lane], bytes), false);
      reading |= 1u << lane;
    }
    std::memset(warp.shared + to, 0, bytes);
    std::memcpy(warp.shared + to, reinterpret_cast<const void*>(from[lane]), std::min(sizes[lane], bytes));
  }
  if (reading != 0) {
    const auto lanes = static_cast<unsigned>(__builtin_popcount(reading));
    warp.counters.global_bytes_loaded += static_cast<std::uint64_t>(lanes) * bytes;
    ++warp.counters.global_requests;
    warp.counters.global_sectors += (static_cast<std::uint64_t>(lanes) * bytes + 31) / 32;
  }
  return i + 1;
}

}  // namespace

void install_system(Handler* handlers) {
#define INSTALL(name) handlers[static_cast<int>(Op::name)] = name;
  INSTALL(system_call)
  INSTALL(clock)
  INSTALL(fence)
  INSTALL(modal)
  INSTALL(copy_async)
#undef INSTALL
}

}  // namespace sandbox::ptx
