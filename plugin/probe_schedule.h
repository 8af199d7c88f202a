// When a class asks whose its own shard is: pure bookkeeping of one rank. What comes of it is on the device
// (kernels/launch_probe.h) and in the flags of differences.
#pragma once

#include <cstdint>

namespace sdp4bit {

/// One slot at a time carries a step, from one call of the slot to the next, so that slots whose weights
/// stand still do not hide the others. Gaps between steps double up to kLongestGap rounds: a shard that never
/// gives an answer is left alone.
class ProbeSchedule {
 public:
  static constexpr std::uint64_t kLongestGap = 1024;

  struct Visit {
    bool answer = false;  // see what became of the step in this slot, and take back what is left
    bool start = false;   // add a step

    friend bool operator==(const Visit&, const Visit&) = default;
  };

  /// For the class call `call` on `slot`, of `slots`. `known`: the slot stands for the same buffer as before.
  /// `may_start`: it is a difference, in place, and the class does not know yet.
  Visit visit(std::uint64_t call, std::uint32_t slot, std::uint32_t slots, bool known, bool may_start) {
    Visit result;
    if (under_way_ && slot == slot_) {
      under_way_ = false;
      result.answer = known;
    }
    const bool other_slots_first = result.answer && slots > 1;
    if (may_start && !under_way_ && call >= due_ && !other_slots_first) {
      result.start = under_way_ = true;
      slot_ = slot;
      due_ = call + (gap_ - 1) * slots + 1;
      if (gap_ < kLongestGap) gap_ *= 2;
    }
    return result;
  }

 private:
  bool under_way_ = false;
  std::uint32_t slot_ = 0;
  std::uint64_t due_ = 0;
  std::uint64_t gap_ = 1;  // rounds
};

}  // namespace sdp4bit
