// Every value of the variables of weights, end to end: equal bits on all ranks, within the bound that
// follows.
#include "gather_checks.h"

using namespace sdp4bit::test;

namespace {

/// Runs the job with these variables; all calls are compressed but the first ones and those of learning.
void require_as_promised(GatherJob job, const Environment& environment,
                         std::uint64_t before = kBeforeHandshake) {
  std::string text;
  for (const auto& [name, value] : environment) text += name + "=" + value + " ";
  CAPTURE(text);
  job.environment = environment;
  job.buffers = 1;
  const GatherResult result = run(job);
  require_agreement(job, result);
  require_compressed(result, all_but_learning(job, before));
}

/// Fresh buffers, which no ledger takes; returns what the first rank sent to the last one in a step.
std::uint64_t require_direct(GatherJob job, const char* bits, double levels, std::size_t group,
                             const char* weight_group) {
  job.environment = {{"SDP4BIT_WEIGHT_LEDGER", "off"},
                     {"SDP4BIT_WEIGHT_DIRECT", bits},
                     {"SDP4BIT_WEIGHT_GROUP", weight_group},
                     {"SDP4BIT_SCALE", "fp32"}};
  job.buffers = 1;
  job.steps = 12;
  job.fresh = true;
  job.group = group;
  job.bound = 0.5 / levels;
  const GatherResult result = run(job);
  require_agreement(job, result);
  require_compressed(result, 12 - kBeforeHandshake);
  return result.last_step.front().back();
}

}  // namespace

TEST_CASE("GatherSettings.CodecsGroupsAndScales") {
  require_as_promised({.steps = 18}, {});
  require_as_promised(
      {.steps = 18, .group = 1024, .levels = 127, .narrow_scales = true},
      {{"SDP4BIT_WEIGHT_GROUP", "1024"}, {"SDP4BIT_SCALE", "bf16"}, {"SDP4BIT_CODEC_WEIGHT", "int8"}});
  require_as_promised(
      {.steps = 18, .group = 32, .levels = 7, .narrow_scales = true},
      {{"SDP4BIT_WEIGHT_GROUP", "32"}, {"SDP4BIT_SCALE", "bf16"}, {"SDP4BIT_CODEC_WEIGHT", "int4"}});
  require_as_promised(
      {.count = 9001, .type = ncclFloat16, .steps = 18, .group = 8192, .levels = 127, .narrow_scales = false},
      {{"SDP4BIT_WEIGHT_GROUP", "8192"}, {"SDP4BIT_SCALE", "fp32"}, {"SDP4BIT_CODEC_WEIGHT", "int8"}});
  require_as_promised(
      {.steps = 18, .group = 64, .levels = kCompandLevels, .narrow_scales = false},
      {{"SDP4BIT_WEIGHT_GROUP", "64"}, {"SDP4BIT_SCALE", "fp32"}, {"SDP4BIT_CODEC_WEIGHT", "compand4"}});
}

TEST_CASE("GatherSettings.ThePresetOfThePaperIsThePapersCodec") {
  for (const int local_ranks : {1, 2}) {
    require_as_promised(
        {.local_ranks = local_ranks, .steps = 18, .group = 2048, .levels = 7, .narrow_scales = false},
        {{"SDP4BIT_PRESET", "paper"}});
  }
}

TEST_CASE("GatherSettings.FullLedgersTakeThemToo") {
  require_as_promised({.steps = 18, .group = 64, .levels = 127, .narrow_scales = true},
                      {{"SDP4BIT_WEIGHT_LEDGER", "full"},
                       {"SDP4BIT_WEIGHT_GROUP", "64"},
                       {"SDP4BIT_SCALE", "bf16"},
                       {"SDP4BIT_CODEC_WEIGHT", "int8"}});
}

TEST_CASE("GatherSettings.AnExactOwnerKeepsItsWeights") {
  for (const char* ledger : {"node", "full"}) {
    for (const bool in_place : {true, false}) {
      require_as_promised({.steps = 20, .in_place = in_place, .owner_is_exact = true},
                          {{"SDP4BIT_OWN_SHARD", "exact"}, {"SDP4BIT_WEIGHT_LEDGER", ledger}});
    }
  }
}

