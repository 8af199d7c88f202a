// What the documentation says the options mean, and which ranks share a node: the oracle's own reading.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "plan.h"
#include "program.h"

namespace sdp4bit::model {

enum class Rounding { stochastic, nearest, dithered, companded };

struct CodecSettings {
  int bits = 4;
  Rounding rounding = Rounding::stochastic;

  /// Most that one number is off, in parts of its group's largest magnitude.
  [[nodiscard]] double largest_error() const;
  friend bool operator==(const CodecSettings&, const CodecSettings&) = default;
};

/// What SDP4BIT_PRESET and the variables of its six say together.
struct Codecs {
  CodecSettings between_nodes, in_node, weight;
  std::size_t gradient_group = 0, weight_group = 0;
  bool bfloat16_scale = true;
  friend bool operator==(const Codecs&, const Codecs&) = default;
};

/// Of one process.
struct Settings : Codecs {
  bool enable = true, reduce_scatter = true, all_gather = true;
  std::string comms = "auto";
  std::size_t min_bytes = 0;  // programs set it: what auto stands for is not modelled
  std::string gradient_types = "bf16,fp16,fp32", weight_types = "bf16,fp16";
  bool hadamard = true;
  std::string ledger = "node", own_shard = "auto";
  bool vote = false;
  std::uint64_t refresh = 1000, start_call = 0;
  int direct = 0, local_size = 0;

  /// Of weights that no ledger takes.
  [[nodiscard]] CodecSettings direct_codec() const { return {direct, Rounding::nearest}; }
  [[nodiscard]] std::size_t direct_group() const { return direct == 4 ? weight_group : 128; }
};
[[nodiscard]] Settings settings_of(const Program& program, int process);

/// Nodes of a communicator, numbered by their lowest rank.
struct Nodes {
  std::vector<int> node_of;               // by rank in the communicator
  std::vector<std::vector<int>> members;  // by node, in rank order
  bool equal = true;

  [[nodiscard]] std::size_t count() const { return members.size(); }
  [[nodiscard]] std::size_t place_in_node(int rank) const;
};
[[nodiscard]] Nodes nodes_of(const Program& program, const Communicator& communicator,
                             const Settings& settings);

/// Whether the options that shape the wire are equal on all members.
[[nodiscard]] bool same_settings(const Program& program, const Communicator& communicator);
/// Whether SDP4BIT_COMMS takes the communicator, as far as this member of it can tell: by name, size and
/// origin.
[[nodiscard]] bool selects(const Program& program, const Communicator& communicator, int member);
/// Whether SDP4BIT_COMMS asks for more than one node.
[[nodiscard]] bool needs_nodes(const Settings& settings);

}  // namespace sdp4bit::model
