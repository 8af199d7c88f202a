// SDP4BIT_WEIGHT_VOTE=1: before each difference the ranks vote on jumps, and one jump makes the call native.
//
//   measure_difference, write_record -> AllGather of the votes -> the host waits for the answer
//   -> the steps of a difference, or NCCL's own AllGather and set_entries
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#include "plugin/phased_call.h"
#include "plugin/weight_difference.h"
#include "plugin/weight_record.h"

namespace sdp4bit {

class VotedCall final : public SingleCall {
 public:
  /// `votes`: words for the answer, beside those of the call.
  void set(const DifferencePlan& plan, std::uint32_t slot_count, CallWords* votes);

  CommState& comm() override { return *plan_.comm; }
  cudaStream_t stream() const override { return plan_.args.stream; }
  std::size_t chunk_count() const override { return difference_.chunk_count(); }
  std::size_t chunk_bytes(std::size_t chunk) const override;
  int step_count() const override { return difference_.step_count() + 1; }
  const char* phase(int step) const override {
    return step == 0 ? "weight vote" : difference_.phase(step - 1);
  }
  void launch_step(const Step& step) override;
  void exchange_step(const Step& step) override;

  [[nodiscard]] const DifferenceCall& difference() const { return difference_; }

  /// Bytes of the workspace that a vote needs.
  [[nodiscard]] static std::size_t vote_bytes(std::size_t count, std::size_t group_size, std::uint32_t ranks);

 private:
  /// The step of the difference.
  [[nodiscard]] Part inner(const Step& step);
  void launch_vote(const Step& step);
  void read_vote(const Step& step);
  void launch_entries(const Step& step);
  [[nodiscard]] SetEntriesArgs votes_received(const Step& step) const;

  DifferencePlan plan_;
  DifferenceCall difference_;
  ChecksumCall checksum_call_;
  std::uint32_t slot_count_ = 0;
  CallWords* votes_ = nullptr;
  bool native_ = false;
};

}  // namespace sdp4bit