TEST_CASE("GatherSettings.AReplicaIsWhatTheOthersHold") {
  require_as_promised({.steps = 20}, {{"SDP4BIT_OWN_SHARD", "replica"}});
}

TEST_CASE("GatherSettings.DirectCodingTakesWhatTheLedgerDoesNot") {
  const std::uint64_t small_groups = require_direct({.local_ranks = 1}, "8", 127, 128, "32");
  const std::uint64_t large_groups = require_direct({.local_ranks = 1}, "8", 127, 128, "512");
  CHECK(small_groups == large_groups);
  require_direct({.nodes = 1, .local_ranks = 3, .type = ncclFloat16}, "8", 127, 128, "2048");
  require_direct({}, "4", 7, 2048, "2048");
}

TEST_CASE("GatherSettings.DirectCodingInFourBitsHasTheGroupsOfDifferences") {
  // To be compared with them. A scale of 4 bytes for each group of the shard's 3001 elements.
  const std::uint64_t small_groups = require_direct({.local_ranks = 1}, "4", 7, 32, "32");
  const std::uint64_t large_groups = require_direct({.local_ranks = 1}, "4", 7, 512, "512");
  CHECK(small_groups - large_groups >= 4 * (3001 / 32 - 3001 / 512 - 1));
}

TEST_CASE("GatherSettings.DirectCodingWarnsOfFourBits") {
  for (const char* bits : {"4", "8"}) {
    GatherJob job{.nodes = 2, .local_ranks = 1, .count = 64, .buffers = 1, .steps = 5};
    job.environment = {{"SDP4BIT_WEIGHT_LEDGER", "off"}, {"SDP4BIT_WEIGHT_DIRECT", bits}};
    job.bound = 0.5 / 7 * (1 + 0x1p-7);  // scales in bf16 are rounded up
    const GatherResult result = run(job);
    require_agreement(job, result);
    for (const std::string& log : result.logs)
      CHECK(occurrences(log, "SDP4BIT_WEIGHT_DIRECT=4 loses accuracy") == (bits[0] == '4' ? 1 : 0));
  }
}

TEST_CASE("GatherSettings.LocalSizeOverrulesTheHosts") {
  require_as_promised({.nodes = 1, .local_ranks = 4, .steps = 16}, {{"SDP4BIT_LOCAL_SIZE", "2"}});
  require_as_promised({.nodes = 2, .local_ranks = 2, .steps = 16}, {{"SDP4BIT_LOCAL_SIZE", "1"}});
}

TEST_CASE("GatherSettings.FirstCallsStayNativeOnRequest") {
  require_as_promised({.steps = 30}, {{"SDP4BIT_START_CALL", "11"}}, 11);
}

TEST_CASE("GatherSettings.TypesThatAreNotTakenStayNative") {
  for (const auto& [type, taken] : {std::pair{ncclBfloat16, false}, {ncclFloat16, true}}) {
    GatherJob job{.type = type, .buffers = 1, .steps = 16};
    job.environment = {{"SDP4BIT_WEIGHT_TYPES", "fp16"}};
    const GatherResult result = run(job);
    require_agreement(job, result);
    require_compressed(result, taken ? all_but_learning(job) : 0);
  }
}

TEST_CASE("GatherSettings.EveryCombination", "[.slow]") {
  for (const std::size_t group : {32u, 64u, 128u, 256u, 512u, 1024u, 2048u, 4096u, 8192u}) {
    for (const bool narrow : {false, true}) {
      for (const int levels : {7, 127}) {
        for (const char* ledger : {"node", "full"}) {
          require_as_promised({.count = 8200,
                               .steps = 18,
                               .group = group,
                               .levels = static_cast<double>(levels),
                               .narrow_scales = narrow},
                              {{"SDP4BIT_WEIGHT_GROUP", std::to_string(group)},
                               {"SDP4BIT_SCALE", narrow ? "bf16" : "fp32"},
                               {"SDP4BIT_CODEC_WEIGHT", levels == 7 ? "int4" : "int8"},
                               {"SDP4BIT_WEIGHT_LEDGER", ledger},
                               {"SDP4BIT_WORKSPACE", group % 128 != 0 ? "64M"
                                                     : group < 4096   ? "48K"
                                                                      : "96K"}});
        }
      }
    }
  }
}
