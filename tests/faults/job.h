// The job that is disturbed: gradients and weights step after step, whose results each rank knows beforehand.
#pragma once

#include <functional>

#include "cluster.h"

namespace sdp4bit::faults {

/// A way of running it; each takes other paths through the library.
struct Setting {
  const char* name;
  test::Environment environment;
  bool captured = false;  // the last steps are a graph's replays
  int steps = 20;         // before those
  bool in_place = false;  // gathers; the program keeps its masters elsewhere and writes the own slice anew
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
/// `watch` sees all weights behind every step, but zeros for the own slice of gathers in place: what may
/// stand there meanwhile depends on the number of the call.
using WatchWeights = std::function<void(const test::Bytes& weights)>;
void run_job(test::RankContext& rank, const Setting& setting, const WatchWeights& watch = {});

}  // namespace sdp4bit::faults
