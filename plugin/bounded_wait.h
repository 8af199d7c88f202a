// Waits that end: with an error where the communicator failed, was aborted, or the time is up.
#pragma once

#include <cstdint>
#include <functional>

#include "plugin/comm_state.h"
#include "plugin/cuda_raii.h"

namespace sdp4bit {

/// Sleeps until the event is reached. Throws when the communicator failed or was aborted, or after a very
/// long time. `call`: its number, for the watchdog; 0: none.
void wait_bounded(CommState& comm, const Event& event, const char* what, std::uint64_t call = 0);
/// The same for what a kernel writes to pinned memory.
void wait_bounded(CommState& comm, const std::function<bool()>& reached, const char* what);
/// Sleeps until a communicator that does not block is ready.
void wait_ready(CommState& comm);

}  // namespace sdp4bit
