// Which calls have their error measured (SDP4BIT_SAMPLE_ERROR), and the device memory for the sums.
#pragma once

#include <array>
#include <cstdint>

#include "kernels/launch_sample.h"
#include "plugin/cuda_raii.h"
#include "plugin/policy.h"

namespace sdp4bit {

/// Of one communicator. Shapes nothing on the wire: where there is no memory, nothing is sampled.
class ErrorSampling {
 public:
  /// Every `period`-th call of each function; 0: none.
  void allocate(std::uint64_t period);
  void release() { partials_.reset(); }

  /// Asked for each compressed call that is not captured. The calls of a group run in turns, so of each
  /// function one is sampled in a group at most; `epoch` numbers the groups.
  [[nodiscard]] bool takes(Collective collective, std::uint64_t epoch);
  [[nodiscard]] SampleTarget target(SampleKind kind, const CounterMirror& counters, bool first_chunk,
                                    bool last_chunk) const;

 private:
  struct Function {
    std::uint64_t calls = 0;  // since the last sample
    std::uint64_t epoch = 0;  // of the last sample
  };
  std::uint64_t period_ = 0;
  DeviceBuffer partials_;
  std::array<Function, 2> functions_;
};

}  // namespace sdp4bit
