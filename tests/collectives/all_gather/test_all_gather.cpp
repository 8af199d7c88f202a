// AllGather of weights, preloaded, on emulated clusters: equal bits everywhere, bounded errors, agreed kinds.
#include <tuple>

#include "gather_checks.h"

using namespace sdp4bit::test;

TEST_CASE("AllGather.AllRanksHoldTheSameBitsWithinTheBoundAtEveryStep") {
  for (const auto& [nodes, local, steps] : {std::tuple{2, 2, 300}, {4, 1, 60}, {2, 3, 60}, {3, 2, 60}}) {
    const GatherJob job{.nodes = nodes, .local_ranks = local, .count = 2051, .steps = steps};
    const GatherResult result = run(job);
    require_agreement(job, result);
    require_compressed(result, all_but_learning(job));
  }
}

TEST_CASE("AllGather.FullLedgerWorksInOneNodeAndOnUnevenNodes") {
  for (const auto& [nodes, local] : {std::pair{1, 4}, {2, 2}, {3, 1}}) {
    GatherJob job{.nodes = nodes, .local_ranks = local, .steps = 60};
    job.environment = {{"SDP4BIT_WEIGHT_LEDGER", "full"}};
    const GatherResult result = run(job);
    require_agreement(job, result);
    require_compressed(result, all_but_learning(job));
  }
}

TEST_CASE("AllGather.NodeLedgerStaysNativeWhereThereAreNoColumns") {
  GatherJob job{.nodes = 1, .local_ranks = 3, .steps = 30};
  const GatherResult result = run(job);
  require_agreement(job, result);
  require_compressed(result, 0);
}

TEST_CASE("AllGather.TakesAtMost403BitsPerElementAndOtherNode") {
  for (const char* ledger : {"node", "full"}) {
    GatherJob job{.count = 1 << 17, .buffers = 1, .steps = 14};
    job.environment = {{"SDP4BIT_WEIGHT_LEDGER", ledger}};
    const GatherResult result = run(job);
    require_agreement(job, result);
    require_compressed(result, all_but_learning(job));
    for (std::size_t sender = 0; sender < 4; ++sender) {
      const std::size_t other = sender < 2 ? 2 : 0;  // first rank of the other node
      const std::uint64_t bytes = result.last_step[sender][other] + result.last_step[sender][other + 1];
      const double receivers = std::string(ledger) == "full" ? 2 : 1;
      CHECK(static_cast<double>(bytes) * 8 <= 4.03 * receivers * static_cast<double>(job.count));
      CHECK(bytes > 0);
    }
  }
}

TEST_CASE("AllGather.EveryTypePlaceAndAlignmentGivesEqualBits") {
  for (const ncclDataType_t type : {ncclBfloat16, ncclFloat16, ncclFloat32}) {
    std::vector<std::uint64_t> hashes;
    for (const bool place : {true, false}) {
      for (const std::size_t misalignment : {std::size_t{0}, std::size_t{1}}) {
        GatherJob job{.count = 4099,
                      .type = type,
                      .buffers = 1,
                      .steps = 25,
                      .in_place = place,
                      .misalignment = misalignment};
        job.environment = {{"SDP4BIT_WEIGHT_TYPES", "bf16,fp16,fp32"}};
        const GatherResult result = run(job);
        require_agreement(job, result);
        require_compressed(result, all_but_learning(job));
        if (hashes.empty()) hashes = result.hashes[0];
        CHECK(hashes == result.hashes[0]);
      }
    }
  }
}

TEST_CASE("AllGather.LongShardsGoInChunks") {
  for (const char* ledger : {"node", "full"}) {
    GatherJob job{.count = 20001, .steps = 30};
    job.environment = {{"SDP4BIT_WORKSPACE", "64K"}, {"SDP4BIT_WEIGHT_LEDGER", ledger}};
    const GatherResult result = run(job);
    require_agreement(job, result);
    require_compressed(result, all_but_learning(job));
  }
}

TEST_CASE("AllGather.ReloadedWeightsCostOneNativeRound") {
  GatherJob job{.buffers = 1, .recovery = 5};
  job.before = [](int, int step, Disturbance& buffers) {
    if (step == 40) buffers.reload(0);
  };
  const GatherResult result = run(job);
  require_agreement(job, result);
  require_compressed(result, all_but_learning(job) - 1);
}

TEST_CASE("AllGather.ALedgerThatOneRankCannotHoldMakesTheClassNativeEverywhereSaidOnce") {
  GatherJob job{.buffers = 1, .steps = 40};
  job.before = [](int rank, int step, Disturbance& buffers) {
    if (rank == 2 && step == static_cast<int>(kBeforeHandshake) + 4) buffers.fail_next_allocation();
  };
  const GatherResult result = run(job);
  require_agreement(job, result);
  require_compressed(result, 0);
  for (const std::string& log : result.logs) CHECK(occurrences(log, "stays with NCCL") == 1);
  CHECK(occurrences(result.logs[2], "this rank has no room") == 1);
}

