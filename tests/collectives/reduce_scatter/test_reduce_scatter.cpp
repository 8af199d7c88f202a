// ReduceScatter on every shape of cluster gives exactly what the reference gives, on every rank.
#include <cstring>

#include "catch.h"
#include "gradient_case.h"

namespace sdp4bit::test {
namespace {

const std::size_t kOddCounts[] = {1, 2, 7, 31, 33, 127, 129, 2047, 2049};
constexpr ElementType kTypes[] = {ElementType::float32, ElementType::float16, ElementType::bfloat16};
constexpr Op kOps[] = {Op::sum, Op::avg, Op::host_scalar, Op::device_scalar};

/// Every type, op and odd count; address and place vary along.
std::vector<GradientCase> odd_cases() {
  std::vector<GradientCase> cases;
  std::uint32_t number = 0;
  for (const ElementType type : kTypes) {
    for (const Op op : kOps) {
      for (const std::size_t count : kOddCounts) {
        cases.push_back({.type = type,
                         .op = op,
                         .count = count,
                         .shift = number % 3 == 1 ? 1u : 0u,
                         .in_place = number % 2 == 1,
                         .seed = number});
        ++number;
      }
    }
  }
  return cases;
}

const Environment kAll{{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}};

/// Runs the cases on the cluster, one after the other, and compares every output.
void compare(const std::vector<int>& node_of, const std::vector<GradientCase>& cases,
             Environment environment = kAll) {
  const auto outcomes =
      run_cluster({.node_of = node_of, .environment = std::move(environment)}, [&](RankContext& rank) {
        engage(rank);
        for (const GradientCase& gradient : cases) {
          const Bytes output = run_gradient(rank, gradient);
          rank.result.insert(rank.result.end(), output.begin(), output.end());
        }
        const CallCounts calls = calls_of("reduce_scatter");
        expect(
            calls.compressed == cases.size(),
            std::to_string(calls.compressed) + " calls were compressed, not " + std::to_string(cases.size()));
      });
  REQUIRE(failures(outcomes) == "");
  std::size_t offset = 0;
  for (std::size_t number = 0; number < cases.size(); ++number) {
    const std::vector<Bytes> expected = expected_outputs(cases[number], node_of, number);
    const std::size_t bytes = expected[0].size();
    for (std::size_t rank = 0; rank < node_of.size(); ++rank) {
      REQUIRE(outcomes[rank].result.size() >= offset + bytes);
      const bool equal =
          std::memcmp(outcomes[rank].result.data() + offset, expected[rank].data(), bytes) == 0;
      if (!equal) FAIL(describe(cases[number]) << " on rank " << rank << " differs from the reference");
    }
    offset += bytes;
  }
}

TEST_CASE("ReduceScatter.OneLevelBetweenNodesEqualsTheReference", "[4x1]") {
  compare(even_nodes(4, 1), odd_cases());
}
TEST_CASE("ReduceScatter.OneNodeEqualsTheReference", "[1x4]") {
  compare(even_nodes(1, 4), odd_cases());
}
TEST_CASE("ReduceScatter.TwoLevelsEqualTheReference", "[2x2]") {
  compare(even_nodes(2, 2), odd_cases());
}
TEST_CASE("ReduceScatter.TwoNodesOfThreeEqualTheReference", "[2x3]") {
  compare(even_nodes(2, 3), odd_cases());
}
TEST_CASE("ReduceScatter.ThreeNodesOfTwoEqualTheReference", "[3x2]") {
  compare(even_nodes(3, 2), odd_cases());
}
TEST_CASE("ReduceScatter.UnequalNodesGoOnOneLevel", "[3+1]") {
  compare({0, 0, 0, 1}, odd_cases());
}

TEST_CASE("ReduceScatter.BuffersMayLieAtAnyByte", "[odd]") {
  std::vector<GradientCase> cases;
  for (const ElementType type : kTypes) {
    for (const std::size_t odd : {1u, 3u}) {
      for (const bool in_place : {false, true}) {
        cases.push_back({.type = type, .count = 2049, .in_place = in_place, .odd = odd});
        cases.push_back(
            {.type = type, .op = Op::device_scalar, .count = 31, .in_place = in_place, .odd = odd});
      }
    }
  }
  compare(even_nodes(2, 2), cases);
  compare(even_nodes(2, 1), cases);
}

TEST_CASE("ReduceScatter.AMillionAndThreeElements", "[large]") {
  compare(even_nodes(2, 2), {{.type = ElementType::bfloat16, .op = Op::avg, .count = 1000003},
                             {.type = ElementType::float32, .count = 1000003, .shift = 1, .in_place = true}});
}

TEST_CASE("ReduceScatter.ChunksGiveTheBitsOfOneCall", "[chunks]") {
  Environment environment = kAll;
  environment.emplace_back("SDP4BIT_WORKSPACE", "32K");
  const std::vector<GradientCase> cases{
      {.type = ElementType::bfloat16, .count = 20001, .shift = 1},
      {.type = ElementType::float32, .op = Op::avg, .count = 4096, .in_place = true},
      {.type = ElementType::float16, .op = Op::host_scalar, .count = 9999}};
  SECTION("on one level") {
    compare(even_nodes(4, 1), cases, environment);
  }
  SECTION("on two levels") {
    compare(even_nodes(2, 2), cases, environment);
  }
}

TEST_CASE("ReduceScatter.OneRankIsNcclsBusiness", "[1x1]") {
  const auto outcomes = run_cluster({.node_of = {0}, .environment = kAll}, [](RankContext& rank) {
    for (int i = 0; i < 5; ++i) {
      const GradientCase gradient{.count = 129, .in_place = i % 2 == 1};
      expect(run_gradient(rank, gradient) == input_of(gradient, 0, 1), "the sum over one rank is its input");
    }
    expect(calls_of("reduce_scatter").compressed == 0, "one rank: nothing to compress");
  });
  CHECK(failures(outcomes) == "");
}

}  // namespace
}  // namespace sdp4bit::test
