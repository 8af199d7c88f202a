// Holders, messages and offsets of weights; see weight_layout.h.
#include "plugin/weight_layout.h"

#include <algorithm>

#include "plugin/chunk_length.h"

namespace sdp4bit {
namespace {

constexpr std::size_t kAreaAlign = 256;

/// Puts areas one behind the other.
class Areas {
 public:
  std::size_t add(std::size_t bytes) {
    const std::size_t offset = bytes_;
    bytes_ += round_up(bytes, kAreaAlign);
    return offset;
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_ = 0;
};

bool has_columns(const Topology& topology) {
  return topology.equal_nodes && topology.node_count > 1;
}

}  // namespace

WeightPath weight_path(const Topology& topology, const Config& config) {
  if (config.weight_ledger == WeightLedger::full) return WeightPath::full;
  if (config.weight_ledger == WeightLedger::node && has_columns(topology)) return WeightPath::node;
  return WeightPath::none;
}

WeightPath direct_path(const Topology& topology) {
  return has_columns(topology) ? WeightPath::node : WeightPath::full;
}

std::vector<std::uint32_t> weight_holdings(WeightPath path, const Topology& topology) {
  std::vector<std::uint32_t> ranks;
  if (path == WeightPath::node) {
    for (std::uint32_t node = 0; node < topology.node_count; ++node) {
      ranks.push_back(topology.rank_at(node, topology.local_rank));
    }
  } else if (path == WeightPath::full) {
    for (std::uint32_t rank = 0; rank < topology.ranks; ++rank) ranks.push_back(rank);
  }
  return ranks;
}

std::uint32_t own_place(WeightPath path, const Topology& topology) {
  return path == WeightPath::node ? topology.node : topology.rank;
}

std::vector<std::uint32_t> message_places(WeightPath path, const Topology& topology) {
  std::vector<std::uint32_t> places;
  const auto count = static_cast<std::uint32_t>(weight_holdings(path, topology).size());
  for (std::uint32_t place = 0; place < count; ++place) {
    if (path == WeightPath::full || place != own_place(path, topology)) places.push_back(place);
  }
  return places;
}

std::vector<std::uint32_t> message_senders(WeightPath path, const Topology& topology) {
  const std::vector<std::uint32_t> holdings = weight_holdings(path, topology);
  std::vector<std::uint32_t> senders = message_places(path, topology);
  for (std::uint32_t& sender : senders) sender = holdings[sender];
  return senders;
}

std::vector<std::uint32_t> local_peers(WeightPath path, const Topology& topology) {
  std::vector<std::uint32_t> peers;
  if (path != WeightPath::node) return peers;
  for (const std::uint32_t rank : topology.members[topology.node]) {
    if (rank != topology.rank) peers.push_back(rank);
  }
  return peers;
}

std::vector<std::uint32_t> staged_senders(WeightPath path, const Topology& topology) {
  std::vector<std::uint32_t> senders;
  if (path != WeightPath::node) return senders;
  for (std::uint32_t local = 0; local < topology.local_size; ++local) {
    if (local == topology.local_rank) continue;
    for (std::uint32_t node = 0; node < topology.node_count; ++node)
      senders.push_back(topology.rank_at(node, local));
  }
  return senders;
}

namespace {

/// Puts the parts one behind the other.
void place(WeightLayout& layout, WeightPath path, const Topology& topology) {
  Areas areas;
  layout.maxima = areas.add(layout.maxima_bytes);
  if (path == WeightPath::full) {
    layout.received = areas.add(layout.message_stride * topology.ranks);
    layout.message = layout.received + layout.message_stride * topology.rank;
  } else {
    layout.message = areas.add(layout.message_stride);
    layout.received = areas.add(layout.message_stride * (topology.node_count - 1));
    layout.staged = areas.add(layout.staged_stride);
    layout.arriving = areas.add(layout.staged_stride * (topology.local_size - 1));
  }
  layout.bytes = areas.bytes();
}

void add_sizes(WeightLayout& sum, const WeightLayout& chunk) {
  sum.message_stride += chunk.message_stride;
  sum.staged_stride += chunk.staged_stride;
  sum.maxima_bytes += chunk.maxima_bytes;
}

}  // namespace

WeightLayout weight_layout(std::size_t length, ElementType type, WeightPath path, const Codec& codec,
                           const Topology& topology) {
  WeightLayout layout;
  layout.message_stride = message_bytes(length, 1, codec);
  layout.maxima_bytes = group_count(length, codec) * sizeof(GroupMaxima);
  if (path != WeightPath::full && topology.local_size > 1)
    layout.staged_stride = staged_message_bytes(topology.node_count, length, type);
  place(layout, path, topology);
  return layout;
}

void JointWeightLayout::add(const WeightLayout& chunk) {
  add_sizes(total_, chunk);
}

WeightLayout JointWeightLayout::next(const WeightLayout& chunk, WeightPath path, const Topology& topology) {
  WeightLayout layout = total_;
  place(layout, path, topology);
  layout.maxima += placed_.maxima_bytes;
  layout.message += placed_.message_stride;
  layout.received += placed_.message_stride;
  layout.staged += placed_.staged_stride;
  layout.arriving += placed_.staged_stride;
  add_sizes(placed_, chunk);
  return layout;
}

std::size_t weight_chunk_length(std::size_t count, ElementType type, WeightPath path, const Codec& codec,
                                const Topology& topology, std::size_t workspace) {
  const auto fits = [&](std::size_t length) {
    return weight_layout(length, type, path, codec, topology).bytes <= workspace;
  };
  return equal_chunk_length(count, std::max<std::size_t>(codec.group_size, kBlock), fits);
}

RecordLayout record_layout(std::size_t count, std::size_t group_size, std::uint32_t ranks) {
  RecordLayout layout;
  Areas areas;
  layout.own = areas.add(sizeof(MessageHeader));
  layout.all = areas.add(sizeof(MessageHeader) * ranks);
  layout.all_ready = areas.add(sizeof(std::uint32_t));
  layout.maxima = areas.add(sample_group_count(count, group_size) * sizeof(GroupMaxima));
  layout.bytes = areas.bytes();
  return layout;
}

}  // namespace sdp4bit
