// Every state that a scenario can reach, breadth first, and the shortest way to one that must not be.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "rank.h"

namespace agreement {

struct Bounds {
  std::uint64_t most_states = 0;  // 0: as many as there are
  bool progress = false;          // a line to stderr every few seconds
};

struct Exploration {
  std::uint64_t states = 0;
  std::uint64_t transitions = 0;
  std::uint32_t depth = 0;  // steps of the longest shortest way
  double seconds = 0;
  bool complete = false;           // no state was left out but for the scenario's own depth
  std::string violation;           // what must not be, or nothing
  std::vector<std::string> trace;  // the way there, step by step
};

[[nodiscard]] Exploration explore(const Setting& setting, std::uint32_t ranks, const Bounds& bounds);

}  // namespace agreement
