// Slots of atomics, and the thread that looks at them once a second.
#include "plugin/watchdog.h"

#include <time.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <thread>

#include "plugin/background_thread.h"
#include "plugin/options.h"

namespace sdp4bit {
namespace {

/// By a clock that is cheap to read; 0 means "not waiting", and is long past.
std::int64_t now_seconds() {
  timespec now{};
  (void)::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec;
}

struct Slot {
  std::atomic<bool> taken{false};
  std::atomic<std::int64_t> since{0};  // 0: not waiting
  std::atomic<const char*> what{nullptr};
  std::atomic<std::uint64_t> call{0};
  std::atomic<int> rank{-1}, device{-1};
  std::atomic<bool> said{false};
};

// More waits at a time than this go unwatched.
std::array<Slot, 64> slots;

void look(std::int64_t limit) {
  for (Slot& slot : slots) {
    const std::int64_t since = slot.since.load(std::memory_order_acquire);
    if (since == 0 || now_seconds() - since < limit || slot.said.exchange(true)) continue;
    const LogScope scope({slot.rank.load(), slot.device.load()});
    const auto seconds = static_cast<long long>(now_seconds() - since);
    const auto call = static_cast<unsigned long long>(slot.call.load());
    if (call > 0) {
      log_warn("waiting for %lld s at call %llu: %s", seconds, call, slot.what.load());
    } else {
      log_warn("waiting for %lld s: %s", seconds, slot.what.load());
    }
  }
}

}  // namespace

// On the way of every call: `since` is what the watchdog goes by, the rest needs no order of its own.
WatchedWait::WatchedWait(const char* what, LogSubject subject, std::uint64_t call) noexcept : slot_(-1) {
  for (std::size_t i = 0; i < slots.size() && slot_ < 0; ++i) {
    if (!slots[i].taken.exchange(true, std::memory_order_acquire)) slot_ = static_cast<int>(i);
  }
  if (slot_ < 0) return;
  Slot& slot = slots[static_cast<std::size_t>(slot_)];
  slot.what.store(what, std::memory_order_relaxed);
  slot.call.store(call, std::memory_order_relaxed);
  slot.rank.store(subject.rank, std::memory_order_relaxed);
  slot.device.store(subject.device, std::memory_order_relaxed);
  slot.said.store(false, std::memory_order_relaxed);
  slot.since.store(now_seconds(), std::memory_order_release);
}

WatchedWait::~WatchedWait() {
  if (slot_ < 0) return;
  Slot& slot = slots[static_cast<std::size_t>(slot_)];
  slot.since.store(0, std::memory_order_relaxed);
  slot.taken.store(false, std::memory_order_release);
}

void start_watchdog() {
  static std::once_flag once;
  std::call_once(once, [] {
    const std::int64_t limit = config().watchdog;
    if (limit == 0) return;
    // It holds nothing, and what it reads is never destroyed.
    (void)start_background_thread("watchdog", [limit] {
      while (true) {
        std::this_thread::sleep_for(std::chrono::seconds(1));
        look(limit);
      }
    });
  });
}

}  // namespace sdp4bit
