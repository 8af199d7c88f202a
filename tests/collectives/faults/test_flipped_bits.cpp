// SDP4BIT_CHECKSUM=1: whatever bit flips on the way, the run ends in an error, and no output is another
// number.
#include "catch.h"
#include "damaged_runs.h"

namespace sdp4bit::test {
namespace {

/// All shapes; each takes another way of the library.
std::vector<DamagedRuns> shapes() {
  std::vector<DamagedRuns> all{
      {.name = "two levels", .node_of = even_nodes(2, 2), .environment = {}},
      {.name = "one node, direct weights",
       .node_of = even_nodes(1, 2),
       .environment = {{"SDP4BIT_WEIGHT_DIRECT", "8"}},
       .sets_entries = false},
      {.name = "one level, full ledger",
       .node_of = {0, 0, 1},
       .environment = {{"SDP4BIT_WEIGHT_LEDGER", "full"}},
       .out_of_place = true,
       .full_ledger = true},
      {.name = "two levels, chunks and graphs",
       .node_of = even_nodes(2, 2),
       .environment = {{"SDP4BIT_WORKSPACE", "8K"}, {"SDP4BIT_OWN_SHARD", "replica"}},
       .replays = true},
      {.name = "columns of one, direct weights",
       .node_of = even_nodes(3, 1),
       .environment = {{"SDP4BIT_WEIGHT_LEDGER", "off"}, {"SDP4BIT_WEIGHT_DIRECT", "8"}},
       .out_of_place = true,
       .sets_entries = false},
      {.name = "gradients looked at", .node_of = even_nodes(2, 1), .environment = {}, .reduces_of_step = 6},
      {.name = "groups",
       .node_of = even_nodes(2, 2),
       .environment = {},
       .reduces_of_step = 2,
       .grouped = true},
      {.name = "votes on weights",
       .node_of = even_nodes(2, 1),
       .environment = {{"SDP4BIT_WEIGHT_VOTE", "1"}}},
      {.name = "checked calls", .node_of = even_nodes(2, 1), .environment = {{"SDP4BIT_CHECK", "1"}}},
  };
  for (DamagedRuns& runs : all) runs.environment.emplace_back("SDP4BIT_CHECKSUM", "1");
  return all;
}

/// How often the log says so.
std::size_t occurrences(const std::vector<Outcome>& outcomes, const std::string& part) {
  std::size_t count = 0;
  for (const Outcome& outcome : outcomes) {
    for (std::size_t at = outcome.log.find(part); at != std::string::npos;
         at = outcome.log.find(part, at + 1))
      ++count;
  }
  return count;
}

void require_detection(DamagedRuns runs) {
  INFO(runs.name);
  std::vector<Outcome> outcomes;
  const DamageFigures figures = run_damaged(runs, outcomes);
  REQUIRE(failures(outcomes) == "");
  print_figures(runs, figures);
  CHECK(figures.runs == runs.runs);
  CHECK(figures.wrong == 0);
  CHECK(figures.not_a_number == 0);
  // Nobody reads what is sent to open connections.
  CHECK(figures.harmless <= figures.hellos);
  CHECK(figures.detected + figures.harmless == figures.runs);
  // Said by the rank that got the damage, and where that passes weights on by those of its node.
  CHECK(occurrences(outcomes, "does not fit its checksum") + occurrences(outcomes, "arrived damaged") >=
        figures.detected);
}

TEST_CASE("FlippedBits.EachEndsInAnErrorAndNeverInAnotherNumber") {
  for (DamagedRuns& runs : shapes()) {
    runs.runs = 20;
    require_detection(runs);
  }
}

TEST_CASE("FlippedBits.ThousandsEndInAnErrorAndNoneInAnotherNumber", "[.slow]") {
  for (DamagedRuns& runs : shapes()) {
    runs.runs = 400;
    runs.seed = 2;
    runs.timeout_seconds = 3600;
    require_detection(runs);
  }
}

}  // namespace
}  // namespace sdp4bit::test
