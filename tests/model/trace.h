// What the processes of a program share while it runs, and what it leaves: memory that forked processes have
// in common.
#pragma once

#include <nccl.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "sandbox/nccl/extension.h"

namespace sdp4bit::model {

inline constexpr std::size_t kMostProcesses = 16, kMostCommunicators = 64, kMostKinds = 128,
                             kMostSteps = 4096;

/// What one process counted until its end.
struct ProcessCounts {
  std::uint64_t gradients, compressed_gradients, gathers,
      compressed_gathers;  // the library's own count of calls
  std::size_t kinds;
  std::array<sandboxNcclCall, kMostKinds> calls;  // what NCCL executed
};

struct Shared {
  std::array<std::atomic<int>, kMostCommunicators> id_is_there;
  std::array<ncclUniqueId, kMostCommunicators> ids;
  std::atomic<int> failed;  // 0 no, 1 being written, 2 yes
  std::array<char, 4096> failure;
  std::array<ProcessCounts, kMostProcesses> counts;

  std::array<std::atomic<int>, kMostSteps> at_barrier;  // ranks that came to a step

  void fail(const char* text);
  /// Waits for all `ranks`; throws std::runtime_error if one failed.
  void meet(std::size_t step, int ranks, int coming);
};

/// Shared, then the records of the plan.
class Trace {
 public:
  explicit Trace(std::size_t record_bytes);
  ~Trace();
  Trace(const Trace&) = delete;
  Trace& operator=(const Trace&) = delete;

  [[nodiscard]] Shared& shared() const { return *shared_; }
  [[nodiscard]] std::byte* records() const { return records_; }
  [[nodiscard]] std::size_t record_bytes() const { return record_bytes_; }

 private:
  std::size_t record_bytes_, bytes_;
  Shared* shared_ = nullptr;
  std::byte* records_ = nullptr;
};

}  // namespace sdp4bit::model
