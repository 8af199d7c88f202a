// The queue of calls under way keeps its order while it wraps around and grows.
#include <deque>

#include "catch.h"
#include "plugin/ring.h"

namespace sdp4bit::test {
namespace {

TEST_CASE("Ring.BehavesAsAQueueWhileItWrapsAndGrows") {
  Ring<int> ring;
  std::deque<int> expected;
  int next = 0;
  // Longer and longer waves, so that the front stands anywhere when the ring grows.
  for (int wave = 1; wave < 100; ++wave) {
    for (int i = 0; i < wave; ++i) {
      ring.push_back(next);
      expected.push_back(next++);
    }
    for (int i = 0; i + 1 < wave; ++i) {
      REQUIRE(ring.front() == expected.front());
      ring.pop_front();
      expected.pop_front();
    }
    REQUIRE(ring.size() == expected.size());
    REQUIRE(ring.back() == expected.back());
    for (std::size_t place = 0; place < expected.size(); ++place) REQUIRE(ring[place] == expected[place]);
  }
}

}  // namespace
}  // namespace sdp4bit::test
