// Slots by address, and the pure arithmetic of who holds what and where.
#include "plugin/slot_table.h"

#include <set>

#include "catch.h"
#include "plugin/weight_layout.h"

using namespace sdp4bit;

namespace {

const void* address(std::size_t i) {
  return reinterpret_cast<const void*>(0x1000 * (i + 1));
}

Topology topology_of(std::uint32_t nodes, std::uint32_t local, std::uint32_t rank) {
  std::vector<std::uint64_t> hosts;
  for (std::uint32_t r = 0; r < nodes * local; ++r) hosts.push_back(r / local);
  return make_topology(hosts, rank, 0);
}

}  // namespace

TEST_CASE("A slot belongs to an address until it is the least recently used of a full table") {
  SlotTable table;
  CHECK_FALSE(table.find(address(0), 2).seen);
  CHECK(table.find(address(1), 2).slot == 1);
  CHECK(table.find(address(0), 2).seen);
  const SlotTable::Found third = table.find(address(2), 2);
  CHECK(third.slot == 1);
  CHECK_FALSE(third.seen);
  CHECK(table.find(address(0), 2).slot == 0);
  CHECK_FALSE(table.find(address(1), 2).seen);
  CHECK(table.count() == 2);
}

TEST_CASE("With S agreed, senders number below S") {
  SlotTable table;
  for (std::size_t i = 0; i < 300; ++i)
    CHECK(table.find(address(i), SlotTable::kMost).slot < SlotTable::kMost);
  CHECK(table.count() == SlotTable::kMost);
  for (std::size_t i = 0; i < 300; ++i) CHECK(table.find(address(i), 7).slot < 7);
}

TEST_CASE("Each rank's entries lie with its column, and every other rank gets its shard exactly once") {
  for (const auto& [nodes, local] : {std::pair{2u, 2u}, {4u, 1u}, {2u, 3u}, {3u, 2u}}) {
    for (std::uint32_t rank = 0; rank < nodes * local; ++rank) {
      const Topology topology = topology_of(nodes, local, rank);
      std::multiset<std::uint32_t> got{rank};
      for (const std::uint32_t r : message_senders(WeightPath::node, topology)) got.insert(r);
      for (const std::uint32_t r : staged_senders(WeightPath::node, topology)) got.insert(r);
      CHECK(got.size() == nodes * local);
      for (std::uint32_t r = 0; r < nodes * local; ++r) CHECK(got.count(r) == 1);
      CHECK(weight_holdings(WeightPath::node, topology)[own_place(WeightPath::node, topology)] == rank);
    }
  }
}

TEST_CASE("The node path needs columns; full is taken on request anywhere") {
  Config config;
  CHECK(weight_path(topology_of(2, 2, 0), config) == WeightPath::node);
  CHECK(weight_path(topology_of(1, 4, 0), config) == WeightPath::none);
  CHECK(weight_path(make_topology(std::vector<std::uint64_t>{1, 1, 1, 2}, 0, 0), config) == WeightPath::none);
  config.weight_ledger = WeightLedger::full;
  CHECK(weight_path(topology_of(1, 4, 0), config) == WeightPath::full);
  config.weight_ledger = WeightLedger::off;
  CHECK(weight_path(topology_of(2, 2, 0), config) == WeightPath::none);
}

TEST_CASE("Chunks fit the workspace, cover the shard, and are whole groups but for the last") {
  const Codec codec{.bits = 4, .group_size = 2048, .coding = Coding::nearest, .hadamard = false};
  const Topology topology = topology_of(2, 2, 0);
  for (const std::size_t workspace : {std::size_t{64} << 10, std::size_t{1} << 20, std::size_t{64} << 20}) {
    for (const std::size_t count :
         {std::size_t{1}, std::size_t{4097}, std::size_t{1000003}, (std::size_t{1} << 32) + 8}) {
      const std::size_t length =
          weight_chunk_length(count, ElementType::bfloat16, WeightPath::node, codec, topology, workspace);
      REQUIRE(length > 0);
      CHECK((length == count || length % 2048 == 0));
      CHECK(weight_layout(length, ElementType::bfloat16, WeightPath::node, codec, topology).bytes <=
            workspace);
    }
  }
  CHECK(weight_chunk_length(100000, ElementType::bfloat16, WeightPath::node, codec, topology, 4096) == 0);
}
