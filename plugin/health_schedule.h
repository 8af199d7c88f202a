// When a class of gradients is looked at, and when it goes native: pure, driven by call numbers and by what
// all ranks said.
#pragma once

#include <cstdint>

namespace sdp4bit {

/// The rules for one class; see gradient_health.h.
class HealthSchedule {
 public:
  static constexpr std::uint64_t kPeriod = 64;        // calls from one look to the next
  static constexpr std::uint64_t kLag = 8;            // calls from a look to its answer
  static constexpr std::uint32_t kStrikes = 3;        // in a row
  static constexpr std::uint64_t kFirstPause = 1024;  // native calls; doubles each time
  static constexpr std::uint64_t kLongestPause = 1u << 20;

  /// The class's first call is number `first`.
  explicit HealthSchedule(std::uint64_t first = 0) : next_look_(first + kPeriod - 1) {}

  /// Whether calls of the group that begins at the class's call `call` stay native.
  [[nodiscard]] bool paused(std::uint64_t call) const { return call < paused_until_; }
  /// Whether the call is looked at; asked in call order, for calls that are compressed.
  [[nodiscard]] bool looks(std::uint64_t call) {
    if (looking_ || call < next_look_) return false;
    looking_ = true;
    looked_at_ = call;
    return true;
  }
  /// Whether a group that begins at `call` reads the answer.
  [[nodiscard]] bool reads(std::uint64_t call) const { return looking_ && call >= looked_at_ + kLag; }
  /// True if the class goes native now.
  bool hear(std::uint64_t call, bool unhealthy) {
    looking_ = false;
    next_look_ = looked_at_ + kPeriod;
    if (!unhealthy) {
      strikes_ = 0;
      pause_ = kFirstPause;
      return false;
    }
    if (++strikes_ < kStrikes) return false;
    strikes_ = kStrikes - 1;  // the next look decides alone
    paused_until_ = next_look_ = call + pause_;
    if (pause_ < kLongestPause) pause_ *= 2;
    return true;
  }

 private:
  std::uint64_t next_look_;
  std::uint64_t looked_at_ = 0;
  bool looking_ = false;
  std::uint32_t strikes_ = 0;
  std::uint64_t pause_ = kFirstPause;
  std::uint64_t paused_until_ = 0;
};

}  // namespace sdp4bit
