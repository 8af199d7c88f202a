// Names in the log what waits too long: a thread that only reads atomics.
#pragma once

#include <cstdint>

#include "plugin/log.h"

namespace sdp4bit {

/// In scope while the host waits for others: `what` must outlive the process. `call`: its number on the
/// communicator; 0: not said.
class WatchedWait {
 public:
  WatchedWait(const char* what, LogSubject subject, std::uint64_t call = 0) noexcept;
  ~WatchedWait();
  WatchedWait(const WatchedWait&) = delete;
  WatchedWait& operator=(const WatchedWait&) = delete;

 private:
  int slot_;
};

/// Starts the thread, once a process, unless SDP4BIT_WATCHDOG=0.
void start_watchdog();

}  // namespace sdp4bit
