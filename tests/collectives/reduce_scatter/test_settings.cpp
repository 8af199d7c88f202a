// Every value of the variables of gradients, end to end: the bits of the reference, within the bound that
// follows.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "catch.h"
#include "gradient_case.h"

namespace sdp4bit::test {
namespace {

struct Setting {
  Environment environment = {};
  Wire wire = {};
  std::vector<int> node_of = even_nodes(2, 2);
  std::vector<int> hosts = {};  // where the variables make other nodes of them
};

std::string describe(const Setting& setting) {
  std::string text = std::to_string(setting.node_of.size()) + " ranks";
  for (const auto& [name, value] : setting.environment) text += " " + name + "=" + value;
  return text;
}

std::vector<GradientCase> some_cases() {
  return {{.type = ElementType::bfloat16, .op = Op::avg, .count = 3001, .shift = 1},
          {.type = ElementType::float32, .op = Op::device_scalar, .count = 9000, .in_place = true},
          {.type = ElementType::float16, .op = Op::sum, .count = 127}};
}

std::vector<GradientCase> all_types_and_operations() {
  std::vector<GradientCase> cases;
  for (const ElementType type : {ElementType::bfloat16, ElementType::float16, ElementType::float32}) {
    for (const Op op : {Op::sum, Op::avg, Op::host_scalar, Op::device_scalar}) {
      cases.push_back({.type = type, .op = op, .count = 2049});
    }
  }
  return cases;
}

void require_within_bound(const GradientCase& gradient, const Setting& setting, int rank,
                          const Bytes& output) {
  const std::vector<double> exact = exact_output(gradient, rank, static_cast<int>(setting.node_of.size()));
  const std::vector<double> allowed = largest_errors(gradient, setting.node_of, rank, setting.wire);
  const std::vector<float> got = to_floats(gradient.type, output);
  double largest = 0;  // in parts of what is allowed
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - exact[i]) / allowed[i];
    if (!(error <= 1)) FAIL("element " << i << " of rank " << rank << " is beyond its bound: " << error);
    largest = std::max(largest, error);
  }
  CHECK(largest > 0.02);  // a bound that says something
}

void require_as_defined(const Setting& setting, const std::vector<GradientCase>& cases = some_cases()) {
  CAPTURE(describe(setting));
  Environment environment{{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}};
  environment.insert(environment.end(), setting.environment.begin(), setting.environment.end());
  const auto outcomes = run_cluster(
      {.node_of = setting.hosts.empty() ? setting.node_of : setting.hosts, .environment = environment},
      [&](RankContext& rank) {
        engage(rank);
        for (const GradientCase& gradient : cases) {
          const Bytes output = run_gradient(rank, gradient);
          rank.result.insert(rank.result.end(), output.begin(), output.end());
        }
        expect(calls_of("reduce_scatter").compressed == cases.size(), "not all calls were compressed");
      });
  REQUIRE(failures(outcomes) == "");
  std::size_t offset = 0;
  for (std::size_t number = 0; number < cases.size(); ++number) {
    CAPTURE(describe(cases[number]));
    const std::vector<Bytes> expected =
        expected_outputs(cases[number], setting.node_of, number, setting.wire);
    for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
      const Bytes& result = outcomes[rank].result;
      const std::size_t bytes = expected[rank].size();
      REQUIRE(result.size() >= offset + bytes);
      REQUIRE(std::memcmp(result.data() + offset, expected[rank].data(), bytes) == 0);
      require_within_bound(cases[number], setting, static_cast<int>(rank), expected[rank]);
    }
    offset += expected[0].size();
  }
}

/// As the preset of the paper, but for what both levels share.
Wire alike(const Codec& shared) {
  Wire wire{.in_node = shared, .between_nodes = shared};
  wire.in_node.bits = 8;
  wire.between_nodes.bits = 4;
  return wire;
}

/// Variables that name everything else.
Environment with(const char* inter, const char* intra, Environment others = {}) {
  others.insert(others.end(), {{"SDP4BIT_CODEC_INTER", inter},
                               {"SDP4BIT_CODEC_INTRA", intra},
                               {"SDP4BIT_GRAD_GROUP", "128"},
                               {"SDP4BIT_SCALE", "fp32"}});
  return others;
}

constexpr Codec named(std::uint32_t bits, Coding coding) {
  return {.bits = bits, .group_size = 128, .scale = ScaleType::float32, .coding = coding};
}

const Wire kPaper{.in_node = named(8, Coding::stochastic), .between_nodes = named(4, Coding::stochastic)};

TEST_CASE("GradientSettings.EveryTypeAndOperationIsWithinTheBoundOfItsScales") {
  require_as_defined({}, all_types_and_operations());
}

TEST_CASE("GradientSettings.ThePresetOfThePaperIsThePapersCodec") {
  for (const std::vector<int>& shape : {even_nodes(2, 2), even_nodes(3, 1), even_nodes(1, 3)})
    require_as_defined({.environment = {{"SDP4BIT_PRESET", "paper"}}, .wire = kPaper, .node_of = shape});
  require_as_defined({.environment = {{"SDP4BIT_PRESET", "paper"}}, .wire = kPaper},
                     all_types_and_operations());
}

