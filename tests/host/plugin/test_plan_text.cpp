// The first line of the log promises what will happen, and nothing else.
#include <vector>

#include "catch.h"
#include "plugin/plan_text.h"

namespace sdp4bit {
namespace {

std::string plan(const std::vector<std::uint64_t>& hosts, const Config& config = {},
                 bool gradients_native = false) {
  return plan_text(make_topology(hosts, 0, 0), config, gradients_native);
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

}  // namespace
}  // namespace sdp4bit
