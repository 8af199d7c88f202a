// When gradients are looked at, and when a class goes native and comes back: from call numbers and answers
// alone.
#include <vector>

#include "catch.h"
#include "plugin/health_schedule.h"

namespace sdp4bit {
namespace {

/// Single calls in groups of their own; returns which of them were native.
std::vector<bool> run(std::uint64_t calls, auto garbage) {
  HealthSchedule schedule;
  std::vector<bool> native;
  std::uint64_t looked_at = 0;
  for (std::uint64_t call = 0; call < calls; ++call) {
    if (schedule.reads(call)) (void)schedule.hear(call, garbage(looked_at));
    native.push_back(schedule.paused(call));
    if (!native.back() && schedule.looks(call)) looked_at = call;
  }
  return native;
}

std::uint64_t first_native(const std::vector<bool>& native) {
  return static_cast<std::uint64_t>(std::find(native.begin(), native.end(), true) - native.begin());
}

TEST_CASE("GradientHealth.EverySixtyFourthCallIsLookedAtAndReadEightCallsLater") {
  HealthSchedule schedule;
  std::vector<std::uint64_t> looks, reads;
  for (std::uint64_t call = 0; call < 300; ++call) {
    if (schedule.reads(call)) {
      reads.push_back(call);
      CHECK_FALSE(schedule.hear(call, false));
    }
    if (schedule.looks(call)) looks.push_back(call);
  }
  CHECK(looks == std::vector<std::uint64_t>{63, 127, 191, 255});
  CHECK(reads == std::vector<std::uint64_t>{71, 135, 199, 263});
}

TEST_CASE("GradientHealth.ThreeBadLooksInARowMakeTheClassNative") {
  CHECK(first_native(run(1000, [](std::uint64_t) { return true; })) == 63 + 2 * 64 + 8);
  CHECK(first_native(run(1000, [](std::uint64_t call) { return call != 127; })) == 63 + 4 * 64 + 8);
  CHECK(first_native(run(1000, [](std::uint64_t) { return false; })) == 1000);
}

TEST_CASE("GradientHealth.AClassComesBackAndOneLookDecidesThen") {
  const auto native = run(20'000, [](std::uint64_t call) { return call < 1500; });
  const std::uint64_t first = first_native(native);
  CHECK_FALSE(native[first + HealthSchedule::kFirstPause]);  // after its pause, at 1223: looked at, bad
  CHECK(native[first + HealthSchedule::kFirstPause + 8]);    // twice as long
  CHECK(native[first + 3 * HealthSchedule::kFirstPause]);
  CHECK_FALSE(native[first + 3 * HealthSchedule::kFirstPause + 8]);
  CHECK_FALSE(native.back());
}

TEST_CASE("GradientHealth.APauseEndsWhateverTheGroups") {
  HealthSchedule schedule;
  for (int strike = 0; strike < 3; ++strike) {
    const std::uint64_t call = 1000 * static_cast<std::uint64_t>(strike + 1);
    REQUIRE(schedule.looks(call));
    CHECK_FALSE(schedule.looks(call + 1));  // one at a time
    CHECK(schedule.hear(call + 500, true) == (strike == 2));
  }
  CHECK(schedule.paused(3500));
  CHECK(schedule.paused(3500 + 1023));
  CHECK_FALSE(schedule.paused(3500 + 1024));
}

}  // namespace
}  // namespace sdp4bit