TEST_CASE("GradientSettings.EveryCodecOnEachLevel") {
  using enum Coding;
  require_as_defined({.environment = with("int4-rn", "int4-sr"),
                      .wire = {.in_node = named(4, stochastic), .between_nodes = named(4, nearest)}});
  require_as_defined({.environment = with("int8-sr", "int8-rn"),
                      .wire = {.in_node = named(8, nearest), .between_nodes = named(8, stochastic)}});
  require_as_defined({.environment = with("int8-rn", "int4-rn"),
                      .wire = {.in_node = named(4, nearest), .between_nodes = named(8, nearest)}});
  require_as_defined({.environment = with("dither4", "dither8"),
                      .wire = {.in_node = named(8, dithered), .between_nodes = named(4, dithered)}});
}

TEST_CASE("GradientSettings.ReceiversDrawTheNoiseOfTheirSendersInEveryChunk") {
  for (const std::vector<int>& shape : {even_nodes(2, 2), even_nodes(4, 1), {0, 0, 0, 1}}) {
    require_as_defined(
        {.environment = with("dither4", "dither4", {{"SDP4BIT_WORKSPACE", "12K"}}),
         .wire = {.in_node = named(4, Coding::dithered), .between_nodes = named(4, Coding::dithered)},
         .node_of = shape},
        {{.type = ElementType::float32, .count = 20001, .shift = 1},
         {.type = ElementType::bfloat16, .op = Op::avg, .count = 9999}});
  }
}

TEST_CASE("GradientSettings.GroupsScalesAndTransform") {
  require_as_defined(
      {.environment = {{"SDP4BIT_PRESET", "paper"}, {"SDP4BIT_GRAD_GROUP", "32"}, {"SDP4BIT_SCALE", "bf16"}},
       .wire = alike({.group_size = 32, .scale = ScaleType::bfloat16})});
  require_as_defined({.environment = {{"SDP4BIT_PRESET", "paper"},
                                      {"SDP4BIT_GRAD_GROUP", "8192"},
                                      {"SDP4BIT_HADAMARD", "0"}},
                      .wire = alike({.group_size = 8192, .hadamard = false})});
  require_as_defined(
      {.environment = {{"SDP4BIT_PRESET", "paper"}, {"SDP4BIT_SCALE", "bf16"}, {"SDP4BIT_HADAMARD", "0"}},
       .wire = alike({.scale = ScaleType::bfloat16, .hadamard = false})});
}

TEST_CASE("GradientSettings.EverySeedGivesTheBitsThatTheReferenceDraws") {
  for (const std::uint64_t seed : {std::uint64_t{0}, std::uint64_t{1234567}, ~std::uint64_t{0}}) {
    require_as_defined({.environment = {{"SDP4BIT_SEED", std::to_string(seed)}}, .wire = {.seed = seed}});
  }
}

TEST_CASE("GradientSettings.ASmallWorkspaceMakesManyChunks") {
  require_as_defined({.environment = {{"SDP4BIT_WORKSPACE", "12K"}}},
                     {{.type = ElementType::float32, .count = 20001, .shift = 1},
                      {.type = ElementType::bfloat16, .op = Op::avg, .count = 9999}});
}

TEST_CASE("GradientSettings.LocalSizeOverrulesTheHosts") {
  require_as_defined({.environment = {{"SDP4BIT_LOCAL_SIZE", "2"}}, .hosts = {0, 0, 0, 0}});
  require_as_defined(
      {.environment = {{"SDP4BIT_LOCAL_SIZE", "1"}}, .node_of = even_nodes(4, 1), .hosts = {0, 0, 1, 1}});
}

TEST_CASE("GradientSettings.EveryGroupSize", "[.slow]") {
  for (const std::uint32_t group : {32u, 64u, 128u, 256u, 512u, 1024u, 2048u, 4096u, 8192u}) {
    for (const ScaleType scale : {ScaleType::float32, ScaleType::bfloat16}) {
      for (const bool hadamard : {true, false}) {
        require_as_defined({.environment = {{"SDP4BIT_PRESET", "paper"},
                                            {"SDP4BIT_GRAD_GROUP", std::to_string(group)},
                                            {"SDP4BIT_SCALE", scale == ScaleType::bfloat16 ? "bf16" : "fp32"},
                                            {"SDP4BIT_HADAMARD", hadamard ? "32" : "0"}},
                            .wire = alike({.group_size = group, .scale = scale, .hadamard = hadamard})},
                           all_types_and_operations());
      }
    }
  }
}

TEST_CASE("GradientSettings.EveryPairOfCodecsOnEveryShape", "[.slow]") {
  const std::pair<const char*, Codec> codecs[] = {
      {"int4-sr", named(4, Coding::stochastic)}, {"int4-rn", named(4, Coding::nearest)},
      {"int8-sr", named(8, Coding::stochastic)}, {"int8-rn", named(8, Coding::nearest)},
      {"dither4", named(4, Coding::dithered)},   {"dither8", named(8, Coding::dithered)}};
  const std::vector<std::vector<int>> shapes{
      even_nodes(2, 2), even_nodes(4, 1), even_nodes(1, 4), {0, 0, 0, 1}};
  for (const auto& [inter, between_nodes] : codecs) {
    for (const auto& [intra, in_node] : codecs) {
      for (const std::vector<int>& shape : shapes) {
        require_as_defined({.environment = with(inter, intra),
                            .wire = {.in_node = in_node, .between_nodes = between_nodes},
                            .node_of = shape});
      }
    }
  }
}

}  // namespace
}  // namespace sdp4bit::test
