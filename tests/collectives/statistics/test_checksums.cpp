// SDP4BIT_CHECKSUM: off it launches nothing and sends nothing; on it changes no result and no size, and
// counts what it verified.
#include <algorithm>
#include <cstring>

#include "catch.h"
#include "sandbox/cudart/extension.h"
#include "statistics.h"

namespace sdp4bit::test {
namespace {

constexpr std::size_t kCount = 3000;

/// Of one ReduceScatter and one AllGather, both compressed.
struct Cost {
  std::uint64_t launches_of_checksums, all_launches, bytes, verified, failed;
  std::uint64_t hash_of_results;
};

Cost cost_of(RankContext& rank) {
  const auto ranks = static_cast<std::size_t>(rank.ranks), me = static_cast<std::size_t>(rank.rank);
  Bytes gradients(kCount * 4 * ranks), shards(kCount * 2 * ranks);
  for (std::size_t i = 0; i < gradients.size(); ++i)
    gradients[i] = static_cast<std::byte>(i % 4 == 3 ? 0x3f : i * 7 + me);
  for (std::size_t i = 0; i < shards.size(); ++i)
    shards[i] = static_cast<std::byte>(i % 2 == 1 ? 0x3f : i * 5);
  const DeviceBytes input(gradients), sum(kCount * 4), weights(shards);
  const auto both = [&] {
    check(ncclReduceScatter(input.data(), sum.data(), kCount, ncclFloat32, ncclSum, rank.comm, rank.stream));
    check(ncclAllGather(weights.data() + me * kCount * 2, weights.data(), kCount, ncclBfloat16, rank.comm,
                        rank.stream));
    check(cudaStreamSynchronize(rank.stream));
  };
  for (int i = 0; i < 14; ++i) both();
  const std::uint64_t compressed = calls_of("all_gather").compressed;
  expect(compressed > 0, "weights are compressed");
  sandboxResetKernelCounters();
  sandboxNcclResetTraffic();
  both();
  expect(calls_of("all_gather").compressed == compressed + 1, "the measured gather is compressed");

  Cost cost{};
  std::vector<sandboxKernelCounters> counters(512);
  counters.resize(std::min(counters.size(), sandboxGetKernelCounters(counters.data(), counters.size())));
  for (const sandboxKernelCounters& kernel : counters) {
    cost.all_launches += kernel.launches;
    for (const char* const name : {"seal_kernel", "verify_kernel", "fill_damaged_kernel"}) {
      if (std::strstr(kernel.kernel, name)) cost.launches_of_checksums += kernel.launches;
    }
  }
  cost.bytes = traffic().bytes_in_node + traffic().bytes_between_nodes;
  for (const char* const function : {"reduce_scatter", "all_gather"}) {
    cost.verified += statistics(rank.comm, function).checksums_verified;
    cost.failed += statistics(rank.comm, function).checksums_failed;
  }
  for (const Bytes& result : {sum.read(), weights.read()}) {
    for (const std::byte byte : result)
      cost.hash_of_results = cost.hash_of_results * 31 + std::to_integer<unsigned>(byte);
  }
  return cost;
}

std::vector<Cost> costs(const std::vector<int>& node_of, const char* checksum, const char* ledger) {
  const auto outcomes = run_cluster({.node_of = node_of,
                                     .environment = {{"SDP4BIT_COMMS", "all"},
                                                     {"SDP4BIT_MIN_BYTES", "0"},
                                                     {"SDP4BIT_WEIGHT_LEDGER", ledger},
                                                     {"SDP4BIT_CHECKSUM", checksum}}},
                                    [](RankContext& rank) {
                                      const Cost cost = cost_of(rank);
                                      rank.result.resize(sizeof cost);
                                      std::memcpy(rank.result.data(), &cost, sizeof cost);
                                    });
  REQUIRE(failures(outcomes) == "");
  std::vector<Cost> all;
  for (const Outcome& outcome : outcomes) {
    all.emplace_back();
    std::memcpy(&all.back(), outcome.result.data(), sizeof(Cost));
  }
  return all;
}

}  // namespace

TEST_CASE("Checksums.OffTheyCostNothingAndOnTheyChangeNothingButLaunches") {
  struct Shape {
    std::vector<int> node_of;
    const char* ledger;
    std::uint64_t launches;  // a seal and a verification for each exchange
  };
  for (const Shape& shape : {Shape{even_nodes(2, 2), "node", 4 + 4}, Shape{{0, 0, 1}, "full", 2 + 2}}) {
    const std::vector<Cost> off = costs(shape.node_of, "0", shape.ledger),
                            on = costs(shape.node_of, "1", shape.ledger);
    for (std::size_t rank = 0; rank < off.size(); ++rank) {
      CAPTURE(rank);
      CHECK(off[rank].launches_of_checksums == 0);
      CHECK(off[rank].verified == 0);
      CHECK(on[rank].launches_of_checksums == shape.launches);
      CHECK(on[rank].all_launches == off[rank].all_launches + shape.launches);
      CHECK(on[rank].bytes == off[rank].bytes);
      CHECK(on[rank].hash_of_results == off[rank].hash_of_results);
      CHECK(on[rank].verified > 0);
      CHECK(on[rank].failed == 0);
    }
  }
}

}  // namespace sdp4bit::test
