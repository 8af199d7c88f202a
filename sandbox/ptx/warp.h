// The state of one running warp: registers, active lanes, fragments that have diverged, memory windows,
// counters.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sandbox/ptx/ir.h"
#include "sandbox/ptx/memory_range.h"

namespace sandbox::ptx {

struct Code;
struct BlockRun;

/// Generic addresses of local memory: the same numbers in every thread, as on the device. No host pointer
/// looks so.
inline constexpr std::uint64_t kLocalWindow = std::uint64_t{0x5eed} << 48;
inline constexpr std::uint64_t kLocalWindowBytes = std::uint64_t{1} << 32;

/// One activation of a function by some lanes.
struct Frame {
  const Code* code = nullptr;
  Frame* parent = nullptr;
  const Instr* return_to = nullptr;  // the instruction behind the call
  const Instr* call = nullptr;
  std::uint32_t lanes = 0;
  std::uint32_t depth = 0;
  std::uint64_t local_base = 0;
  std::vector<std::uint8_t> saved;  // registers of an outer activation of the same function
};

/// Lanes that share a place in the program.
struct Fragment {
  enum class State : std::uint8_t { ready, warp_sync, barrier };
  const Instr* ip = nullptr;
  Frame* frame = nullptr;
  std::uint32_t mask = 0;
  State state = State::ready;
  std::uint32_t needs = 0;  // warp_sync: the lanes that must come; barrier: its number
  std::uint64_t turn = 0;   // when it last used up a slice spinning; 0: never
};

/// Why a handler left the interpreter loop.
enum class Stop : std::uint8_t { none, reschedule, warp_sync, barrier, yield, pause };

/// The allocation that an instruction last touched.
struct CachedRange {
  std::uintptr_t base = 1, end = 0;
  MemoryRange* range = nullptr;
  std::uint64_t serial = 0;
};

struct WarpCounters {
  std::uint64_t lane_instructions = 0;
  std::uint64_t global_bytes_loaded = 0;
  std::uint64_t global_bytes_stored = 0;
  std::uint64_t global_requests = 0;
  std::uint64_t global_sectors = 0;
};

inline constexpr int kCachedRanges = 16;
inline constexpr std::uint32_t kSpinBudget = 32;  // strong reads in one slice before other lanes get a turn
inline constexpr std::uint32_t kFuel = 1u << 16;

/// On the host every store releases what came before it, fence or not. A thread sanitizer can tell the
/// difference, and a program whose fence is missing would be wrong on a GPU: for it the machine keeps
/// account.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kModelsFences = true;
#else
inline constexpr bool kModelsFences = false;
#endif

struct Warp {
  std::uint8_t* regs = nullptr;
  std::uint32_t mask = 0;          // lanes of the running fragment
  std::uint32_t live = 0;          // lanes that have not exited
  const Instr* limit = nullptr;    // where the running fragment meets another one
  const Instr* current = nullptr;  // being executed, for messages
  const Instr* segment = nullptr;  // where counting of the running fragment last stopped
  const Instr* resume = nullptr;   // where a stopped fragment goes on
  Frame* frame = nullptr;
  std::uint8_t* shared = nullptr;
  std::uint64_t shared_bytes = 0;
  std::uint8_t* local = nullptr;  // word w of lane l at 128 * w + 4 * l
  std::uint64_t local_bytes = 0;  // per thread
  std::uint64_t local_base = 0;   // of the running frame
  const std::uint8_t* params = nullptr;
  std::uint64_t param_bytes = 0;
  std::uint32_t spins = 0;
  std::uint32_t fuel = 0;   // backward branches until the scheduler looks at the clock
  std::uint32_t needs = 0;  // lanes a stopped fragment waits for
  Stop stop = Stop::none;
  bool check = true;
  bool fenced = false;  // kModelsFences: a fence came behind the last weak store to memory
  CachedRange cache[kCachedRanges];
  WarpCounters counters;

  BlockRun* block = nullptr;
  std::uint32_t index = 0;
  std::vector<Fragment> fragments;  // all but the running one
  std::vector<std::unique_ptr<Frame>> frames;
  std::vector<Frame*> spare_frames;
  std::vector<const Code*> prepared;  // functions whose constants are in the registers
  std::uint64_t turns = 0;
};

inline const Instr* stop_at() {
  return reinterpret_cast<const Instr*>(~std::uintptr_t{0} - 63);
}

/// Thrown by handlers; the launch adds kernel, line, block and thread.
struct LaneFault {
  int kind;  // FaultKind
  std::uint32_t lane;
  const char* what;  // static text
  std::uint64_t address = 0;
  bool has_address = false;
  std::uint32_t bytes = 0;
};

[[noreturn]] void throw_fault(int kind, std::uint32_t lane, const char* what);
[[noreturn]] void throw_address_fault(int kind, std::uint32_t lane, const char* what, std::uint64_t address,
                                      std::uint32_t bytes);

/// The slow half of a checked access to global memory: finds the allocation, faults, records what is written.
void check_global(Warp& warp, const Instr* at, const std::uint64_t* addresses, std::uint32_t mask,
                  std::uint32_t bytes, bool write);
/// Allows [low, high) as a whole if all of it is allowed, without a fault if not. `dense`: an access that
/// writes every byte of it.
bool check_hull(Warp& warp, const Instr* at, std::uint64_t low, std::uint64_t high, bool dense, bool write);

/// Adds what ran since the last call to the counters; `end` is the first instruction that has not run.
inline void count_segment(Warp& warp, const Instr* end) {
  warp.counters.lane_instructions += static_cast<std::uint64_t>(end->ordinal - warp.segment->ordinal) *
                                     static_cast<unsigned>(__builtin_popcount(warp.mask));
  warp.segment = end;
}

/// Whether a strong write of this instruction releases what the warp wrote before.
inline bool releases(const Warp& warp, const Instr* i) {
  return !kModelsFences || warp.fenced || (i->x & kReleasingAccess) != 0;
}

/// The lanes for which an instruction runs.
inline std::uint32_t guarded_lanes(const Warp& warp, const Instr* i) {
  const auto guard = *reinterpret_cast<const std::uint32_t*>(warp.regs + i->guard);
  return warp.mask & (guard ^ i->flip);
}

}  // namespace sandbox::ptx
