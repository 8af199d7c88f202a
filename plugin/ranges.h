// Named ranges of host time for profilers (NVTX): what a phase enqueues shows under its name in Nsight
// Systems.
#pragma once

namespace sdp4bit {

/// In scope while a phase is enqueued; `name` must outlive the process. Without a profiler two branches, and
/// nothing at all in a build without NVTX.
class Range {
 public:
  explicit Range(const char* name) noexcept;
  ~Range();
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
};

}  // namespace sdp4bit
