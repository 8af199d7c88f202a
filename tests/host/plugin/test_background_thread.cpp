// A thread that cannot start is a line in the log and nothing else.
#include "plugin/background_thread.h"

#include <pthread.h>

#include <atomic>
#include <csignal>
#include <thread>

#include "catch.h"

namespace sdp4bit {
namespace {

TEST_CASE("BackgroundThread.OneThatCannotStartIsNoError") {
  pthread_attr_t before, impossible;
  REQUIRE(pthread_getattr_default_np(&before) == 0);
  REQUIRE(pthread_attr_init(&impossible) == 0);
  REQUIRE(pthread_attr_setstacksize(&impossible, std::size_t{1} << 46) == 0);
  REQUIRE(pthread_setattr_default_np(&impossible) == 0);
  sigset_t signals;
  std::atomic<bool> ran{false};
  const bool started = start_background_thread("test", [&] { ran.store(true); });
  REQUIRE(pthread_setattr_default_np(&before) == 0);
  CHECK_FALSE(started);
  CHECK_FALSE(ran.load());
  REQUIRE(pthread_sigmask(SIG_SETMASK, nullptr, &signals) == 0);
  CHECK(sigismember(&signals, SIGTERM) == 0);

  std::atomic<int> state{0};
  REQUIRE(start_background_thread("test", [&] {
    sigset_t of_thread;
    (void)pthread_sigmask(SIG_SETMASK, nullptr, &of_thread);
    state.store(sigismember(&of_thread, SIGTERM) == 1 ? 1 : 2);
  }));
  while (state.load() == 0) std::this_thread::yield();
  CHECK(state.load() == 1);
}

}  // namespace
}  // namespace sdp4bit
