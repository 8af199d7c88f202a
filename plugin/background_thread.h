// Threads of the library's own: they serve the user who watches a job, so a job must never fail for want of
// one.
#pragma once

#include <csignal>
#include <exception>
#include <thread>
#include <utility>

#include "plugin/log.h"

namespace sdp4bit {

/// Detached, and deaf to signals: the program's are for the program's threads. Where it cannot start, one
/// line says what the user goes without. `body` must not let go of anything that the end of the process
/// destroys.
template <typename Body>
bool start_background_thread(const char* what, Body body) noexcept {
  sigset_t all, before;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_SETMASK, &all, &before);
  bool started = false;
  try {
    std::thread(std::move(body)).detach();
    started = true;
  } catch (const std::exception& error) {
    log_error("there will be no %s, for its thread cannot start: %s", what, error.what());
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return started;
}

}  // namespace sdp4bit
