// One allocation as the interpreter sees it: bounds, life and written bytes, readable without a lock.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sandbox/ptx/address_space.h"
#include "sandbox/ptx/written_map.h"

namespace sandbox::ptx {

/// Records are never destroyed, only reused: a holder compares `live_serial` with the serial it saw.
struct MemoryRange {
  std::uintptr_t base = 0;
  std::size_t bytes = 0;
  int device = -1;
  MemoryKind kind = MemoryKind::device;
  std::uint64_t serial = 0;
  std::atomic<std::uint64_t> live_serial{0};  // == serial while alive, else 0
  WrittenMap written;
  void* block = nullptr;        // what to give back; nullptr for adopted memory
  std::size_t block_bytes = 0;  // 0: from malloc, else from mmap

  std::uintptr_t end() const { return base + bytes; }
  bool contains(std::uintptr_t address) const { return address >= base && address - base < bytes; }
  bool alive() const { return live_serial.load(std::memory_order_relaxed) == serial; }
};

/// The range, alive or remembered, that contains `address`, or nullptr.
MemoryRange* find_range(std::uintptr_t address);

}  // namespace sandbox::ptx
