// Working plans out, and finding those of sizes that come again.
#include "plugin/gradient_plan.h"

#include <algorithm>

namespace sdp4bit {

GradientWay gradient_way(const Topology& topology, const Config& config) {
  GradientWay way{.path = gradient_path(topology),
                  .first_peers = first_peers(topology),
                  .first_codec = first_codec(topology, config),
                  .second_codec = config.inter_codec()};
  way.local_peers = static_cast<std::uint32_t>(topology.members[topology.node].size()) - 1;
  if (way.two_levels()) {
    way.first_segments = topology.node_count;
    way.second_peers = topology.node_count - 1;
  }
  return way;
}

GradientPlan gradient_plan(std::size_t count, const Topology& topology, const Config& config) {
  GradientPlan plan;
  plan.count = count;
  plan.chunk_length = gradient_chunk_length(count, topology, config);
  if (plan.chunk_length == 0) return plan;
  const GradientWay way = gradient_way(topology, config);
  plan.chunks = (count + plan.chunk_length - 1) / plan.chunk_length;
  plan.full_chunk = gradient_layout(plan.chunk_length, topology, config);
  for (std::size_t begin = 0; begin < count; begin += plan.chunk_length) {
    const std::size_t length = std::min(plan.chunk_length, count - begin);
    plan.sent.in_node += way.local_peers * way.first_bytes(length);
    plan.sent.between_nodes += (way.first_peers - way.local_peers) * way.first_bytes(length) +
                               way.second_peers * way.second_bytes(length);
  }
  return plan;
}

const GradientPlan& GradientPlans::find(std::size_t count, const Topology& topology, const Config& config) {
  const auto known = std::find_if(plans_.begin(), plans_.end(),
                                  [&](const GradientPlan& plan) { return plan.count == count; });
  last_ = static_cast<std::size_t>(known - plans_.begin());
  if (known != plans_.end()) return *known;
  const GradientPlan plan = gradient_plan(count, topology, config);
  if (plans_.size() < kMost) return plans_.emplace_back(plan);
  last_ = replaced_++ % kMost;
  return plans_[last_] = plan;
}

}  // namespace sdp4bit
