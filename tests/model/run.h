// A program's verdict, and the shortest program that fails alike.
#pragma once

#include <string>

#include "oracle.h"
#include "program.h"

namespace sdp4bit::model {

/// "" or what is wrong: a program that makes no sense, a rank that failed, or the oracle's word.
[[nodiscard]] std::string run(const Program& program, Tally& tally);

/// Drops steps, calls, variables, ranks and sizes while the program fails alike, for at most so long.
[[nodiscard]] Program shrink(Program program, const std::string& failure, double seconds);

}  // namespace sdp4bit::model
