// Plans of gradients: what they say is what layouts say, and a size that comes again has the same one.
#include <algorithm>
#include <vector>

#include "catch.h"
#include "plugin/gradient_plan.h"

namespace sdp4bit {
namespace {

Topology topology_of(std::vector<std::uint64_t> hosts) {
  return make_topology(hosts, 1, 0);
}

/// Message by message, chunk by chunk.
LinkBytes sent_one_by_one(std::size_t count, const Topology& topology, const Config& config) {
  LinkBytes sent;
  const std::size_t length = gradient_chunk_length(count, topology, config);
  for (std::size_t begin = 0; begin < count; begin += length) {
    const GradientLayout layout = gradient_layout(std::min(length, count - begin), topology, config);
    for (std::uint32_t message = 0; message < first_peers(topology); ++message) {
      const bool in_node = topology.node_of[first_peer(topology, message)] == topology.node;
      (in_node ? sent.in_node : sent.between_nodes) += layout.first_stride;
    }
    if (topology.two_levels()) sent.between_nodes += (topology.node_count - 1) * layout.second_stride;
  }
  return sent;
}

TEST_CASE("GradientPlan.SaysWhatEachChunkSends") {
  Config config;
  config.workspace = 64 << 10;
  for (const auto& hosts : {std::vector<std::uint64_t>{1, 1, 1, 1}, {1, 2, 3}, {1, 1, 2, 2}, {1, 1, 1, 2}}) {
    const Topology topology = topology_of(hosts);
    for (const std::size_t count : {1ul, 1000ul, 300001ul}) {
      const GradientPlan plan = gradient_plan(count, topology, config);
      const LinkBytes sent = sent_one_by_one(count, topology, config);
      CAPTURE(hosts.size(), count);
      CHECK(plan.chunk_length == gradient_chunk_length(count, topology, config));
      CHECK((plan.chunks - 1) * plan.chunk_length < count);
      CHECK(plan.chunks * plan.chunk_length >= count);
      CHECK(plan.sent.in_node == sent.in_node);
      CHECK(plan.sent.between_nodes == sent.between_nodes);
    }
  }
}

TEST_CASE("GradientPlan.WhatIsRememberedIsWhatWouldBeWorkedOut") {
  const Topology topology = topology_of({1, 1, 2, 2});
  Config config;
  config.workspace = 64 << 10;
  GradientPlans plans;
  plans.begin();
  // More sizes than are kept, and each again, in several orders.
  for (std::size_t round = 0; round < 4; ++round) {
    for (std::size_t i = 0; i < GradientPlans::kMost + 7; ++i) {
      const std::size_t count = 1 + 977 * (round % 2 ? i : GradientPlans::kMost + 6 - i);
      const GradientPlan expected = gradient_plan(count, topology, config);
      for (int again = 0; again < 2; ++again) {
        const GradientPlan& plan = plans.of(count, topology, config);
        CHECK(plan.count == count);
        CHECK(plan.chunk_length == expected.chunk_length);
        CHECK(plan.chunks == expected.chunks);
        CHECK(plan.full_chunk.bytes == expected.full_chunk.bytes);
        CHECK(plan.sent.between_nodes == expected.sent.between_nodes);
      }
    }
  }
}

TEST_CASE("GradientPlan.AWorkspaceThatHoldsNoChunkGivesNone") {
  Config config;
  config.workspace = 256;
  CHECK(gradient_plan(1 << 20, topology_of({1, 1, 2, 2}), config).chunk_length == 0);
}

}  // namespace
}  // namespace sdp4bit
