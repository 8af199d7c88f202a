// Who holds which ledger entries, and where the parts of a weight's chunk lie in the workspace: pure
// functions.
//
// All of it follows from (count, type, topology, options), equal on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/launch_weight.h"
#include "plugin/options.h"
#include "plugin/topology.h"

namespace sdp4bit {

/// The class number of stateless calls.
inline constexpr std::uint32_t kDirectClass = ~0u;

enum class WeightPath : std::uint8_t {
  none,
  node,  // differences between the nodes of a column, full precision in the node
  full,  // differences to all ranks
};

/// The way of the ledger: `node` needs columns, nodes of equal size.
[[nodiscard]] WeightPath weight_path(const Topology& topology, const Config& config);
/// The way of stateless direct coding: `node` where there are columns.
[[nodiscard]] WeightPath direct_path(const Topology& topology);

/// The ranks whose entries this rank holds, by place; its own is among them.
[[nodiscard]] std::vector<std::uint32_t> weight_holdings(WeightPath path, const Topology& topology);
/// This rank's own place.
[[nodiscard]] std::uint32_t own_place(WeightPath path, const Topology& topology);
/// The ranks whose messages arrive in the first exchange, by message: all places on `full`, else all but the
/// own one.
[[nodiscard]] std::vector<std::uint32_t> message_senders(WeightPath path, const Topology& topology);
[[nodiscard]] std::vector<std::uint32_t> message_places(WeightPath path, const Topology& topology);
/// Local peers, and the ranks of their columns, message by message of the exchange in the node.
[[nodiscard]] std::vector<std::uint32_t> local_peers(WeightPath path, const Topology& topology);
[[nodiscard]] std::vector<std::uint32_t> staged_senders(WeightPath path, const Topology& topology);

/// Offsets of the parts of a chunk of `length`.
struct WeightLayout {
  std::size_t message_stride = 0;
  std::size_t staged_stride = 0;  // 0: there is no exchange in the node
  std::size_t maxima_bytes = 0;
  std::size_t message = 0;   // own message: on `full` within `received`, at the own rank
  std::size_t received = 0;  // messages of the first exchange
  std::size_t staged = 0;    // the own column's shards, for the node
  std::size_t arriving = 0;  // the other columns'
  std::size_t maxima = 0;
  std::size_t bytes = 0;
};
[[nodiscard]] WeightLayout weight_layout(std::size_t length, ElementType type, WeightPath path,
                                         const Codec& codec, const Topology& topology);
/// Layouts of chunks that travel together, all on one path: add() each, then ask next() for each in the same
/// order. A message holds theirs one behind the other. Together they need no more than the sum of what they
/// need alone.
class JointWeightLayout {
 public:
  void add(const WeightLayout& chunk);
  /// Offsets of the chunk's own parts; strides are those of the shared messages.
  [[nodiscard]] WeightLayout next(const WeightLayout& chunk, WeightPath path, const Topology& topology);

 private:
  WeightLayout total_;
  WeightLayout placed_;  // sizes of the chunks before
};

/// Elements of a chunk: all where the workspace allows, else a multiple of the group; 0 if not even one group
/// fits.
[[nodiscard]] std::size_t weight_chunk_length(std::size_t count, ElementType type, WeightPath path,
                                              const Codec& codec, const Topology& topology,
                                              std::size_t workspace);

/// Offsets of what a record needs.
struct RecordLayout {
  std::size_t own = 0, all = 0, all_ready = 0, maxima = 0;
  std::size_t bytes = 0;
};
[[nodiscard]] RecordLayout record_layout(std::size_t count, std::size_t group_size, std::uint32_t ranks);

}  // namespace sdp4bit
