// What a failed checksum says: who sent the message, what it was, in which call.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/launch_checksum.h"
#include "plugin/topology.h"

namespace sdp4bit {

/// What was exchanged: tells who sent message number n, and what a failure calls it.
enum class Exchange : std::uint32_t {
  none,
  gradient_first,     // with the node's other ranks, or on one level with all
  gradient_second,    // between the nodes of a column
  difference_column,  // likewise, of weights
  difference_all,     // weights to all ranks
  weights_in_node,    // reconstructed shards
  weights_passed_on,  // ... of a sender whose message reached the rank that passes them on damaged
  weight_record,      // of a native gather
  weight_vote,        // before a difference
  gathered_shard,     // by a native gather, to become a ledger entry
  gradient_health,    // what a rank's gradients look like
};

[[nodiscard]] bool is_gradient(Exchange exchange);
/// For the log, with what to do. Pure.
[[nodiscard]] std::string describe(const ChecksumFailure& failure, const Topology& topology);

}  // namespace sdp4bit
