// What the ReduceScatters of a communicator have in common, and those of one size: worked out once. Functions
// of (count, topology, options) alone, equal on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "plugin/gradient_layout.h"
#include "plugin/stats.h"

namespace sdp4bit {

/// The way of all of them.
struct GradientWay {
  GradientPath path = GradientPath::one_level;
  std::uint32_t first_peers = 0;     // messages of the first exchange ...
  std::uint32_t first_segments = 1;  // ... and segments of each
  std::uint32_t second_peers = 0;    // of the exchange between nodes; 0 on one level
  std::uint32_t local_peers = 0;     // first peers on the own node
  Codec first_codec;
  Codec second_codec;

  [[nodiscard]] bool two_levels() const { return path == GradientPath::two_levels; }
  [[nodiscard]] MessageKind first_kind() const {
    return path == GradientPath::one_level ? MessageKind::gradient_between_nodes
                                           : MessageKind::gradient_in_node;
  }
  /// Bytes of a chunk's message in the first exchange, and in the second one.
  [[nodiscard]] std::size_t first_bytes(std::size_t length) const {
    return message_bytes(length, first_segments, first_codec);
  }
  [[nodiscard]] std::size_t second_bytes(std::size_t length) const {
    return message_bytes(length, 1, second_codec);
  }
};
[[nodiscard]] GradientWay gradient_way(const Topology& topology, const Config& config);

/// How one of `count` elements a segment is cut.
struct GradientPlan {
  std::size_t count = 0;
  std::size_t chunk_length = 0;  // 0: the workspace holds no chunk
  std::size_t chunks = 0;
  GradientLayout full_chunk;  // of a chunk of that length, alone
  LinkBytes sent;             // payload that this rank sends in all chunks
};
[[nodiscard]] GradientPlan gradient_plan(std::size_t count, const Topology& topology, const Config& config);

/// The plans of the sizes that came last: a training makes the same calls at every step.
class GradientPlans {
 public:
  static constexpr std::size_t kMost = 64;  // later ones take the oldest's place

  /// Before the first question; takes the memory.
  void begin() { plans_.reserve(kMost); }
  /// Of one communicator: `topology` and `config` are the same at every call. Good until the next one.
  [[nodiscard]] const GradientPlan& of(std::size_t count, const Topology& topology, const Config& config) {
    return last_ < plans_.size() && plans_[last_].count == count ? plans_[last_]
                                                                 : find(count, topology, config);
  }

 private:
  const GradientPlan& find(std::size_t count, const Topology& topology, const Config& config);

  std::vector<GradientPlan> plans_;
  std::size_t last_ = 0;      // the one that was asked for
  std::size_t replaced_ = 0;  // so far
};

}  // namespace sdp4bit
