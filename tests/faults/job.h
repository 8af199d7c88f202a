// The job that is disturbed: gradients and weights step after step, whose results each rank knows beforehand.
#pragma once

#include "cluster.h"

namespace sdp4bit::faults {

/// A way of running it; each takes other paths through the library.
struct Setting {
  const char* name;
  test::Environment environment;
  bool captured = false;  // the last steps are a graph's replays
};
[[nodiscard]] const std::vector<Setting>& settings();

/// Nodes times ranks of a node.
inline constexpr int kNodes = 2, kLocalRanks = 2;

/// Thrown where a rank gets a wrong result without an error: what must never happen.
struct WrongResult {
  std::string text;
};

/// From the creation of a communicator to its end, with checks of every result. Throws std::runtime_error at
/// the first error that CUDA or NCCL return, WrongResult where a result is wrong.
void run_job(test::RankContext& rank, const Setting& setting);

}  // namespace sdp4bit::faults
