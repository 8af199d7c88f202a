// What a rank may say of its part of a class's ledger: asked for, held, refused. No memory.
#pragma once

#include <cstdint>

namespace sdp4bit {

class LedgerStanding {
 public:
  /// S was agreed and memory asked for; false: refused, on this rank.
  void asked(std::uint32_t slots, bool held) {
    slots_ = slots;
    refused_ = !held;
  }
  /// Nothing is agreed any more.
  void restart() { *this = {}; }

  [[nodiscard]] bool ready() const { return slots_ != 0 && !refused_; }
  [[nodiscard]] bool refused() const { return refused_; }
  /// S, from the moment that memory was asked for.
  [[nodiscard]] std::uint32_t slots() const { return slots_; }
  /// Slots that the rank's buffers may take.
  [[nodiscard]] std::uint32_t slot_limit(std::uint32_t most) const { return slots_ != 0 ? slots_ : most; }

  friend bool operator==(const LedgerStanding&, const LedgerStanding&) = default;

 private:
  std::uint32_t slots_ = 0;
  bool refused_ = false;
};

}  // namespace sdp4bit
