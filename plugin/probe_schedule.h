// When a class asks whose its own shard is: pure bookkeeping of one rank. What comes of it is on the device
// (kernels/launch_probe.h) and in the flags of differences.
#pragma once

#include <cstdint>

namespace sdp4bit {

/// One buffer at a time carries a step, from one of its calls to the next, so that those whose weights
/// stand still do not hide the others. Gaps between steps double up to kLongestGap rounds: a shard that never
/// gives an answer is left alone.
class ProbeSchedule {
 public:
  static constexpr std::uint64_t kLongestGap = 1024;

  static constexpr std::uint64_t kPatience = 8;  // rounds to wait for the buffer that carries a step

  /// The own slice's receive buffer.
  struct Buffer {
    const void* address = nullptr;
    bool seen = false;  // the class knows it from before
    bool in_place = false;
  };

  struct Visit {
    bool answer = false;  // see what became of the step, and take back what is left
    bool moved = false;   // with `answer`: perhaps the step is here, for the buffer is new
    bool start = false;   // add a step

    friend bool operator==(const Visit&, const Visit&) = default;
  };

  /// For the class call `call`, in a class of `slots`. `may_start`: it is a difference, and the class does
  /// not know yet.
  Visit visit(std::uint64_t call, const Buffer& buffer, std::uint32_t slots, bool may_start) {
    Visit result;
    if (under_way_ && buffer.address == address_) {
      under_way_ = false;
      result.answer = buffer.in_place;
    } else if (under_way_) {
      result.answer = result.moved = !buffer.seen && buffer.in_place;
      under_way_ = call < forgotten_at_;
    }
    const bool others_first = result.answer && (slots > 1 || result.moved);
    if (may_start && buffer.in_place && !under_way_ && call >= due_ && !others_first) {
      result.start = under_way_ = true;
      address_ = buffer.address;
      forgotten_at_ = call + kPatience * slots;
      due_ = call + (gap_ - 1) * slots + 1;
      if (gap_ < kLongestGap) gap_ *= 2;
    }
    return result;
  }
  [[nodiscard]] bool under_way() const { return under_way_; }
  /// What the device knew of the step is gone.
  void forget() { under_way_ = false; }

 private:
  bool under_way_ = false;
  const void* address_ = nullptr;  // that carries the step; of one rank
  std::uint64_t forgotten_at_ = 0;
  std::uint64_t due_ = 0;
  std::uint64_t gap_ = 1;  // rounds
};

}  // namespace sdp4bit
