// Who sends what to whom, where it lies, and how calls are cut: equal on all ranks, complete, within the
// workspace.
#include <algorithm>
#include <numeric>
#include <vector>

#include "catch.h"
#include "plugin/gradient_layout.h"

namespace sdp4bit {
namespace {

Topology topology_of(std::vector<std::uint64_t> hosts, std::uint32_t rank) {
  return make_topology(hosts, rank, 0);
}

const std::vector<std::vector<std::uint64_t>> kClusters{{1, 1, 1, 1},       {1, 2, 3, 4},       {1, 1, 2, 2},
                                                        {1, 2, 1, 2, 1, 2}, {1, 1, 2, 2, 3, 3}, {1, 1, 1, 2}};

TEST_CASE("GradientLayout.PathFollowsFromTheNodes") {
  CHECK(gradient_path(topology_of({1, 1}, 0)) == GradientPath::one_node);
  CHECK(gradient_path(topology_of({1, 2}, 0)) == GradientPath::one_level);
  CHECK(gradient_path(topology_of({1, 1, 2}, 0)) == GradientPath::one_level);
  CHECK(gradient_path(topology_of({1, 1, 2, 2}, 0)) == GradientPath::two_levels);
}

TEST_CASE("GradientLayout.EveryForeignSegmentTravelsOnceOrIsOwnToTheColumn") {
  for (const auto& hosts : kClusters) {
    for (std::uint32_t rank = 0; rank < hosts.size(); ++rank) {
      const Topology topology = topology_of(hosts, rank);
      std::vector<std::uint32_t> all = first_segments(topology);
      const std::vector<std::uint32_t> own = own_column(topology);
      all.insert(all.end(), own.begin(), own.end());
      if (!topology.two_levels()) all.push_back(rank);
      std::sort(all.begin(), all.end());
      std::vector<std::uint32_t> expected(hosts.size());
      std::iota(expected.begin(), expected.end(), 0u);
      CHECK(all == expected);
    }
  }
}

TEST_CASE("GradientLayout.PeersSendToEachOther") {
  for (const auto& hosts : kClusters) {
    for (std::uint32_t rank = 0; rank < hosts.size(); ++rank) {
      const Topology topology = topology_of(hosts, rank);
      for (std::uint32_t message = 0; message < first_peers(topology); ++message) {
        const Topology peer = topology_of(hosts, first_peer(topology, message));
        bool found = false;
        for (std::uint32_t back = 0; back < first_peers(peer); ++back)
          found = found || first_peer(peer, back) == rank;
        CHECK(found);
        CHECK(peer.rank != rank);
      }
    }
  }
}

TEST_CASE("GradientLayout.ChunksFitTheWorkspaceAndTileTheSegment") {
  for (const auto& hosts : kClusters) {
    const Topology topology = topology_of(hosts, 1);
    for (const std::uint64_t workspace : {std::uint64_t{16} << 10, std::uint64_t{1} << 20}) {
      Config config;
      config.workspace = workspace;
      for (const std::size_t count : {1ul, 127ul, 129ul, 100000ul, 1000003ul, (1ul << 32) + 5}) {
        const std::size_t length = gradient_chunk_length(count, topology, config);
        CAPTURE(hosts.size(), workspace, count, length);
        REQUIRE(length > 0);
        CHECK(gradient_layout(length, topology, config).bytes <= workspace);
        if (length < count) CHECK(length % config.gradient_group == 0);
        CHECK(length <= round_up(count, config.gradient_group));
      }
    }
  }
}

TEST_CASE("GradientLayout.AWorkspaceTooSmallForOneGroupGivesNoChunk") {
  Config config;
  config.workspace = 4096;
  config.gradient_group = 128;
  const std::vector<std::uint64_t> hosts{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  CHECK(gradient_chunk_length(1 << 20, make_topology(hosts, 0, 0), config) == 0);
}

TEST_CASE("GradientLayout.AreasDoNotOverlap") {
  const Topology topology = topology_of({1, 1, 2, 2}, 0);
  const GradientLayout layout = gradient_layout(1000, topology, Config{});
  CHECK(layout.first_receive >= layout.first_send + layout.first_stride);
  CHECK(layout.own_partial >= layout.first_receive + layout.first_stride);
  CHECK(layout.second_send >= layout.own_partial + padded_count(1000) * sizeof(float));
  CHECK(layout.second_receive >= layout.second_send + layout.second_stride);
  CHECK(layout.bytes >= layout.second_receive + layout.second_stride);
}

}  // namespace
}  // namespace sdp4bit
