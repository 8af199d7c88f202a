// Says whether what a program left is what the documentation promises.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "plan.h"
#include "program.h"
#include "trace.h"

namespace sdp4bit::model {

/// Executions by what became of them.
struct Tally {
  std::uint64_t native = 0, compressed_gradients = 0, recorded = 0, differences = 0, direct = 0,
                voted_down = 0, replicas = 0, replayed = 0, with_nan = 0, others = 0;
};

/// Tally's fields with their names for people.
inline constexpr std::array<std::pair<const char*, std::uint64_t Tally::*>, 10> kTallied{
    {{"calls native", &Tally::native},
     {"ReduceScatters compressed", &Tally::compressed_gradients},
     {"AllGathers recorded", &Tally::recorded},
     {"differences", &Tally::differences},
     {"of them with replicas that a probe found", &Tally::replicas},
     {"direct", &Tally::direct},
     {"voted down", &Tally::voted_down},
     {"calls of NCCL alone", &Tally::others},
     {"replayed", &Tally::replayed},
     {"with a NaN", &Tally::with_nan}}};

/// "" or the first thing that is wrong.
[[nodiscard]] std::string judge(const Program& program, const Plan& plan, const Trace& trace, Tally& tally);

}  // namespace sdp4bit::model
