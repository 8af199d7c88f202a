// SDP4BIT_OWN_SHARD=auto: programs whose own shard is their master copy keep it exact, programs that write it
// from masters elsewhere get the same bits on all ranks, and what gives no answer changes nothing.
#include <sdp4bit/sdp4bit.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "catch.h"
#include "cluster.h"
#include "kernels/launch_probe.h"
#include "kernels/reference_codec.h"

using namespace sdp4bit;
using namespace sdp4bit::test;

namespace {

enum class Masters { elsewhere, in_place, out_of_place };

/// A distributed optimizer in bf16: each rank moves its own shard a step, all gather it in place.
struct Optimizer {
  std::function<Masters(int rank)> masters = [](int) { return Masters::elsewhere; };
  /// How far a rank's weights move in a step, against the usual.
  std::function<float(int rank, int step)> rate = [](int, int) { return 1.0f; };
  /// Before a step: a rank may ask for new learning, and buffers may get a new address, contents and all.
  std::function<bool(int rank, int step)> resets = [](int, int) { return false; };
  std::function<bool(int rank, int step)> moves = [](int, int) { return false; };
  std::function<bool(int step)> replaces = [](int) { return false; };  // all weights, as a checkpoint
  int steps = 80;
  int buffers = 2;
  std::size_t count = 6000;
};

constexpr const char* kMaster = "own shards are the optimizer's master copies";
constexpr const char* kReplica = "own shards are written from masters elsewhere";

float movement(int rank, int buffer, int step, std::size_t element) {
  std::uint64_t x = (static_cast<std::uint64_t>(rank) * 8 + static_cast<std::uint64_t>(buffer)) * 100'003 +
                    static_cast<std::uint64_t>(step) * 1'000'003 + element;
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
  x ^= x >> 32;
  return (static_cast<float>(x & 0xffffu) * 0x1p-16f - 0.5f) * 2e-3f;
}

float rounded(float value) {
  std::byte bytes[2];
  reference::store_element(ElementType::bfloat16, bytes, 0, value);
  return reference::load_element(ElementType::bfloat16, bytes, 0);
}

Bytes packed(const std::vector<float>& values) {
  Bytes bytes(values.size() * 2);
  for (std::size_t i = 0; i < values.size(); ++i) {
    reference::store_element(ElementType::bfloat16, bytes.data(), i, values[i]);
  }
  return bytes;
}

/// Returns each rank's buffers after the last step; what a program without the library has in its own shard
/// is compared here.
std::vector<Outcome> train(const Optimizer& optimizer) {
  return run_cluster(
      {.node_of = even_nodes(2, 2),
       .environment = {{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}, {"SDP4BIT_LOG", "info"}}},
      [&](RankContext& rank) {
        const Masters masters = optimizer.masters(rank.rank);
        sdp4bitFunctions asks;
        expect(sdp4bitLoad(&asks) == 1, "the library is preloaded");
        const std::size_t shard_bytes = optimizer.count * 2;
        const std::size_t own = static_cast<std::size_t>(rank.rank) * shard_bytes;
        std::vector<std::vector<float>> weights;  // in fp32; in bf16 where there is no other copy
        std::vector<std::unique_ptr<DeviceBytes>> gathered, sent;
        for (int b = 0; b < optimizer.buffers; ++b) {
          weights.emplace_back(optimizer.count);
          for (std::size_t i = 0; i < optimizer.count; ++i) {
            weights.back()[i] = rounded(20.0f * movement(rank.rank, b, 0, i));
          }
          gathered.push_back(
              std::make_unique<DeviceBytes>(shard_bytes * static_cast<std::size_t>(rank.ranks)));
          gathered.back()->write(packed(weights.back()), own);
          sent.push_back(std::make_unique<DeviceBytes>(shard_bytes));
        }
        for (int step = 1; step <= optimizer.steps; ++step) {
          for (int b = 0; b < optimizer.buffers; ++b) {
            std::vector<float>& mine = weights[static_cast<std::size_t>(b)];
            if (optimizer.resets(rank.rank, step))
              expect(asks.reset_weights(rank.comm) == 0, "a reset is heard");
            if (optimizer.moves(rank.rank, step)) {
              auto& place = gathered[static_cast<std::size_t>(b)];
              auto moved = std::make_unique<DeviceBytes>(shard_bytes * static_cast<std::size_t>(rank.ranks));
              moved->write(place->read(), 0);
              place = std::move(moved);
            }
            DeviceBytes& buffer = *gathered[static_cast<std::size_t>(b)];
            DeviceBytes& shard = *sent[static_cast<std::size_t>(b)];
            const float rate = optimizer.rate(rank.rank, step);
            const Bytes before = buffer.read();
            Bytes after(shard_bytes);
            for (std::size_t i = 0; i < optimizer.count; ++i) {
              const float move = rate * movement(rank.rank, b, step, i);
              mine[i] = masters == Masters::in_place ? rounded(mine[i] + move) : mine[i] + move;
              if (optimizer.replaces(step)) {
                mine[i] = rounded(20.0f * movement(rank.rank, b, step, i));
                reference::store_element(ElementType::bfloat16, after.data(), i, mine[i]);
                continue;
              }
              const float held = reference::load_element(ElementType::bfloat16, before.data() + own, i);
              reference::store_element(ElementType::bfloat16, after.data(), i,
                                       masters == Masters::in_place ? held + move : mine[i]);
            }
            (masters == Masters::out_of_place ? shard.write(after) : buffer.write(after, own));
            check(ncclAllGather(masters == Masters::out_of_place ? shard.data() : buffer.data() + own,
                                buffer.data(), optimizer.count, ncclBfloat16, rank.comm, rank.stream));
            check(cudaStreamSynchronize(rank.stream));
          }
        }
        for (int b = 0; b < optimizer.buffers; ++b) {
          const Bytes got = gathered[static_cast<std::size_t>(b)]->read();
          rank.result.insert(rank.result.end(), got.begin(), got.end());
          if (masters != Masters::in_place) continue;
          // As without the library, bit for bit, but for the samples: those saw a step and took it back.
          double worst = 0, all = 0;
          std::size_t unequal = 0;
          for (std::size_t i = 0; i < optimizer.count; ++i) {
            const float held = reference::load_element(ElementType::bfloat16, got.data() + own, i);
            const float expected = weights[static_cast<std::size_t>(b)][i];
            unequal += held != expected;
            worst = std::max(worst, std::abs(double{held} - expected));
            all += std::abs(double{held} - expected);
          }
          expect(unequal <= kProbeSamples,
                 "updates were lost: " + std::to_string(unequal) + " elements differ");
          expect(worst <= 1e-3, "a step was not taken back: off by " + std::to_string(worst));
          const double mean = all / static_cast<double>(kProbeSamples);  // a step is 5.8e-4 in each sample
          expect(mean <= 2e-4, "a step was not taken back: off by " + std::to_string(mean) + " in the mean");
        }
        expect(calls_of("all_gather").compressed > 0, "differences travel");
      });
}

bool all_say(const std::vector<Outcome>& outcomes, const char* text) {
  return std::all_of(outcomes.begin(), outcomes.end(),
                     [&](const Outcome& outcome) { return outcome.log.find(text) != std::string::npos; });
}
bool none_says(const std::vector<Outcome>& outcomes, const char* text) {
  return std::none_of(outcomes.begin(), outcomes.end(),
                      [&](const Outcome& outcome) { return outcome.log.find(text) != std::string::npos; });
}

void require_equal_ranks(const std::vector<Outcome>& outcomes) {
  for (const Outcome& outcome : outcomes) REQUIRE(outcome.result == outcomes[0].result);
}

}  // namespace

