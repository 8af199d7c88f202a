// The first line of the log promises what will happen, and nothing else.
#include <vector>

#include "catch.h"
#include "plugin/plan_text.h"
#include "plugin/presets.h"

namespace sdp4bit {
namespace {

/// The plan's head, without what names the codecs.
std::string plan(const std::vector<std::uint64_t>& hosts, const Config& config = {},
                 bool gradients_native = false) {
  const std::string text = plan_text(make_topology(hosts, 0, 0), config, gradients_native);
  return text.substr(0, text.find("; preset"));
}

/// What names the codecs.
std::string codecs(const std::vector<std::uint64_t>& hosts, const Config& config = {},
                   bool gradients_native = false) {
  const std::string text = plan_text(make_topology(hosts, 0, 0), config, gradients_native);
  const std::size_t begin = text.find("; preset");
  return begin == std::string::npos ? "" : text.substr(begin + 2);
}

Config paper() {
  Config config;
  apply_preset(Preset::paper, config);
  return config;
}

const std::vector<std::uint64_t> kTwoByTwo{1, 1, 2, 2};

TEST_CASE("PlanText.SaysTheBitsOfBothLevels") {
  CHECK(plan(kTwoByTwo) == "gradients 4 bits between nodes, 8 in a node; weight differences 4 bits");
  CHECK(plan(kTwoByTwo, {.codec_inter{.bits = 8}, .codec_intra{.bits = 4}, .codec_weight{.bits = 8}}) ==
        "gradients 8 bits between nodes, 4 in a node; weight differences 8 bits");
  CHECK(plan({1, 2, 3}) == "gradients 4 bits between nodes; weight differences 4 bits");
}

TEST_CASE("PlanText.PromisesNothingOfAFunctionThatIsNotTaken") {
  CHECK(plan(kTwoByTwo, {.collectives{.all_gather = false}}) ==
        "gradients 4 bits between nodes, 8 in a node; weights native (SDP4BIT_COLLECTIVES)");
  CHECK(plan(kTwoByTwo, {.collectives{.reduce_scatter = false}}) ==
        "gradients native (SDP4BIT_COLLECTIVES); weight differences 4 bits");
}

TEST_CASE("PlanText.SaysWhyGradientsOfDeepSpeedStayNative") {
  CHECK(plan(kTwoByTwo, {}, true) ==
        "gradients native (DeepSpeed was found, and ZeRO-3 pads them with garbage; SDP4BIT_RS_PADDED=1 takes "
        "them); weight differences 4 bits");
}

TEST_CASE("PlanText.PromisesNoDifferencesWithoutALedger") {
  CHECK(plan(kTwoByTwo, {.weight_ledger = WeightLedger::off}) ==
        "gradients 4 bits between nodes, 8 in a node; weights native (SDP4BIT_WEIGHT_LEDGER=off)");
  CHECK(plan({1, 1, 1, 2}) ==
        "gradients 4 bits between all ranks (nodes differ in size); weights native (nodes differ in size; "
        "SDP4BIT_WEIGHT_LEDGER=full would take them)");
  CHECK(
      plan({1, 1}) ==
      "gradients 8 bits in the node; weights native (one node; SDP4BIT_WEIGHT_LEDGER=full would take them)");
  CHECK(plan({1, 1}, {.weight_ledger = WeightLedger::full}) ==
        "gradients 8 bits in the node; weight differences 4 bits");
}

TEST_CASE("PlanText.NamesStatelessWeights") {
  CHECK(
      plan(kTwoByTwo, {.weight_direct = 8}) ==
      "gradients 4 bits between nodes, 8 in a node; weight differences 4 bits, other weights 8 bits without "
      "memory");
  CHECK(plan({1, 1, 1, 2}, {.weight_direct = 8}) ==
        "gradients 4 bits between all ranks (nodes differ in size); weights 8 bits without memory");
}

TEST_CASE("PlanText.NamesThePresetAndTheCodecsInForce") {
  CHECK(codecs(kTwoByTwo) ==
        "preset default: dither4 between nodes, int8-sr in a node, groups of 64; compand4, groups of 1024; "
        "bf16 "
        "scales");
  CHECK(codecs(kTwoByTwo, paper()) ==
        "preset paper: int4-sr between nodes, int8-sr in a node, groups of 128; int4, groups of 2048; fp32 "
        "scales");
  Config config = paper();
  config.scale = ScaleType::bfloat16;
  CHECK(codecs({1, 2}, config) ==
        "preset paper, changed: int4-sr, groups of 128; int4, groups of 2048; bf16 scales");
}

TEST_CASE("PlanText.NamesOnlyCodecsThatHaveWork") {
  CHECK(codecs({1, 1}) == "preset default: int8-sr, groups of 64; bf16 scales");
  CHECK(codecs({1, 1, 1, 2}) == "preset default: dither4, groups of 64; bf16 scales");
  CHECK(codecs(kTwoByTwo, {}, true) == "preset default: compand4, groups of 1024; bf16 scales");
  CHECK(codecs({1, 1}, {.collectives{.reduce_scatter = false}}) == "");
  CHECK(codecs({1, 1, 1, 2}, {.collectives{.reduce_scatter = false}, .weight_direct = 8}) ==
        "preset default: int8 without memory, groups of 128; bf16 scales");
  CHECK(codecs({1, 1, 1, 2}, {.collectives{.reduce_scatter = false}, .weight_direct = 4}) ==
        "preset default: int4 without memory, groups of 1024; bf16 scales");
}

}  // namespace
}  // namespace sdp4bit
