// What the best NCCL would put on the links, in shards: the measure that compressed calls are compared with.
#pragma once

#include <cstdint>

#include "plugin/policy.h"
#include "plugin/stats.h"
#include "plugin/topology.h"

namespace sdp4bit {

/// Shards that one rank sends.
struct NativeShards {
  std::uint64_t in_node = 0;
  std::uint64_t between_nodes = 0;
  [[nodiscard]] LinkBytes of(std::uint64_t shard_bytes) const {
    return {in_node * shard_bytes, between_nodes * shard_bytes};
  }
};

/// Hierarchical, the least possible. A shard crosses once to each other node, to the rank with the owner's
/// place there (modulo the node's size), which passes it on; a ReduceScatter goes the same way backwards,
/// summed in each node first.
[[nodiscard]] NativeShards native_shards(Collective collective, const Topology& topology);

}  // namespace sdp4bit
