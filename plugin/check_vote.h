// SDP4BIT_CHECK=1: before each call all ranks of its communicator compare what they are about to do.
//
// One small AllGather of descriptions (call_description.h) for each call, on the call's stream, alone in its
// group of the real NCCL. The host waits for the answer: that is what the option asks for.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "plugin/call_description.h"
#include "plugin/cuda_raii.h"
#include "plugin/phased_call.h"

namespace sdp4bit {

/// The votes of one communicator, one at a time. Exists from the agreement on, where all ranks check.
class CheckVote final : public SingleCall {
 public:
  /// Allocates what every vote needs. Throws Error where there is no memory.
  explicit CheckVote(CommState& comm);

  /// Calls before this one are numbered 1 to `calls`.
  void begin_after(std::uint64_t calls) { last_number_ = calls; }
  /// Describes the next call; its number is given here.
  void set(CallDescription description, cudaStream_t stream);
  /// Waits (bounded) for what all ranks said; throws Error, on every rank alike, if it differs.
  void read();

  CommState& comm() override { return comm_; }
  cudaStream_t stream() const override { return stream_; }
  std::size_t chunk_count() const override { return 1; }
  std::size_t chunk_bytes(std::size_t) const override { return 0; }
  int step_count() const override { return 2; }
  const char* phase(int) const override { return "check"; }
  void launch_step(const Step& step) override;
  void exchange_step(const Step& step) override;

 private:
  CommState& comm_;
  std::uint64_t last_number_ = 0;
  cudaStream_t stream_ = nullptr;
  DeviceBuffer device_;  // mine, then those of all ranks
  PinnedBuffer host_;    // likewise
  Event arrived_;
};

}  // namespace sdp4bit
