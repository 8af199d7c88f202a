// Bytes that the library says it sent are those that the cluster counted; so are those that NCCL would have
// sent.
#include <cmath>

#include "catch.h"
#include "gradient_case.h"
#include "kernels/element.h"
#include "statistics.h"

namespace sdp4bit::test {
namespace {

const Environment kAll{{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}};
constexpr std::size_t kCount = 5003;
const GradientCase kGradient{.type = ElementType::bfloat16, .count = kCount};
const std::vector<std::vector<int>> kShapes{{0, 0, 1, 1}, {0, 1, 2},          {0, 0, 0},
                                            {0, 0, 0, 1}, {0, 0, 1, 1, 2, 2}, {0, 1, 0, 1}};

/// Weights that stay: a class that gets to differences soon.
void gather(const RankContext& rank, const DeviceBytes& buffer) {
  std::byte* const own = buffer.data() + static_cast<std::size_t>(rank.rank) * kCount * 2;
  check(ncclAllGather(own, buffer.data(), kCount, ncclBfloat16, rank.comm, rank.stream));
  check(cudaStreamSynchronize(rank.stream));
}

DeviceBytes weights(const RankContext& rank) {
  Bytes content(static_cast<std::size_t>(rank.ranks) * kCount * 2);
  for (std::size_t i = 0; i < content.size() / 2; ++i) {
    const BFloat16 value = from_float<BFloat16>(std::sin(static_cast<float>(i)));
    content[2 * i] = static_cast<std::byte>(value.bits & 0xff);
    content[2 * i + 1] = static_cast<std::byte>(value.bits >> 8);
  }
  return DeviceBytes(content);
}

std::string text_of(const std::vector<int>& node_of) {
  std::string text;
  for (const int node : node_of) text += std::to_string(node);
  return text;
}

struct Bytes2 {
  std::uint64_t in_node, between_nodes;
};

/// What the cluster counts on each rank where every call goes to NCCL.
std::vector<Bytes2> native_traffic(const std::vector<int>& node_of, bool gradient) {
  Environment off = kAll;
  off.emplace_back("SDP4BIT_ENABLE", "0");
  const auto outcomes = run_cluster({.node_of = node_of, .environment = off}, [&](RankContext& rank) {
    const DeviceBytes buffer = weights(rank);
    for (int i = 0; i < 4; ++i) gather(rank, buffer);
    sandboxNcclResetTraffic();
    gradient ? void(run_gradient(rank, kGradient)) : gather(rank, buffer);
    const sandboxNcclTraffic total = traffic();
    const Bytes2 bytes{total.bytes_in_node, total.bytes_between_nodes};
    const auto* first = reinterpret_cast<const std::byte*>(&bytes);
    rank.result.assign(first, first + sizeof bytes);
  });
  REQUIRE(failures(outcomes) == "");
  std::vector<Bytes2> all;
  for (const Outcome& outcome : outcomes)
    all.push_back(*reinterpret_cast<const Bytes2*>(outcome.result.data()));
  return all;
}

}  // namespace

TEST_CASE("Statistics.BytesOfGradientsAreThoseThatTheClusterCounts", "[J7][K2][K10]") {
  for (const std::vector<int>& node_of : kShapes) {
    for (const char* workspace : {"64M", "8K"}) {
      Environment environment = kAll;
      environment.emplace_back("SDP4BIT_WORKSPACE", workspace);
      const auto outcomes =
          run_cluster({.node_of = node_of, .environment = environment}, [&](RankContext& rank) {
            engage(rank);
            (void)run_gradient(rank, kGradient);  // also connects
            const sdp4bitStatistics before = statistics(rank.comm, "reduce_scatter");
            sandboxNcclResetTraffic();
            for (int i = 0; i < 3; ++i) (void)run_gradient(rank, kGradient);
            const sdp4bitStatistics after = statistics(rank.comm, "reduce_scatter");
            const sandboxNcclTraffic total = traffic();
            expect_equal(after.compressed_calls - before.compressed_calls, 3, "calls");
            expect_equal(after.sent_bytes_in_node - before.sent_bytes_in_node, total.bytes_in_node,
                         "in node");
            expect_equal(after.sent_bytes_between_nodes - before.sent_bytes_between_nodes,
                         total.bytes_between_nodes, "between nodes");
            const std::uint64_t buffer = kCount * 2 * static_cast<std::uint64_t>(rank.ranks);
            expect_equal(after.bytes_given - before.bytes_given, 3 * buffer, "given");
            expect_equal(after.elements - before.elements, 3 * buffer / 2, "elements");
            // Every operation of this rank is a send or a receive, and there are as many of each.
            expect_equal(2 * (after.sends - before.sends), total.operations, "sends");
          });
      INFO("nodes " << text_of(node_of) << " workspace " << workspace);
      REQUIRE(failures(outcomes) == "");
    }
  }
}

TEST_CASE("Statistics.NativeBytesAreThoseThatTheClusterCountsForNccl") {
  for (const std::vector<int>& node_of : kShapes) {
    for (const bool gradient : {true, false}) {
      const std::vector<Bytes2> native = native_traffic(node_of, gradient);
      Environment environment = kAll;
      environment.emplace_back("SDP4BIT_WEIGHT_LEDGER", "full");  // taken on every shape
      const auto outcomes =
          run_cluster({.node_of = node_of, .environment = environment}, [&](RankContext& rank) {
            const DeviceBytes buffer = weights(rank);
            const char* const function = gradient ? "reduce_scatter" : "all_gather";
            for (int i = 0; i < 16; ++i) gather(rank, buffer);
            const sdp4bitStatistics before = statistics(rank.comm, function);
            gradient ? void(run_gradient(rank, kGradient)) : gather(rank, buffer);
            const sdp4bitStatistics after = statistics(rank.comm, function);
            const Bytes2& wanted = native[static_cast<std::size_t>(rank.rank)];
            expect_equal(after.compressed_calls - before.compressed_calls, 1, function);
            expect_equal(after.native_bytes_in_node - before.native_bytes_in_node, wanted.in_node, "in node");
            expect_equal(after.native_bytes_between_nodes - before.native_bytes_between_nodes,
                         wanted.between_nodes, "between nodes");
          });
      INFO("nodes " << text_of(node_of) << (gradient ? " ReduceScatter" : " AllGather"));
      REQUIRE(failures(outcomes) == "");
    }
  }
}

TEST_CASE("Statistics.BytesOfWeightsAreThoseThatTheClusterCounts") {
  struct Way {
    std::vector<int> node_of;
    const char* ledger;
    const char* workspace;
  };
  const std::vector<Way> ways{{{0, 0, 1, 1}, "node", "64M"}, {{0, 0, 1, 1}, "node", "64K"},
                              {{0, 1, 2}, "node", "64M"},    {{0, 0, 1, 1}, "full", "64M"},
                              {{0, 0, 0, 1}, "full", "64M"}, {{0, 0, 1, 1}, "full", "32K"}};
  for (const Way& way : ways) {
    Environment environment = kAll;
    environment.emplace_back("SDP4BIT_WEIGHT_LEDGER", way.ledger);
    environment.emplace_back("SDP4BIT_WORKSPACE", way.workspace);
    const auto outcomes =
        run_cluster({.node_of = way.node_of, .environment = environment}, [&](RankContext& rank) {
          const DeviceBytes buffer = weights(rank);
          for (int i = 0; i < 16; ++i) gather(rank, buffer);
          const sdp4bitStatistics before = statistics(rank.comm, "all_gather");
          sandboxNcclResetTraffic();
          for (int i = 0; i < 3; ++i) gather(rank, buffer);
          const sdp4bitStatistics after = statistics(rank.comm, "all_gather");
          const sandboxNcclTraffic total = traffic();
          expect_equal(after.compressed_calls - before.compressed_calls, 3, "calls");
          expect_equal(after.sent_bytes_in_node - before.sent_bytes_in_node, total.bytes_in_node, "in node");
          expect_equal(after.sent_bytes_between_nodes - before.sent_bytes_between_nodes,
                       total.bytes_between_nodes, "between nodes");
          expect_equal(2 * (after.sends - before.sends) + after.gathers - before.gathers, total.operations,
                       "operations");
          expect(after.ledger_bytes > 0 && after.sample_bytes > 0 && after.record_bytes > 0,
                 "memory is counted");
          expect(why(rank.comm, "all_gather") == "compressed", why(rank.comm, "all_gather"));
        });
    INFO("nodes " << text_of(way.node_of) << " ledger " << way.ledger << " workspace " << way.workspace);
    REQUIRE(failures(outcomes) == "");
  }
}

}  // namespace sdp4bit::test
