// The sender's own numbers for its buffers in a class, looked up by receive address; least recently used out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/record_header.h"

namespace sdp4bit {

class SlotTable {
 public:
  static constexpr std::uint32_t kMost = kMostSlots;

  /// `uses`: what the count of uses begins with.
  explicit SlotTable(std::uint64_t uses = 0) : uses_(uses) {}

  struct Found {
    std::uint32_t slot = 0;
    bool seen = false;  // the slot stood for this address before
  };
  /// At most `limit` slots (1 to kMost) are in use; a new address takes a free one, else the least recently
  /// used.
  Found find(const void* address, std::uint32_t limit);

  /// Slots that were in use so far.
  [[nodiscard]] std::uint32_t count() const { return static_cast<std::uint32_t>(slots_.size()); }
  void clear() { slots_.clear(); }

  struct Slot {
    const void* address;
    std::uint64_t last_use;
  };
  [[nodiscard]] const std::vector<Slot>& slots() const { return slots_; }

 private:
  std::vector<Slot> slots_;
  std::uint64_t uses_;
};

}  // namespace sdp4bit
