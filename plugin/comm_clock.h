// How the calls of a communicator are numbered, and when its handshake begins and is read: pure, and the same
// on every rank.
#pragma once

#include <cstdint>

#include "plugin/policy.h"

namespace sdp4bit {

class CommClock {
 public:
  static constexpr std::uint64_t kCallsBeforeReading = 3;

  CommClock() : CommClock(0) {}
  /// The first call that is launched gets the number `first`.
  explicit CommClock(std::uint64_t first) : first_(first), launched_(first), before_group_(first) {}

  /// A call that will get a number comes in the outermost group `epoch`: true for the group's first ...
  [[nodiscard]] bool is_new(std::uint64_t epoch) const { return epoch_ != epoch; }
  /// ... which begins the group on this communicator.
  void enter(std::uint64_t epoch) {
    epoch_ = epoch;
    before_group_ = launched_;
  }
  /// Whether the group that was entered reads a handshake that is under way.
  [[nodiscard]] bool reads_handshake() const { return before_group_ - first_ >= kCallsBeforeReading; }
  /// Numbers a call that is launched: true for the communicator's first, which the handshake follows.
  [[nodiscard]] bool launches_first() { return launched_++ == first_; }

  /// The next call's number, which calls launched so far make: neither zero-count nor captured nor refused
  /// ones.
  [[nodiscard]] std::uint64_t launched() const { return launched_; }
  /// ... before the group that was entered last.
  [[nodiscard]] std::uint64_t before_group() const { return before_group_; }

 private:
  std::uint64_t first_;
  std::uint64_t launched_;
  std::uint64_t epoch_ = 0;
  std::uint64_t before_group_;
};

/// What a call is when its group is launched; equal on all ranks.
struct LaunchFacts {
  bool first = false;      // of the communicator
  bool counts = true;      // has a number
  bool tracked = false;    // the weights' side has decided on it
  bool compressed = true;  // not passed on
  Agreement agreement = Agreement::pending;
  bool connected = false;
};

/// What it brings about, in this order.
struct LaunchSteps {
  bool handshake = false;
  bool connecting = false;
  bool health_records = false;
  bool gather = false;
  bool gradient = false;

  [[nodiscard]] bool any() const { return handshake || connecting || health_records || gather || gradient; }
  friend bool operator==(const LaunchSteps&, const LaunchSteps&) = default;
};

[[nodiscard]] constexpr LaunchSteps launch_steps(const LaunchFacts& call) {
  const bool on = call.agreement == Agreement::on;
  return {.handshake = call.first,
          .connecting = on && !call.connected,
          .health_records = on && call.counts,
          .gather = on && call.tracked,
          .gradient = on && !call.tracked && call.compressed};
}

}  // namespace sdp4bit
