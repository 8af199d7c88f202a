// Peers, segments, offsets and chunks of a gradient's way.
#include "plugin/gradient_layout.h"

#include <algorithm>

#include "plugin/chunk_length.h"

namespace sdp4bit {

std::uint32_t first_peers(const Topology& topology) {
  return topology.two_levels() ? topology.local_size - 1 : topology.ranks - 1;
}

Codec first_codec(const Topology& topology, const Config& config) {
  return gradient_path(topology) == GradientPath::one_level ? config.inter_codec() : config.intra_codec();
}

/// The rank that sends to us, and that we send to, as the `message`-th of the first exchange.
std::uint32_t first_peer(const Topology& topology, std::uint32_t message) {
  if (!topology.two_levels()) return message + (message >= topology.rank);
  return topology.rank_at(topology.node, message + (message >= topology.local_rank));
}

std::uint32_t second_peer(const Topology& topology, std::uint32_t message) {
  return topology.rank_at(message + (message >= topology.node), topology.local_rank);
}

GradientPath gradient_path(const Topology& topology) {
  if (topology.node_count == 1) return GradientPath::one_node;
  return topology.two_levels() ? GradientPath::two_levels : GradientPath::one_level;
}

namespace {

/// Puts the parts one behind the other.
void place(GradientLayout& layout, const Topology& topology) {
  constexpr std::size_t kAreaAlign = 256;
  layout.bytes = 0;
  const auto area = [&](std::size_t bytes) {
    const std::size_t offset = layout.bytes;
    layout.bytes += round_up(bytes, kAreaAlign);
    return offset;
  };
  layout.first_send = area(layout.first_stride * first_peers(topology));
  layout.first_receive = area(layout.first_stride * first_peers(topology));
  if (!topology.two_levels()) return;
  layout.own_partial = area(layout.partial_bytes);
  layout.second_send = area(layout.second_stride * (topology.node_count - 1));
  layout.second_receive = area(layout.second_stride * (topology.node_count - 1));
}

void add_sizes(GradientLayout& sum, const GradientLayout& chunk) {
  sum.first_stride += chunk.first_stride;
  sum.second_stride += chunk.second_stride;
  sum.partial_bytes += chunk.partial_bytes;
}

}  // namespace

GradientLayout gradient_layout(std::size_t length, const Topology& topology, const Config& config) {
  GradientLayout layout;
  const bool two_levels = topology.two_levels();
  const std::uint32_t segments = two_levels ? topology.node_count : 1;
  layout.first_stride = message_bytes(length, segments, first_codec(topology, config));
  if (two_levels) {
    layout.second_stride = message_bytes(length, 1, config.inter_codec());
    layout.partial_bytes = padded_count(length) * sizeof(float);
  }
  place(layout, topology);
  return layout;
}

void JointGradientLayout::add(const GradientLayout& chunk) {
  add_sizes(total_, chunk);
}

GradientLayout JointGradientLayout::next(const GradientLayout& chunk, const Topology& topology) {
  GradientLayout layout = total_;
  place(layout, topology);
  layout.first_send += placed_.first_stride;
  layout.first_receive += placed_.first_stride;
  layout.own_partial += placed_.partial_bytes;
  layout.second_send += placed_.second_stride;
  layout.second_receive += placed_.second_stride;
  add_sizes(placed_, chunk);
  return layout;
}

std::vector<std::uint32_t> first_segments(const Topology& topology) {
  std::vector<std::uint32_t> segments;
  for (std::uint32_t message = 0; message < first_peers(topology); ++message) {
    const std::uint32_t peer = first_peer(topology, message);
    if (!topology.two_levels()) {
      segments.push_back(peer);
      continue;
    }
    const std::uint32_t local = message + (message >= topology.local_rank);
    for (std::uint32_t node = 0; node < topology.node_count; ++node)
      segments.push_back(topology.rank_at(node, local));
  }
  return segments;
}

std::vector<std::uint32_t> own_column(const Topology& topology) {
  std::vector<std::uint32_t> segments;
  if (!topology.two_levels()) return segments;
  for (std::uint32_t node = 0; node < topology.node_count; ++node) {
    segments.push_back(topology.rank_at(node, topology.local_rank));
  }
  return segments;
}

std::size_t gradient_chunk_length(std::size_t count, const Topology& topology, const Config& config) {
  const auto fits = [&](std::size_t length) {
    return gradient_layout(length, topology, config).bytes <= config.workspace;
  };
  return equal_chunk_length(count, std::max<std::size_t>(config.gradient_group, kBlock), fits);
}

}  // namespace sdp4bit
