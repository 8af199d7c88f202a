// A rank that dies or aborts while compressed work is under way: the others get an error or finish, in
// bounded time.
#include <chrono>
#include <csignal>
#include <thread>

#include "catch.h"
#include "cluster.h"

namespace sdp4bit::test {
namespace {

using std::chrono::milliseconds;

// A peer that shows no progress for so long is an error of the emulated NCCL; run_cluster() gives survivors
// ten seconds.
const Environment kAll{{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}, {"SANDBOX_NCCL_TIMEOUT", "4"}};
constexpr int kWarm = 14;  // calls of each function until both are compressed

/// Buffers large enough for a call to last while others do something.
class Training {
 public:
  explicit Training(RankContext& rank)
      : rank_(rank),
        gradients_(Bytes(kGradients * 4 * static_cast<std::size_t>(rank.ranks))),
        sum_(kGradients * 4),
        weights_(Bytes(kWeights * 2 * static_cast<std::size_t>(rank.ranks))) {}

  ncclResult_t reduce() const {
    return ncclReduceScatter(gradients_.data(), sum_.data(), kGradients, ncclFloat32, ncclAvg, rank_.comm,
                             rank_.stream);
  }
  ncclResult_t gather() const {
    return ncclAllGather(weights_.data() + static_cast<std::size_t>(rank_.rank) * kWeights * 2,
                         weights_.data(), kWeights, ncclBfloat16, rank_.comm, rank_.stream);
  }
  void warm_up() const {
    for (int call = 0; call < kWarm; ++call) {
      check(reduce());
      check(gather());
      check(cudaStreamSynchronize(rank_.stream));
    }
    one_step();  // writes all of the workspace that the groups to come use
    expect(calls_of("reduce_scatter").compressed > 0, "gradients are compressed");
    expect(calls_of("all_gather").compressed > 0, "weights are compressed");
  }
  void one_step() const {
    check(reduce());
    check(gather());
    check(ncclGroupStart());
    const ncclResult_t reduced = reduce(), gathered = gather();
    check(ncclGroupEnd());
    check(reduced);
    check(gathered);
    check(cudaStreamSynchronize(rank_.stream));
  }

 private:
  static constexpr std::size_t kGradients = 30000, kWeights = 16000;
  RankContext& rank_;
  DeviceBytes gradients_, sum_, weights_;
};

enum class Place { reduce_scatter, all_gather, open_group, group };

/// The last that this process does: at `place`, some time after the call was issued.
void die(const Training& training, Place place, milliseconds later) {
  if (place == Place::reduce_scatter) check(training.reduce());
  if (place == Place::all_gather) {
    check(training.reduce());
    check(training.gather());
  }
  if (place == Place::open_group || place == Place::group) {
    check(training.reduce());
    check(training.gather());
    check(ncclGroupStart());
    check(training.reduce());
    check(training.gather());
    if (place == Place::group) check(ncclGroupEnd());
  }
  std::this_thread::sleep_for(later);
  std::raise(SIGKILL);
}

void require_an_end_after_a_kill(Place place, milliseconds later) {
  CAPTURE(static_cast<int>(place), later.count());
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 2), .environment = kAll}, [&](RankContext& rank) {
        const Training training(rank);
        training.warm_up();
        if (rank.rank == 3) die(training, place, later);
        for (int step = 0; step < 10; ++step) training.one_step();
      });
  CHECK(outcomes[3].failure == "ended by signal 9");
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CAPTURE(rank, outcomes[rank].failure, outcomes[rank].log);
    CHECK(outcomes[rank].failure != "");
    CHECK(outcomes[rank].failure.find("did not end in time") == std::string::npos);
    CHECK(outcomes[rank].failure.find("signal") == std::string::npos);
  }
}

TEST_CASE("LostRanks.KilledInsideAReduceScatter") {
  for (const int later : {0, 3}) require_an_end_after_a_kill(Place::reduce_scatter, milliseconds(later));
}
TEST_CASE("LostRanks.KilledInsideAnAllGather") {
  require_an_end_after_a_kill(Place::all_gather, milliseconds(3));
}
TEST_CASE("LostRanks.KilledInAnOpenGroup") {
  require_an_end_after_a_kill(Place::open_group, milliseconds(0));
}
TEST_CASE("LostRanks.KilledWhileAGroupRuns") {
  require_an_end_after_a_kill(Place::group, milliseconds(3));
}

TEST_CASE("LostRanks.KilledAtManyMoments", "[.slow]") {
  for (int later = 0; later < 60; later += 4) {
    for (const Place place : {Place::reduce_scatter, Place::all_gather, Place::group})
      require_an_end_after_a_kill(place, milliseconds(later));
  }
}

void abort_soon(RankContext& rank) {
  const auto start = std::chrono::steady_clock::now();
  check(ncclCommAbort(rank.comm));
  rank.comm = nullptr;
  expect(std::chrono::steady_clock::now() - start < std::chrono::seconds(5), "the abort takes long");
}

TEST_CASE("LostRanks.AllAbortWithWorkUnderWay") {
  for (const bool grouped : {false, true}) {
    const auto outcomes =
        run_cluster({.node_of = even_nodes(2, 2), .environment = kAll}, [&](RankContext& rank) {
          const Training training(rank);
          training.warm_up();
          if (grouped) check(ncclGroupStart());
          check(training.reduce());
          check(training.gather());
          if (grouped) check(ncclGroupEnd());
          abort_soon(rank);
          check(cudaStreamSynchronize(rank.stream));  // and the device is as it was
        });
    CHECK(failures(outcomes) == "");
  }
}

TEST_CASE("LostRanks.OneAbortsTheOthersGetAnError") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 2), .environment = kAll}, [&](RankContext& rank) {
        const Training training(rank);
        training.warm_up();
        if (rank.rank == 1) {
          check(training.reduce());
          check(training.gather());
          return abort_soon(rank);
        }
        for (int step = 0; step < 10; ++step) training.one_step();
      });
  CHECK(outcomes[1].failure == "");
  for (const std::size_t rank : {0u, 2u, 3u}) {
    CAPTURE(rank, outcomes[rank].failure, outcomes[rank].log);
    CHECK(outcomes[rank].failure != "");
    CHECK(outcomes[rank].failure.find("did not end in time") == std::string::npos);
    CHECK(outcomes[rank].failure.find("signal") == std::string::npos);
  }
}

TEST_CASE("LostRanks.ACommunicatorIsMadeAnewAfterAnAbort") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 2), .environment = kAll}, [&](RankContext& rank) {
        ncclComm_t again = nullptr;
        check(ncclCommSplit(rank.comm, 0, rank.rank, &again, nullptr));
        {
          const Training training(rank);
          training.warm_up();
          check(training.reduce());
          check(training.gather());
          abort_soon(rank);
          check(cudaStreamSynchronize(rank.stream));
        }
        rank.comm = again;
        const CallCounts before = calls_of("reduce_scatter");
        const Training training(rank);
        training.warm_up();
        expect(calls_of("reduce_scatter").compressed - before.compressed == kWarm - 2 + 2,
               "all but the first two are compressed again");
      });
  CHECK(failures(outcomes) == "");
}

}  // namespace
}  // namespace sdp4bit::test
