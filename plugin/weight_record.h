// What follows a native gather of a class that learns or runs differences: one tiny AllGather of records.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/launch_weight.h"
#include "plugin/all_gather.h"
#include "plugin/checksums.h"
#include "plugin/ledger.h"
#include "plugin/phased_call.h"
#include "plugin/probe_schedule.h"
#include "plugin/weight_layout.h"
#include "plugin/weight_tables.h"

namespace sdp4bit {

/// All a call needs to know when it is enrolled; the class may have moved on when it runs in a large group.
struct RecordPlan {
  CommState* comm = nullptr;
  WeightTables* tables = nullptr;
  Ledger* ledger = nullptr;
  WeightChunk shard;  // the whole of it
  AllGatherArgs args;
  std::uint32_t slot = 0;
  std::uint32_t slot_count = 0;
  std::uint32_t flags = 0;
  bool compares = false;  // still learning: the sample decides
  Ledger::Sample sample;
  ProbeSchedule::Visit visit{};  // where a step is in the own slice, nothing of it is left behind this call
  CallWords* words = nullptr;
};

class RecordCall final : public SingleCall {
 public:
  void set(const RecordPlan& plan);

  CommState& comm() override { return *plan_.comm; }
  cudaStream_t stream() const override { return plan_.args.stream; }
  std::size_t chunk_count() const override { return 1; }
  std::size_t chunk_bytes(std::size_t) const override { return layout_.bytes; }
  int step_count() const override { return 2; }
  const char* phase(int step) const override { return step == 0 ? "weight record" : "weight entries"; }
  void launch_step(const Step& step) override;
  void exchange_step(const Step& step) override;

 private:
  RecordPlan plan_;
  ChecksumCall checksum_call_;
  RecordLayout layout_;
};

}  // namespace sdp4bit
