// SDP4BIT_MIN_BYTES=auto: from the size that it stands for on, calls send fewer bytes than NCCL would.
#include <cstdio>
#include <vector>

#include "catch.h"
#include "plugin/break_even.h"
#include "plugin/gradient_layout.h"
#include "plugin/native_traffic.h"
#include "plugin/weight_layout.h"

namespace sdp4bit {
namespace {

struct Nodes {
  std::uint32_t nodes, local;
};
constexpr Nodes kNodes[] = {{2, 1}, {3, 1}, {4, 1}, {16, 1}, {128, 1}, {2, 2},  {2, 4},
                            {2, 8}, {4, 4}, {4, 8}, {16, 8}, {64, 8},  {512, 8}};
constexpr ElementType kTypes[] = {ElementType::float32, ElementType::float16, ElementType::bfloat16};

/// Ranks of each node, as the first rank sees them.
Topology topology_of(const std::vector<std::uint32_t>& sizes) {
  std::vector<std::uint64_t> hosts;
  for (std::size_t node = 0; node < sizes.size(); ++node) hosts.insert(hosts.end(), sizes[node], node + 1);
  return make_topology(hosts, 0, 0);
}
Topology topology_of(const Nodes& nodes) {
  return topology_of(std::vector<std::uint32_t>(nodes.nodes, nodes.local));
}

/// Elements of a shard of the smallest call that is taken.
std::size_t first_count(std::uint64_t least, const Topology& topology, ElementType type) {
  const std::uint64_t row = topology.ranks * element_bytes(type);
  return static_cast<std::size_t>((least + row - 1) / row);
}

/// What a rank sends in a call of one chunk, by the layouts that the calls themselves use.
LinkBytes sent_gradients(std::size_t count, const Topology& topology, const Config& config) {
  const GradientLayout layout = gradient_layout(count, topology, config);
  const std::uint64_t local_peers = topology.local_size - 1;
  if (topology.two_levels())
    return {local_peers * layout.first_stride, (topology.node_count - 1) * layout.second_stride};
  if (topology.node_count == 1) return {local_peers * layout.first_stride, 0};
  return {0, (topology.ranks - 1) * layout.first_stride};
}
LinkBytes sent_weights(std::size_t count, ElementType type, const Topology& topology, const Config& config) {
  const WeightLayout layout =
      weight_layout(count, type, weight_path(topology, config), config.weight_codec(), topology);
  if (weight_path(topology, config) == WeightPath::full)
    return native_shards(Collective::all_gather, topology).of(layout.message_stride);
  return {(topology.local_size - 1) * layout.staged_stride,
          (topology.node_count - 1) * layout.message_stride};
}

/// In all, and between the nodes. In the node weights travel as with NCCL, so what they save is saved in all.
void check_fewer(const LinkBytes& sent, const LinkBytes& native) {
  CHECK(sent.between_nodes < native.between_nodes);
  CHECK(sent.in_node + sent.between_nodes < native.in_node + native.between_nodes);
}

/// Codecs and scales that an option may ask for.
std::vector<Config> configs() {
  std::vector<Config> all(5);
  all[1].gradient_group = all[1].weight_group = 32;
  all[2].scale = ScaleType::bfloat16;
  all[2].gradient_group = 64;
  all[3].codec_inter.bits = 8;
  all[4].weight_ledger = WeightLedger::full;
  return all;
}

void check_threshold(const Topology& topology, const Config& config, ElementType type) {
  CAPTURE(topology.node_count, topology.local_size, static_cast<int>(type));
  // Also behind it: padding must not make a larger call lose what a smaller one gains.
  const std::uint64_t gradients = break_even_bytes(Collective::reduce_scatter, type, topology, config);
  if (gradients != kNeverPays) {
    const std::size_t first = first_count(gradients, topology, type);
    for (std::size_t count = first; count < first + 70; ++count) {
      check_fewer(sent_gradients(count, topology, config),
                  native_shards(Collective::reduce_scatter, topology).of(count * element_bytes(type)));
    }
  }
  const std::uint64_t weights = break_even_bytes(Collective::all_gather, type, topology, config);
  if (weights == kNeverPays) return;
  const std::size_t first = first_count(weights, topology, type);
  for (std::size_t count = first; count < first + 70; ++count) {
    check_fewer(sent_weights(count, type, topology, config),
                native_shards(Collective::all_gather, topology).of(count * element_bytes(type)));
  }
}

std::string size_text(std::uint64_t bytes) {
  if (bytes == kNeverPays) return "never";
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", static_cast<double>(bytes) / (1 << 20));
  return text;
}

TEST_CASE("BreakEven.FromTheThresholdOnFewerBytesAreSent") {
  for (const Nodes& nodes : kNodes) {
    const Topology topology = topology_of(nodes);
    for (const Config& config : configs()) {
      for (const ElementType type : kTypes) check_threshold(topology, config, type);
    }
  }
}

TEST_CASE("BreakEven.WithTheDefaultsAllTopologiesPayFromSomeMegabytesOn") {
  std::printf("| nodes x ranks | gradients fp32 | gradients bf16 | weights bf16 |\n|---|---|---|---|\n");
  for (const Nodes& nodes : kNodes) {
    const Topology topology = topology_of(nodes);
    std::printf("| %u x %u |", nodes.nodes, nodes.local);
    for (const auto& [collective, type] : {std::pair{Collective::reduce_scatter, ElementType::float32},
                                           std::pair{Collective::reduce_scatter, ElementType::bfloat16},
                                           std::pair{Collective::all_gather, ElementType::bfloat16}}) {
      const std::uint64_t bytes = break_even_bytes(collective, type, topology, Config{});
      std::printf(" %s |", size_text(bytes).c_str());
      CHECK(bytes >= 256 << 10);
      CHECK(bytes / topology.ranks < 1 << 20);  // one MiB for each rank is always enough
    }
    std::printf("\n");
  }
}

// The reason why one size for all is wrong.
TEST_CASE("BreakEven.AMegabyteOfFourThousandRanksWouldSendMoreThanNccl") {
  const Topology topology = topology_of(Nodes{4096, 1});
  const std::size_t count = (1 << 20) / 4096 / 2;
  Config fine;
  fine.gradient_group = 32;
  const LinkBytes sent = sent_gradients(count, topology, fine);
  const LinkBytes native = native_shards(Collective::reduce_scatter, topology).of(count * 2);
  CHECK(sent.between_nodes > native.between_nodes / 2);  // little is left of what coding saves
  CHECK(break_even_bytes(Collective::reduce_scatter, ElementType::bfloat16, topology, fine) > 1 << 20);
}

TEST_CASE("BreakEven.IsTheSameOnEveryRank") {
  const std::vector<std::uint64_t> hosts{1, 1, 2, 2, 3, 3};
  const auto first = least_bytes(make_topology(hosts, 0, 0), Config{});
  for (std::uint32_t rank = 1; rank < hosts.size(); ++rank)
    CHECK(least_bytes(make_topology(hosts, rank, 0), Config{}).bytes == first.bytes);
}

TEST_CASE("BreakEven.NodesOfDifferentSizeArePassedOnWhereOneLevelSavesNothing") {
  const auto of = [](const std::vector<std::uint32_t>& sizes) {
    return break_even_bytes(Collective::reduce_scatter, ElementType::float32, topology_of(sizes), Config{});
  };
  CHECK(of({2, 1}) < 4 << 20);
  CHECK(of({8, 8, 7}) == kNeverPays);  // each rank's sums would travel alone: 8 times 0.13 of the bytes
}

TEST_CASE("BreakEven.ANumberIsTaken") {
  Config config;
  config.min_bytes = {.automatic = false, .bytes = 4321};
  const LeastBytes least = least_bytes(topology_of(Nodes{2, 2}), config);
  for (const ElementType type : kTypes) CHECK(least.of(Collective::all_gather, type) == 4321);
}

}  // namespace
}  // namespace sdp4bit
