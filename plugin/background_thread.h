// Starts the library's own threads, for which no job may fail: they only serve whoever watches it.
#pragma once

#include <csignal>
#include <exception>
#include <thread>
#include <utility>

#include "plugin/log.h"

namespace sdp4bit {

/// Runs `body` in a detached thread that takes no signals: the program's are for the program's threads. False
/// where it cannot start; one line says that there will be no `what`. The thread may outlive everything that
/// the end of the process destroys, so `body` must own or leak what it touches.
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