TEST_CASE("AllGather.ALedgerBeyondItsBoundIsNotAskedFor") {
  GatherJob job{.count = 3000, .buffers = 1, .steps = 40};
  job.environment = {{"SDP4BIT_WEIGHT_MEMORY", "11K"}};  // two entries of 6000 bytes are more
  const GatherResult result = run(job);
  require_agreement(job, result);
  require_compressed(result, 0);
}

TEST_CASE("AllGather.AWorkspaceThatHoldsNoChunkIsSaidOnce") {
  GatherJob job{.count = 30011, .buffers = 1, .steps = 14};
  job.environment = {{"SDP4BIT_WORKSPACE", "4K"}};
  const GatherResult result = run(job);
  require_agreement(job, result);
  require_compressed(result, 0);
  for (const auto& log : result.logs) CHECK(occurrences(log, "is too small for AllGathers of") == 1);
}

TEST_CASE("AllGather.FreshTemporariesAndRotatingPoolsStayNative") {
  GatherJob fresh{.buffers = 1, .steps = 60, .fresh = true};
  const GatherResult temporaries = run(fresh);
  require_agreement(fresh, temporaries);
  require_compressed(temporaries, 0);

  GatherJob pool{.buffers = 3, .steps = 30, .pool = true};
  const GatherResult rotating = run(pool);
  require_agreement(pool, rotating);
  require_compressed(rotating, 0);
}

TEST_CASE("AllGather.UnchangedDataGetsThere") {
  GatherJob job{.buffers = 1, .steps = 30, .still = true};
  const GatherResult result = run(job);
  require_agreement(job, result);
  require_compressed(result, all_but_learning(job));
}

TEST_CASE("AllGather.SeveralGathersInOneGroupHaveOneKind") {
  GatherJob job{.buffers = 3, .steps = 40, .grouped = true};
  const GatherResult result = run(job);
  require_agreement(job, result);
  require_compressed(result,
                     40 * 3 - 3 - 33);  // see the exams of groups of three: 33 is the first at or after 32
}

TEST_CASE("AllGather.StreamsMayTakeTurns") {
  for (const bool grouped : {false, true}) {
    GatherJob job{.steps = 40, .grouped = grouped, .two_streams = true};
    const GatherResult result = run(job);
    require_agreement(job, result);
    CHECK(result.calls[0].compressed > 20);
  }
}

TEST_CASE("AllGather.RefreshesOnTime") {
  GatherJob job{.steps = 61};
  job.environment = {{"SDP4BIT_WEIGHT_REFRESH", "10"}};
  const GatherResult result = run(job);
  require_agreement(job, result);
  const std::uint64_t differences_and_refreshes = all_but_learning(job);
  require_compressed(result, differences_and_refreshes - (differences_and_refreshes - 1) / 20 * 2);
}

TEST_CASE("AllGather.AVoteSendsReplacedWeightsNativeAtOnce") {
  for (const char* workspace : {"64M", "64K"}) {
    GatherJob job{.count = 20001, .buffers = 2, .steps = 40};
    job.environment = {{"SDP4BIT_WEIGHT_VOTE", "1"}, {"SDP4BIT_WORKSPACE", workspace}};
    job.before = [](int, int step, Disturbance& buffers) {
      if (step == 30 || step == 31 || step == 33) buffers.reload(1);  // within the bound at the very call
    };
    const GatherResult result = run(job);
    require_agreement(job, result);
    require_compressed(result, all_but_learning(job));
    CHECK(occurrences(result.logs[0], "one round native") == 0);
  }
}

TEST_CASE("AllGather.TenThousandStepsOfAWalkStayEqual", "[.slow]") {
  const GatherJob job{.nodes = 2,
                      .local_ranks = 1,
                      .count = 129,
                      .buffers = 1,
                      .steps = 10'000,
                      .environment = {{"SDP4BIT_WEIGHT_REFRESH", "0"}}};
  const GatherResult result = run(job);
  require_agreement(job, result);
  require_compressed(result, all_but_learning(job));
}

TEST_CASE("AllGather.ThreeHundredStepsAsAtTheStart", "[.slow]") {
  for (const auto& [nodes, local] : {std::pair{2, 2}, {4, 1}, {2, 3}, {3, 2}}) {
    const GatherJob job{.nodes = nodes, .local_ranks = local, .count = 10007, .steps = 300};
    const GatherResult result = run(job);
    require_agreement(job, result);
    require_compressed(result, all_but_learning(job));
  }
}
