// Carries a program out: one forked child for each of its processes, with a time limit.
#pragma once

#include <string>

#include "plan.h"
#include "program.h"
#include "trace.h"

namespace sdp4bit::model {

/// "" if every rank came to the end; else what happened, with what the processes wrote to stderr.
[[nodiscard]] std::string execute(const Program& program, const Plan& plan, Trace& trace, double seconds);

}  // namespace sdp4bit::model
