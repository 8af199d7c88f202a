// What a kernel writes for the host while it runs: ordered where it says so, and where it does not, a data
// race that a thread sanitizer finds.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "program.h"
#include "support/catch.h"

using namespace ptx_test;

namespace {

/// The number that the host finds once the word is there.
unsigned number_behind_word(const char* kernel) {
  Program program = Program::from_file("ordering.ptx");
  DeviceArray<unsigned> number(1, 0u), word(1, 0u);
  std::thread device([&] { program.launch(kernel, threads(1, 1), number.data(), word.data()); });
  while (__atomic_load_n(word.data(), __ATOMIC_ACQUIRE) == 0) std::this_thread::yield();
  const unsigned found = *number.data();
  device.join();
  return found;
}

}  // namespace

TEST_CASE("Ordering.WhatIsPublishedBehindAFenceIsThere") {
  for (const char* const kernel : {"fenced_store", "releasing_store", "fenced_atomic"}) {
    INFO(kernel);
    CHECK(number_behind_word(kernel) == 42);
  }
}

#if defined(__SANITIZE_THREAD__)

TEST_CASE("Ordering.RunsTheKernelOfTheEnvironment", "[.]") {
  (void)number_behind_word(std::getenv("ORDERING_KERNEL"));
}

TEST_CASE("Ordering.AThreadSanitizerFindsWhatNothingOrders") {
  for (const char* const kernel :
       {"store_without_fence", "store_behind_an_earlier_fence", "atomic_without_fence", "weak_store"}) {
    INFO(kernel);
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      ::setenv("ORDERING_KERNEL", kernel, 1);
      ::setenv("TSAN_OPTIONS", "exitcode=66:log_path=/dev/null", 1);
      ::execl("/proc/self/exe", "ptx_ordering_test", "Ordering.RunsTheKernelOfTheEnvironment", nullptr);
      ::_exit(127);
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == 66);
  }
}

#endif
