// Slots by address; see slot_table.h.
#include "plugin/slot_table.h"

#include <algorithm>

namespace sdp4bit {

SlotTable::Found SlotTable::find(const void* address, std::uint32_t limit) {
  ++uses_;
  if (slots_.size() > limit) slots_.resize(limit);
  auto slot = std::find_if(slots_.begin(), slots_.end(), [&](const Slot& s) { return s.address == address; });
  const bool seen = slot != slots_.end();
  if (!seen && slots_.size() < limit) {
    slot = slots_.insert(slots_.end(), {address, 0});
  } else if (!seen) {
    slot = std::min_element(slots_.begin(), slots_.end(),
                            [](const Slot& a, const Slot& b) { return a.last_use < b.last_use; });
  }
  *slot = {address, uses_};
  return {static_cast<std::uint32_t>(slot - slots_.begin()), seen};
}

}  // namespace sdp4bit
