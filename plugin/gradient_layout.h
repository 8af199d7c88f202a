// Who sends what to whom, and where it lies: functions of (count, topology, options) alone, equal on all
// ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/wire_format.h"
#include "plugin/options.h"
#include "plugin/topology.h"

namespace sdp4bit {

/// Where the parts of a chunk lie in the workspace. A function of (lengths, codecs, topology) alone.
///
/// Chunks that travel together share messages: a message to a peer holds theirs in call order, each with its
/// own header.
struct GradientLayout {
  std::size_t first_stride = 0;   // bytes of a message of the first exchange ...
  std::size_t second_stride = 0;  // ... and of the exchange between nodes of two levels
  std::size_t partial_bytes = 0;  // of own partial sums; two levels
  std::size_t first_send = 0, first_receive = 0, own_partial = 0, second_send = 0,
              second_receive = 0;  // offsets
  std::size_t bytes = 0;
};

enum class GradientPath : std::uint8_t { one_node, one_level, two_levels };
[[nodiscard]] GradientPath gradient_path(const Topology& topology);
/// The first exchange: with all other ranks, or on two levels with those of the node.
[[nodiscard]] std::uint32_t first_peers(const Topology& topology);
[[nodiscard]] Codec first_codec(const Topology& topology, const Config& config);
/// The rank that sends to us, and that we send to, as the `message`-th of an exchange.
[[nodiscard]] std::uint32_t first_peer(const Topology& topology, std::uint32_t message);
[[nodiscard]] std::uint32_t second_peer(const Topology& topology, std::uint32_t message);
/// Input segments in the order in which the first messages carry them, and those of the own column by node
/// (two levels).
[[nodiscard]] std::vector<std::uint32_t> first_segments(const Topology& topology);
[[nodiscard]] std::vector<std::uint32_t> own_column(const Topology& topology);

[[nodiscard]] GradientLayout gradient_layout(std::size_t length, const Topology& topology,
                                             const Config& config);

/// Layouts of chunks that travel together: add() each, then ask next() for each in the same order. Together
/// they need no more than the sum of what they need alone.
class JointGradientLayout {
 public:
  void add(const GradientLayout& chunk);
  /// Offsets of the chunk's own parts; strides are those of the shared messages.
  [[nodiscard]] GradientLayout next(const GradientLayout& chunk, const Topology& topology);

 private:
  GradientLayout total_;
  GradientLayout placed_;  // sizes of the chunks before
};
/// Elements of a chunk: all of them where the workspace allows, else a multiple of the groups; 0 if not even
/// one group fits.
[[nodiscard]] std::size_t gradient_chunk_length(std::size_t count, const Topology& topology,
                                                const Config& config);

}  // namespace sdp4bit