TEST_CASE("OwnShard.MastersElsewhereMakeAllRanksEqual") {
  const auto outcomes = train({});
  REQUIRE(failures(outcomes) == "");
  CHECK(all_say(outcomes, kReplica));
  CHECK(none_says(outcomes, kMaster));
  require_equal_ranks(outcomes);
}

TEST_CASE("OwnShard.OutOfPlaceNothingCanBeLost") {
  const auto outcomes = train({.masters = [](int) { return Masters::out_of_place; }, .steps = 20});
  REQUIRE(failures(outcomes) == "");
  CHECK(all_say(outcomes, kReplica));
  require_equal_ranks(outcomes);
}

TEST_CASE("OwnShard.AMasterInPlaceLosesNoUpdate") {
  const auto outcomes = train({.masters = [](int) { return Masters::in_place; }});
  REQUIRE(failures(outcomes) == "");
  CHECK(all_say(outcomes, kMaster));
  CHECK(none_says(outcomes, kReplica));
}

TEST_CASE("OwnShard.AStepIsTakenOutOfABufferThatMoved") {
  for (const int moved_at : {12, 13, 14}) {  // one of them while the buffer carries the first step
    const auto outcomes = train({.masters = [](int) { return Masters::in_place; },
                                 .moves = [=](int, int step) { return step == moved_at; },
                                 .steps = 40,
                                 .buffers = 1});
    REQUIRE(failures(outcomes) == "");
    CHECK(all_say(outcomes, kMaster));
  }
}

