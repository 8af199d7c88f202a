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

/// The live allocation that holds all of [address, address + bytes), remembered for the instruction's next
/// execution.
MemoryRange& range_of(Warp& warp, CachedRange& known, std::uint64_t address, std::uint32_t bytes,
                      std::uint32_t lane) {
  const auto holds = [&](const CachedRange& cached) {
    return cached.range && address >= cached.base && address + bytes <= cached.end &&
           cached.range->live_serial.load(std::memory_order_relaxed) == cached.serial;
  };
  if (holds(known)) return *known.range;
  // Another instruction of the warp may have been there: cheaper than the lock around the table.
  for (const CachedRange& other : warp.cache) {
    if (!holds(other)) continue;
    known = other;
    return *known.range;
  }
  MemoryRange* range = find_range(address);
  if (!range || address + bytes > range->end())
    throw_address_fault(kIllegalAddress, lane, "out-of-bounds access", address, bytes);
  if (!range->alive()) throw_address_fault(kIllegalAddress, lane, "use after free", address, bytes);
  known = {range->base, range->end(), range, range->serial};
  return *range;
}

}  // namespace

void check_global(Warp& warp, const Instr* at, const std::uint64_t* addresses, std::uint32_t mask,
                  std::uint32_t bytes, bool write) {
  CachedRange& known = warp.cache[at->ordinal % kCachedRanges];
  while (mask != 0) {
    const auto lane = static_cast<std::uint32_t>(__builtin_ctz(mask));
    const std::uint64_t begin = addresses[lane];
    // Lanes that continue where the previous one ended are checked together.
    std::uint64_t end = begin + bytes;
    mask &= mask - 1;
    MemoryRange& range = range_of(warp, known, begin, bytes, lane);
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
