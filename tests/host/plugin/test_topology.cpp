// Nodes from host hashes.
#include <vector>

#include "catch.h"
#include "plugin/topology.h"

namespace sdp4bit {
namespace {

TEST_CASE("Topology.NodesAreNumberedByTheirLowestRank") {
  const std::vector<std::uint64_t> hosts{70, 5, 70, 5, 9, 9};
  const Topology topology = make_topology(hosts, 3, 0);
  CHECK(topology.node_count == 3);
  CHECK(topology.equal_nodes);
  CHECK(topology.two_levels());
  CHECK(topology.node_of == std::vector<std::uint32_t>{0, 1, 0, 1, 2, 2});
  CHECK(topology.node == 1);
  CHECK(topology.local_rank == 1);
  CHECK(topology.rank_at(0, 1) == 2);
  CHECK(topology.rank_at(2, 0) == 4);
}

TEST_CASE("Topology.UnequalNodesHaveOneLevel") {
  const std::vector<std::uint64_t> hosts{1, 1, 1, 2};
  const Topology topology = make_topology(hosts, 0, 0);
  CHECK(topology.node_count == 2);
  CHECK_FALSE(topology.equal_nodes);
  CHECK_FALSE(topology.two_levels());
}

TEST_CASE("Topology.LocalSizeOverridesTheHosts") {
  const std::vector<std::uint64_t> hosts(6, 1);
  const Topology topology = make_topology(hosts, 5, 2);
  CHECK(topology.node_count == 3);
  CHECK(topology.local_size == 2);
  CHECK(topology.node == 2);
  CHECK_FALSE(make_topology(hosts, 5, 4).equal_nodes);
}

TEST_CASE("Topology.EveryRankSeesTheSameNodes") {
  const std::vector<std::uint64_t> hosts{3, 1, 3, 1, 3, 1, 2, 2, 2};
  for (std::uint32_t rank = 0; rank < hosts.size(); ++rank) {
    const Topology topology = make_topology(hosts, rank, 0);
    CHECK(topology.members == make_topology(hosts, 0, 0).members);
    CHECK(topology.rank_at(topology.node, topology.local_rank) == rank);
  }
}

}  // namespace
}  // namespace sdp4bit
