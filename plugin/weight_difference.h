// How a weight travels once its class is in difference, top to bottom:
//
//   node   encode_difference, seal_difference -> exchange between the nodes of the column -> add_difference
//          -> exchange in the node, in full precision -> scatter_shards, publish_words
//   full   encode_difference, seal_difference -> AllGather of the codes -> add_difference, publish_words
//
// Stateless direct coding goes the same way without a ledger.
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
#include "plugin/stats.h"
#include "plugin/weight_layout.h"
#include "plugin/weight_tables.h"

namespace sdp4bit {

/// All a call needs to know when it is enrolled.
struct DifferencePlan {
  CommState* comm = nullptr;
  WeightTables* tables = nullptr;
  WeightChunk shard;  // the whole of it
  AllGatherArgs args;
  std::uint32_t slot = 0;
  std::byte* own_entry = nullptr;  // nullptr, and no ledger: stateless
  std::byte* ledger = nullptr;
  bool replica = true;          // the owner stores what the others hold
  std::uint32_t own_flags = 0;  // what the host says: kOwnReplica, kReset
  Probe* probe = nullptr;       // what the device says
  ProbeSchedule::Visit visit{};
  CallWords* words = nullptr;
  bool sampled = false;  // measures the error of what it sends, too
};

class DifferenceCall final : public SingleCall {
 public:
  void set(const DifferencePlan& plan);

  CommState& comm() override { return *plan_.comm; }
  cudaStream_t stream() const override { return plan_.args.stream; }
  std::size_t chunk_count() const override;
  std::size_t chunk_bytes(std::size_t chunk) const override { return layout_of(chunk).bytes; }
  int step_count() const override { return has_second_exchange() ? 3 : 2; }
  const char* phase(int step) const override {
    return step == 0 ? "weight encode" : step == 1 ? "weight add" : "weight scatter";
  }
  void launch_step(const Step& step) override;
  void exchange_step(const Step& step) override;

  /// Instead of all steps, where the call went native: takes back what is left of a step.
  void only_answer_probe(const Step& step);

  /// Payload that this rank sends in all chunks.
  [[nodiscard]] LinkBytes sent_bytes() const;
  /// NCCL's operations that carry it: point to point, and AllGathers.
  [[nodiscard]] std::uint64_t sends() const;
  [[nodiscard]] std::uint64_t gathers() const;

 private:
  [[nodiscard]] bool has_second_exchange() const { return !plan_.tables->local_peers.empty(); }
  [[nodiscard]] WeightChunk chunk_of(std::size_t chunk) const;
  [[nodiscard]] WeightLayout layout_of(std::size_t chunk) const;
  void verify(Exchange exchange, const Step& step);
  void launch_encode(const Step& step);
  void launch_add(const Step& step);
  void launch_scatter(const Step& step);
  void launch_publish(const Step& step);
  void keep_exact(const Step& step);
  [[nodiscard]] std::byte* own_slice() const;
  [[nodiscard]] ProbeArgs probe_args() const;

  DifferencePlan plan_;
  ChecksumCall checksum_call_;
  std::size_t chunk_length_ = 0;
};

}  // namespace sdp4bit
