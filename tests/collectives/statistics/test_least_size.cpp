// SDP4BIT_MIN_BYTES=auto on whole runs: from its size on a call sends fewer bytes than NCCL's, below it is
// NCCL's.
#include "catch.h"
#include "gradient_case.h"
#include "plugin/break_even.h"
#include "statistics.h"

namespace sdp4bit::test {
namespace {

Topology topology_of(const std::vector<int>& node_of) {
  std::vector<std::uint64_t> hosts;
  for (const int node : node_of) hosts.push_back(static_cast<std::uint64_t>(node) + 1);
  return make_topology(hosts, 0, 0);
}

struct Sent {
  std::uint64_t between_nodes, in_all;
};

/// What this rank sends in one call.
Sent sent_by(RankContext& rank, const GradientCase& gradient) {
  check(cudaStreamSynchronize(rank.stream));
  sandboxNcclResetTraffic();
  (void)run_gradient(rank, gradient);
  const sandboxNcclTraffic total = traffic();
  return {total.bytes_between_nodes, total.bytes_in_node + total.bytes_between_nodes};
}

}  // namespace

TEST_CASE("Statistics.FromTheLeastSizeOnFewerBytesTravelAndSmallerCallsAreCounted") {
  for (const std::vector<int>& node_of : {std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 1, 2}}) {
    for (const ElementType type : {ElementType::float32, ElementType::bfloat16}) {
      const std::uint64_t least =
          break_even_bytes(Collective::reduce_scatter, type, topology_of(node_of), Config{});
      const std::size_t row = node_of.size() * element_bytes(type);
      const GradientCase first{.type = type, .count = static_cast<std::size_t>((least + row - 1) / row)};
      const GradientCase last_native{.type = type, .count = first.count - 1};
      const auto outcomes = run_cluster(
          {.node_of = node_of, .environment = {{"SDP4BIT_COMMS", "all"}}}, [&](RankContext& rank) {
            engage(rank);
            (void)run_gradient(rank, first);  // connects
            const Sent native = sent_by(rank, last_native);
            expect(why(rank.comm, "reduce_scatter") == "too_small", why(rank.comm, "reduce_scatter"));
            const Sent ours = sent_by(rank, first);
            expect(ours.between_nodes < native.between_nodes, "fewer bytes between nodes");
            expect(ours.in_all < native.in_all, "fewer bytes in all");
            expect(calls_of("reduce_scatter").compressed == 2, "calls of the least size are taken");
          });
      CAPTURE(node_of.size(), static_cast<int>(type), least);
      CHECK(failures(outcomes) == "");
    }
  }
}

TEST_CASE("Statistics.FromTheLeastSizeOnDifferencesSendFewerBytesThanSmallerGathers") {
  constexpr ElementType kType = ElementType::bfloat16;
  for (const std::vector<int>& node_of : {std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 1, 2}}) {
    const std::uint64_t least =
        break_even_bytes(Collective::all_gather, kType, topology_of(node_of), Config{});
    REQUIRE(least != kNeverPays);
    const std::size_t row = node_of.size() * element_bytes(kType);
    const auto first = static_cast<std::size_t>((least + row - 1) / row);
    const auto outcomes =
        run_cluster({.node_of = node_of, .environment = {{"SDP4BIT_COMMS", "all"}}}, [&](RankContext& rank) {
          const DeviceBytes weights(Bytes(first * row));
          const auto gather = [&](std::size_t count) {
            check(ncclAllGather(weights.data() + static_cast<std::size_t>(rank.rank) * count * 2,
                                weights.data(), count, ncclBfloat16, rank.comm, rank.stream));
          };
          const auto sent_by_gather = [&](std::size_t count) {
            check(cudaStreamSynchronize(rank.stream));
            sandboxNcclResetTraffic();
            gather(count);
            check(cudaStreamSynchronize(rank.stream));
            return traffic().bytes_between_nodes;
          };
          for (int call = 0; call < 20; ++call) gather(first);  // learns
          const std::uint64_t before = calls_of("all_gather").compressed;
          const std::uint64_t native = sent_by_gather(first - 1);
          expect(why(rank.comm, "all_gather") == "too_small", why(rank.comm, "all_gather"));
          expect(sent_by_gather(first) < native, "fewer bytes between nodes");
          expect(calls_of("all_gather").compressed == before + 1, "calls of the least size are taken");
        });
    CAPTURE(node_of.size(), least);
    CHECK(failures(outcomes) == "");
  }
}

}  // namespace sdp4bit::test
