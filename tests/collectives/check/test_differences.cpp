// Ranks that call differently: each of them gets an error in time, and one line with the call, the field, the
// ranks and both values.
#include <chrono>
#include <thread>

#include "catch.h"
#include "checked_calls.h"

namespace sdp4bit::test {
namespace {

using Clock = std::chrono::steady_clock;

/// After four calls that are alike, the last of which reads the agreement, the call numbered 5, or a group,
/// is made as each rank is told.
struct Difference {
  std::vector<Made> usual, odd;
  int odd_rank = 1;
  std::string said;
};

void require_named(const Difference& difference, const Environment& more = {}) {
  CAPTURE(difference.said);
  Environment environment = kChecked;
  environment.insert(environment.end(), more.begin(), more.end());
  const auto outcomes = run_cluster(
      {.node_of = even_nodes(2, 2), .environment = environment, .timeout_seconds = 40},
      [&](RankContext& rank) {
        const Caller caller(rank, 409600);
        engage(rank);
        check(caller.make({}));
        const auto start = Clock::now();
        const auto& calls = rank.rank == difference.odd_rank ? difference.odd : difference.usual;
        const ncclResult_t result = calls.size() == 1 ? caller.make(calls.front()) : caller.make_group(calls);
        expect(result == ncclInvalidUsage, "an error of usage");
        expect(Clock::now() - start < std::chrono::seconds(10), "in ten seconds");
        check(cudaStreamSynchronize(rank.stream));  // nothing of the call is under way
        check(ncclCommAbort(rank.comm));
        rank.comm = nullptr;
      });
  REQUIRE(failures(outcomes) == "");
  for (const Outcome& outcome : outcomes) {
    INFO(outcome.log);
    CHECK(occurrences(outcome.log, "ranks call differently") == 1);
    CHECK(occurrences(outcome.log, difference.said) == 1);
  }
}

// H7, H8, H4
TEST_CASE("Check.ACountThatDiffersIsNamedOnAllRanks") {
  require_named({.usual = {{.count = 409598}},
                 .odd = {{.count = 409600}},
                 .odd_rank = 0,
                 .said = "call 5 of the communicator, ReduceScatter of 409598 fp32 on ranks 1, 2, 3: count "
                         "is 409600 on rank 0 "
                         "and 409598 on ranks 1, 2, 3"});
  require_named({.usual = {{.function = Function::all_gather, .count = 1000}},
                 .odd = {{.function = Function::all_gather, .count = 0}},
                 .said = "count is 0 on rank 1 and 1000 on ranks 0, 2, 3"});
}

TEST_CASE("Check.ATypeAnOperationAndAFunctionThatDifferAreNamed") {
  require_named({.usual = {{}},
                 .odd = {{.type = ncclBfloat16}},
                 .odd_rank = 2,
                 .said = "the type is bf16 on rank 2 and fp32 on ranks 0, 1, 3"});
  require_named({.usual = {{}},
                 .odd = {{.op = ncclMax}},
                 .odd_rank = 3,
                 .said = "the operation is max on rank 3 and sum on ranks 0, 1, 2"});
  require_named({.usual = {{}},
                 .odd = {{.function = Function::all_gather}},
                 .said = "the function is AllGather on rank 1 and ReduceScatter on ranks 0, 2, 3"});
}

TEST_CASE("Check.CallsThatStayNativeAreComparedToo") {
  require_named({.usual = {{.type = ncclInt32}},
                 .odd = {{.type = ncclInt64}},
                 .said = "the type is int64 on rank 1 and int32 on ranks 0, 2, 3"},
                {{"SDP4BIT_ENABLE", "0"}});
}

TEST_CASE("Check.AnOrderSwappedInsideAGroupIsNamed") {
  const Made gradient, weight{.function = Function::all_gather};
  require_named(
      {.usual = {gradient, weight},
       .odd = {weight, gradient},
       .said = "call 5 of the communicator, ReduceScatter of 4096 fp32 on ranks 0, 2, 3: the function is "
               "AllGather on rank 1"});
  require_named({.usual = {gradient, weight, gradient},
                 .odd = {gradient, gradient, weight},
                 .said = "call 6 of the communicator, AllGather of 4096 fp32 on ranks 0, 2, 3"});
}

TEST_CASE("Check.GroupsThatEndElsewhereAreNamed") {
  const Made gradient;
  require_named({.usual = {gradient, gradient},
                 .odd = {gradient},
                 .said = "the number of calls in its group is 1 on rank 1 and 2 on ranks 0, 2, 3"});
}

TEST_CASE("Check.ARankThatMakesNoCallIsNamedByTheWatchdog") {
  Environment environment = kChecked;
  environment.emplace_back("SDP4BIT_WATCHDOG", "1");
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = environment}, [](RankContext& rank) {
        const Caller caller(rank);
        engage(rank);
        for (int call = 4; call < 6; ++call) check(caller.make({}));
        check(cudaStreamSynchronize(rank.stream));
        if (rank.rank == 1) std::this_thread::sleep_for(std::chrono::seconds(4));
        check(caller.make({}));
      });
  REQUIRE(failures(outcomes) == "");
  INFO(outcomes[0].log);
  CHECK(occurrences(outcomes[0].log,
                    "at call 6: the vote of SDP4BIT_CHECK=1 before a call: some rank has not "
                    "come to this call") == 1);
}

}  // namespace
}  // namespace sdp4bit::test
