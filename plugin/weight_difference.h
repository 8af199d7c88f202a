// How a weight travels once its class is in difference, top to bottom:
//
//   node   encode_difference -> exchange between the nodes of the column -> add_difference
//          -> exchange in the node, in full precision -> scatter_shards
//   full   encode_difference -> AllGather of the codes -> add_difference
//
// Stateless direct coding goes the same way without a ledger. Calls of a group that belong to one
// communicator share the kernels, and their messages to a peer are one.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

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

class DifferenceCall final : public PhasedCall {
 public:
  void set(const DifferencePlan& plan);

  CommState& comm() override { return *plan_.comm; }
  cudaStream_t stream() const override { return plan_.args.stream; }
  std::size_t chunk_count() const override;
  std::size_t chunk_bytes(std::size_t chunk) const override { return alone(chunk).bytes; }
  CallKind kind() const override { return plan_.shard.slots != 0 ? CallKind::difference : CallKind::direct; }
  int step_count() const override { return has_second_exchange() ? 3 : 2; }
  const char* phase(int step) const override {
    return step == 0 ? "weight encode" : step == 1 ? "weight add" : "weight scatter";
  }
  void arrange(std::span<const Part> together) override;
  void launch(std::span<const Part> together) override;
  void exchange(std::span<const Part> together) override;

  /// Instead of all steps, where the call went native: takes back what is left of a step.
  void only_answer_probe(const Step& step);

  /// Payload that this rank sends in all chunks.
  [[nodiscard]] LinkBytes sent_bytes() const;

 private:
  [[nodiscard]] bool has_second_exchange() const { return !plan_.tables->local_peers.empty(); }
  [[nodiscard]] WeightChunk chunk_of(std::size_t chunk) const;
  void verify(Exchange exchange, const Step& step) const;
  [[nodiscard]] WeightLayout alone(std::size_t chunk) const;
  [[nodiscard]] WeightLayout layout_of(std::size_t length) const;
  [[nodiscard]] bool is_last(const Step& step) const { return step.chunk + 1 == chunk_count(); }
  static void launch_encode(std::span<const Part> together);
  static void launch_add(std::span<const Part> together);
  static void launch_scatter(std::span<const Part> together);
  [[nodiscard]] EncodeDifference encode_args(const Step& step) const;
  [[nodiscard]] AddDifference add_args(const Step& step) const;
  [[nodiscard]] ScatterShards scatter_args(const Step& step) const;
  [[nodiscard]] PublishArgs publish_args(const Step& step) const;
  void keep_exact(const Step& step) const;
  [[nodiscard]] std::byte* own_slice() const;
  [[nodiscard]] ProbeArgs probe_args() const;

  DifferencePlan plan_;
  ChecksumCall checksum_call_;
  std::size_t chunk_length_ = 0;
  WeightLayout full_chunk_;  // of a chunk of that length, alone
  WeightLayout layout_;      // of the chunk under way, with those that it travels with
};

}  // namespace sdp4bit
