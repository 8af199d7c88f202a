// Without checksums: whatever stands in the first bytes of any message, every rank gets an error or goes on,
// and no kernel leaves its memory.
#include "catch.h"
#include "damaged_runs.h"

namespace sdp4bit::test {
namespace {

void require_bounded_harm(unsigned runs_of_shape, unsigned seed) {
  std::vector<DamagedRuns> shapes{
      {.name = "two levels", .node_of = even_nodes(2, 2), .environment = {}},
      {.name = "full ledger",
       .node_of = {0, 0, 1},
       .environment = {{"SDP4BIT_WEIGHT_LEDGER", "full"}},
       .out_of_place = true,
       .full_ledger = true},
      {.name = "direct weights",
       .node_of = even_nodes(2, 1),
       .environment = {{"SDP4BIT_WEIGHT_LEDGER", "off"}, {"SDP4BIT_WEIGHT_DIRECT", "8"}}},
  };
  for (DamagedRuns& runs : shapes) {
    INFO(runs.name);
    runs.damage = Damage::random_header;
    runs.sets_entries = false;  // what NCCL gathers has no header
    runs.runs = runs_of_shape;
    runs.seed = seed;
    runs.timeout_seconds = 7200;
    std::vector<Outcome> outcomes;
    const DamageFigures figures = run_damaged(runs, outcomes);
    REQUIRE(failures(outcomes) == "");
    print_figures(runs, figures);
    CHECK(figures.runs == runs_of_shape);
    for (const Outcome& outcome : outcomes) {
      CHECK(outcome.log.find("cudaErrorIllegalAddress") == std::string::npos);
      CHECK(outcome.log.find("cudaErrorMisalignedAddress") == std::string::npos);
    }
  }
}

TEST_CASE("HeaderNoise.EveryRankEndsAndNoKernelLeavesItsMemory") {
  require_bounded_harm(8, 1);
}

TEST_CASE("HeaderNoise.HundredsOfTimes", "[.slow]") {
  require_bounded_harm(200, 2);
}

}  // namespace
}  // namespace sdp4bit::test
