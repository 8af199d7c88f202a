// The slow half of memory checking: finds allocations, names faults, records writes.
#include <cstdlib>

#include "sandbox/ptx/address_space.h"
#include "sandbox/ptx/machine_limits.h"
#include "sandbox/ptx/warp.h"

namespace sandbox::ptx {

void throw_fault(int kind, std::uint32_t lane, const char* what) {
  throw LaneFault{kind, lane, what, 0, false, 0};
}

void throw_address_fault(int kind, std::uint32_t lane, const char* what, std::uint64_t address,
                         std::uint32_t bytes) {
  throw LaneFault{kind, lane, what, address, true, bytes};
}

namespace {

/// Searching the bits of more bytes than this costs more than looking at the lanes.
constexpr std::uint64_t kLargestHull = 8192;

/// The live allocation that holds all of [low, high), remembered for the instruction's next execution, or
/// nullptr.
MemoryRange* live_range(Warp& warp, CachedRange& known, std::uint64_t low, std::uint64_t high) {
  const auto holds = [&](const CachedRange& cached) {
    return cached.range && low >= cached.base && high <= cached.end &&
           cached.range->live_serial.load(std::memory_order_relaxed) == cached.serial;
  };
  if (low >= high) return nullptr;  // beyond the last address
  if (holds(known)) return known.range;
  // Another instruction of the warp may have been there: cheaper than the lock around the table.
  for (const CachedRange& other : warp.cache) {
    if (!holds(other)) continue;
    known = other;
    return known.range;
  }
  MemoryRange* range = find_range(low);
  if (!range || high > range->end() || !range->alive()) return nullptr;
  known = {range->base, range->end(), range, range->serial};
  return range;
}

[[noreturn]] void throw_range_fault(std::uint64_t address, std::uint32_t bytes, std::uint32_t lane) {
  const MemoryRange* range = find_range(address);
  const bool outside = !range || bytes > range->end() - address;
  throw_address_fault(kIllegalAddress, lane, outside ? "out-of-bounds access" : "use after free", address,
                      bytes);
}

CachedRange& remembered(Warp& warp, const Instr* at) {
  return warp.cache[at->ordinal % kCachedRanges];
}

}  // namespace

bool check_hull(Warp& warp, const Instr* at, std::uint64_t low, std::uint64_t high, bool dense, bool write) {
  MemoryRange* range = live_range(warp, remembered(warp, at), low, high);
  if (!range) return false;
  WrittenMap& written = range->written;
  if (written.fully_written()) return true;
  if (write && dense) {
    written.mark(low - range->base, high - low);
    return true;
  }
  return high - low <= kLargestHull && written.is_written(low - range->base, high - low);
}

void check_global(Warp& warp, const Instr* at, const std::uint64_t* addresses, std::uint32_t mask,
                  std::uint32_t bytes, bool write) {
  CachedRange& known = remembered(warp, at);
  while (mask != 0) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(mask));
    const std::uint64_t begin = addresses[lane];
    // Lanes that continue where the previous one ended are checked together.
    std::uint64_t end = begin + bytes;
    mask &= mask - 1;
    MemoryRange* found = live_range(warp, known, begin, end);
    if (!found) throw_range_fault(begin, bytes, lane);
    MemoryRange& range = *found;
    while (mask != 0) {
      const std::uint64_t next = addresses[__builtin_ctz(mask)];
      if (next != end || next + bytes > range.end()) break;
      end += bytes;
      mask &= mask - 1;
    }
    if (range.written.fully_written()) continue;
    if (write) {
      range.written.mark(begin - range.base, end - begin);
    } else if (!range.written.is_written(begin - range.base, end - begin)) {
      const std::uint64_t first = range.base + range.written.first_unwritten(begin - range.base, end - begin);
      throw_address_fault(kIllegalAddress, lane + static_cast<std::uint32_t>((first - begin) / bytes),
                          "read of uninitialized memory", first - (first - begin) % bytes, bytes);
    }
  }
}

}  // namespace sandbox::ptx
