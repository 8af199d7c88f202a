// A flag that one thread waits for and any other raises, also from a handler of signals.
//
// On a futex, whose time is the steady clock's: sem_timedwait and what condition variables offer in old C
// libraries follow the wall clock, which people set, and condition variables may not be used in handlers.
#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <ctime>

namespace sdp4bit {

class WaitFlag {
 public:
  /// Cannot be taken back.
  void raise() noexcept {
    const int before = errno;  // the interrupted program's
    raised_.store(1);
    ::syscall(SYS_futex, &raised_, FUTEX_WAKE_PRIVATE, 0x7fffffff, nullptr, nullptr, 0);
    errno = before;
  }

  /// True once it is raised, false after `seconds` without that.
  [[nodiscard]] bool wait(int seconds) noexcept {
    const std::timespec end = in_seconds(seconds);
    while (raised_.load() == 0) {
      std::timespec now{};
      ::clock_gettime(CLOCK_MONOTONIC, &now);
      std::timespec left{end.tv_sec - now.tv_sec, end.tv_nsec - now.tv_nsec};
      if (left.tv_nsec < 0) left = {left.tv_sec - 1, left.tv_nsec + 1'000'000'000};
      if (left.tv_sec < 0) return false;
      ::syscall(SYS_futex, &raised_, FUTEX_WAIT_PRIVATE, 0, &left, nullptr, 0);
    }
    return true;
  }

 private:
  static std::timespec in_seconds(int seconds) noexcept {
    std::timespec end{};
    ::clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += seconds;
    return end;
  }

  std::atomic<int> raised_{0};
  static_assert(sizeof raised_ == 4 && std::atomic<int>::is_always_lock_free);  // what the kernel looks at
};

}  // namespace sdp4bit
