// Which training framework this process runs, as far as it shows from outside.
//
// It matters for one thing: DeepSpeed's ZeRO-3 pads the segments of its ReduceScatters with memory that was
// never written. Natively that garbage stays in the padding; under a shared scale, or spread by the
// transform, it would ruin the gradients next to it.
#pragma once

#include <span>
#include <string>

namespace sdp4bit {

/// What can be seen of a process.
struct FrameworkClues {
  std::span<const std::string> variables;       // NAME=value
  std::span<const std::string> arguments;       // of the command line
  std::span<const std::string> loaded_objects;  // paths
};

/// Pure. A word of the trace that was found, "" if nothing speaks of DeepSpeed.
[[nodiscard]] std::string find_deepspeed(const FrameworkClues& clues);

/// Of this process, with SDP4BIT_FRAMEWORK having the last word. Looked up anew at each communicator: ops are
/// loaded late.
[[nodiscard]] bool pads_gradients();

}  // namespace sdp4bit
