// Which calls are taken: by function, type, size and number, exactly where the variables say.
#include "catch.h"
#include "cluster.h"

namespace sdp4bit::test {
namespace {

constexpr int kSteps = 14;
constexpr std::size_t kGradients = 1000, kWeights = 2000;  // fp32 and bf16: 8000 bytes over two ranks, both

struct Compressed {
  std::uint64_t gradients, weights;
};

/// A gradient and a weight at each step, with these variables on both ranks; what was compressed.
Compressed train(const Environment& variables) {
  Environment environment{{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}};
  environment.insert(environment.end(), variables.begin(), variables.end());
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = environment}, [](RankContext& rank) {
        const DeviceBytes gradients(Bytes(kGradients * 4 * 2)), sum(Bytes(kGradients * 4)),
            weights(Bytes(kWeights * 2 * 2));
        for (int step = 0; step < kSteps; ++step) {
          check(ncclReduceScatter(gradients.data(), sum.data(), kGradients, ncclFloat32, ncclSum, rank.comm,
                                  rank.stream));
          check(ncclAllGather(weights.data() + static_cast<std::size_t>(rank.rank) * kWeights * 2,
                              weights.data(), kWeights, ncclBfloat16, rank.comm, rank.stream));
          check(cudaStreamSynchronize(rank.stream));
        }
        rank.result = {static_cast<std::byte>(calls_of("reduce_scatter").compressed),
                       static_cast<std::byte>(calls_of("all_gather").compressed)};
      });
  REQUIRE(failures(outcomes) == "");
  CHECK(outcomes[0].result == outcomes[1].result);
  return {std::to_integer<std::uint64_t>(outcomes[0].result[0]),
          std::to_integer<std::uint64_t>(outcomes[0].result[1])};
}

// Two gradients go before the call that reads the agreement, which is a weight; weights then learn for 8
// calls.
constexpr std::uint64_t kAllGradients = kSteps - 2, kAllWeights = kSteps - 1 - 8;

void require_compressed(const Environment& variables, const Compressed& expected) {
  std::string text;
  for (const auto& [name, value] : variables) text += name + "=" + value + " ";
  CAPTURE(text);
  const Compressed got = train(variables);
  CHECK(got.gradients == expected.gradients);
  CHECK(got.weights == expected.weights);
}

TEST_CASE("Selection.OneFunctionOnly") {
  require_compressed({}, {kAllGradients, kAllWeights});
  require_compressed({{"SDP4BIT_COLLECTIVES", "reduce_scatter"}}, {kAllGradients, 0});
  require_compressed({{"SDP4BIT_COLLECTIVES", "all_gather"}}, {0, kAllWeights});
}

TEST_CASE("Selection.SomeTypesOnly") {
  require_compressed({{"SDP4BIT_GRAD_TYPES", "bf16,fp16"}}, {0, kAllWeights});
  require_compressed({{"SDP4BIT_WEIGHT_TYPES", "fp16,fp32"}}, {kAllGradients, 0});
}

TEST_CASE("Selection.CallsOfTheLeastSizeAreTaken") {
  require_compressed({{"SDP4BIT_MIN_BYTES", "8000"}}, {kAllGradients, kAllWeights});
  require_compressed({{"SDP4BIT_MIN_BYTES", "8001"}}, {0, 0});
}

TEST_CASE("Selection.TheFirstCallsOfACommunicatorStayNative") {
  // Gradients are the calls with even numbers, weights those with odd ones.
  require_compressed({{"SDP4BIT_START_CALL", "6"}}, {kSteps - 3, kSteps - 3 - 8});
  require_compressed({{"SDP4BIT_START_CALL", "7"}}, {kSteps - 4, kSteps - 3 - 8});
}

TEST_CASE("Selection.NoLedgerNoDifferences") {
  require_compressed({{"SDP4BIT_WEIGHT_LEDGER", "off"}}, {kAllGradients, 0});
  require_compressed({{"SDP4BIT_ENABLE", "0"}}, {0, 0});
}

}  // namespace
}  // namespace sdp4bit::test
