// Which ranks share a node.
//
// A rank's node is its host's: NCCL_HOSTID, else host name and boot id. SANDBOX_NODES divides the devices of
// a host further, so that the ranks of one process can belong to several nodes:
//   SANDBOX_NODES=2           the process's devices in 2 equal blocks, the first ones on node 0
//   SANDBOX_NODES=3,1         devices 0 to 2 on node 0, device 3 on node 1
//   SANDBOX_NODES=map:0,1,0   the node of each device
// Devices beyond a list belong to its last node. Nodes are numbered by their lowest rank.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sandbox::nccl {

class Topology {
 public:
  Topology() = default;
  explicit Topology(const std::vector<uint64_t>& hosts);  // by rank

  [[nodiscard]] int ranks() const { return static_cast<int>(node_of_.size()); }
  [[nodiscard]] int nodes() const { return static_cast<int>(members_.size()); }
  [[nodiscard]] int node_of(int rank) const { return node_of_[static_cast<size_t>(rank)]; }
  [[nodiscard]] int local_rank(int rank) const { return local_[static_cast<size_t>(rank)]; }
  [[nodiscard]] const std::vector<int>& members(int node) const {
    return members_[static_cast<size_t>(node)];
  }
  // The rank of `node` through which data of `rank` enters or leaves it: the one with the same place if there
  // is one.
  [[nodiscard]] int partner(int rank, int node) const;

 private:
  std::vector<int> node_of_;
  std::vector<int> local_;
  std::vector<std::vector<int>> members_;
};

// The node of a device from the text of SANDBOX_NODES. Throws Failure on text that means nothing.
[[nodiscard]] int node_of_device(const std::string& nodes, int device, int devices);
// A number that is equal for the ranks of one node.
[[nodiscard]] uint64_t host_of_device(int device, int devices);

}  // namespace sandbox::nccl
