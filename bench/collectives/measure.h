// Runs one case: warm-up, timed calls, counted bytes, errors; the result is the same on every rank.
#pragma once

#include <optional>

#include "experiment.h"

namespace collectives {

// Per call; times and bytes are means over the ranks.
struct Measurement {
  Case which;
  std::size_t count;  // elements, NCCL's count argument
  std::size_t bytes;  // of the larger buffer, with what does not divide by the ranks left out
  double seconds;
  double algorithm_bandwidth = 0, bus_bandwidth = 0;  // bytes per second, as nccl-tests defines them
  std::optional<double> bytes_in_node{}, bytes_between_nodes{};
  std::optional<double> bits_between_nodes{};  // per element of `count` and other node
  std::optional<double> relative_error{};      // root of squared error over squared exact result
  std::optional<double> maximum_error{};
  std::optional<bool> ranks_agree{};  // a gathered result is the same, bit for bit, on every rank
};

Measurement measure(const Case& which, const Options& options, const Session& session);

}  // namespace collectives
