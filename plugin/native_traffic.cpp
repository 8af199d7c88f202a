// Counting shards by owner and place; see native_traffic.h.
#include "plugin/native_traffic.h"

namespace sdp4bit {

NativeShards native_shards(Collective collective, const Topology& topology) {
  NativeShards shards;
  const std::uint64_t local_size = topology.members[topology.node].size();
  for (std::uint32_t node = 0; node < topology.node_count; ++node) {
    const auto& members = topology.members[node];
    for (std::uint32_t place = 0; place < members.size(); ++place) {
      const bool mine = members[place] == topology.rank;
      const bool in_my_hands = place % local_size == topology.local_rank;  // of other nodes' shards
      if (collective == Collective::all_gather) {
        if (mine || (node != topology.node && in_my_hands)) shards.in_node += local_size - 1;
        if (mine) shards.between_nodes += topology.node_count - 1;
      } else if (node == topology.node) {
        if (!mine) ++shards.in_node;
      } else {
        ++(in_my_hands ? shards.between_nodes : shards.in_node);
      }
    }
  }
  return shards;
}

}  // namespace sdp4bit
