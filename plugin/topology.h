// Which ranks share a node: nodes from host hashes, numbered by their lowest rank.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sdp4bit {

/// Equal on all ranks of a communicator, but for the fields that say where this rank is.
struct Topology {
  std::uint32_t ranks = 1;
  std::uint32_t rank = 0;
  std::uint32_t node_count = 1;
  bool equal_nodes = true;                          // every node has local_size ranks
  std::uint32_t local_size = 1;                     // of equal nodes
  std::uint32_t node = 0;                           // this rank's
  std::uint32_t local_rank = 0;                     // its place among its node's ranks, in rank order
  std::vector<std::uint32_t> node_of;               // by rank
  std::vector<std::vector<std::uint32_t>> members;  // by node, in rank order

  [[nodiscard]] std::uint32_t rank_at(std::uint32_t on_node, std::uint32_t local) const {
    return members[on_node][local];
  }
  [[nodiscard]] bool two_levels() const { return equal_nodes && node_count > 1 && local_size > 1; }
};

/// `local_size` > 0 overrides the hosts: ranks [0, local_size) are node 0, and so on.
[[nodiscard]] Topology make_topology(std::span<const std::uint64_t> host_hashes, std::uint32_t rank,
                                     std::uint32_t local_size);

/// What NCCL hashes too: NCCL_HOSTID, else host name and boot id.
[[nodiscard]] std::uint64_t host_hash();
[[nodiscard]] std::string host_name();
[[nodiscard]] std::uint64_t hash_text(std::string_view text);

/// This process's rank in the job and the job's processes, -1 if no launcher says so.
[[nodiscard]] std::int64_t job_rank();
[[nodiscard]] std::int64_t job_size();

}  // namespace sdp4bit