TEST_CASE("OwnShard.AStepIsTakenOutAfterAReset") {
  // Weights stand still under the first step: the second one is under way when the reset comes.
  const auto outcomes = train({.masters = [](int) { return Masters::in_place; },
                               .rate = [](int, int step) { return step == 13 || step == 14 ? 0.0f : 1.0f; },
                               .resets = [](int, int step) { return step == 12; },
                               .steps = 60,
                               .buffers = 1});
  REQUIRE(failures(outcomes) == "");
  CHECK(all_say(outcomes, "the program asked for it on all ranks; learning again"));
  CHECK(all_say(outcomes, kMaster));
}

TEST_CASE("OwnShard.WeightsThatAreReplacedOftenDoNotMakeAReplica") {
  const auto outcomes = train({.masters = [](int) { return Masters::in_place; },
                               .replaces = [](int step) { return step > 11 && step < 15; },
                               .steps = 60,
                               .buffers = 1});
  REQUIRE(failures(outcomes) == "");
  CHECK(none_says(outcomes, kReplica));
}

TEST_CASE("OwnShard.AMasterOnOneRankIsRespectedByAll") {
  const auto outcomes =
      train({.masters = [](int rank) { return rank == 2 ? Masters::in_place : Masters::elsewhere; }});
  REQUIRE(failures(outcomes) == "");
  CHECK(all_say(outcomes, kMaster));
  CHECK(none_says(outcomes, kReplica));
}

TEST_CASE("OwnShard.AWarmUpFromZeroAbstainsUntilWeightsMove") {
  for (const bool in_place : {false, true}) {
    const auto outcomes =
        train({.masters = [in_place](int) { return in_place ? Masters::in_place : Masters::elsewhere; },
               .rate = [](int, int step) { return step < 60 ? 0.0f : 1.0f; },
               .steps = 200,
               .buffers = 1,
               .count = 4500});
    REQUIRE(failures(outcomes) == "");
    CHECK(all_say(outcomes, in_place ? kMaster : kReplica));
    CHECK(none_says(outcomes, in_place ? kReplica : kMaster));
  }
}

TEST_CASE("OwnShard.AFrozenShardAbstains") {
  const auto outcomes = train({.rate = [](int rank, int) { return rank == 1 ? 0.0f : 1.0f; }});
  REQUIRE(failures(outcomes) == "");
  CHECK(none_says(outcomes, kMaster));
  CHECK(none_says(outcomes, kReplica));
}
