// Says whether what a program left is what the documentation promises.
#pragma once

#include <cstdint>
#include <string>

#include "plan.h"
#include "program.h"
#include "trace.h"

namespace sdp4bit::model {

/// Executions by what became of them.
struct Tally {
  std::uint64_t native = 0, compressed_gradients = 0, recorded = 0, differences = 0, direct = 0,
                voted_down = 0, replayed = 0, with_nan = 0;

  void add(const Tally& other);
};

/// "" or the first thing that is wrong.
[[nodiscard]] std::string judge(const Program& program, const Plan& plan, const Trace& trace, Tally& tally);

}  // namespace sdp4bit::model
