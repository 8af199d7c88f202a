// Named ranges of host time for profilers (NVTX): what a phase enqueues shows under its name in Nsight
// Systems.
#pragma once

#include <atomic>

namespace sdp4bit {

/// Whether a profiler may want ranges: true until one was asked for and nobody was there to see it. Written
/// by ranges.cpp alone.
inline std::atomic<bool> ranges_are_seen{true};

/// In scope while a phase is enqueued; `name` must outlive the process. Without a profiler, or in a build
/// without NVTX, a branch.
class Range {
 public:
  explicit Range(const char* name) noexcept : open_(ranges_are_seen.load(std::memory_order_relaxed)) {
    if (open_) [[unlikely]]
      open(name);
  }
  ~Range() {
    if (open_) [[unlikely]]
      close();
  }
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;

 private:
  static void open(const char* name) noexcept;
  static void close() noexcept;
  bool open_;
};

}  // namespace sdp4bit
