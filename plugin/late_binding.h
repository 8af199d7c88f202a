// Takes the calls of objects that were bound to NCCL before this library was loaded.
#pragma once

#include <cstdint>

namespace sdp4bit {

/// Who had the library loaded.
enum class Door : std::uint8_t { program, net_plugin, profiler_plugin };

/// Redirects what is bound to NCCL now, and at each creation of a communicator what came since. Says with one
/// line what it did, or why it does not. Returns how many references lead here now, or -1.
int take_calls(Door door);

/// Nothing, unless take_calls() succeeded before.
void take_calls_of_new_objects();

}  // namespace sdp4bit
