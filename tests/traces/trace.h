// What the traces share: data that any rank can compute, calls with their verdicts, and checks of numbers.
//
// A trace is the order of calls, buffers and communicators of a training framework, at a small size. Each
// call is written down as native or compressed, and the trace says in advance which it must be.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "catch.h"
#include "cluster.h"
#include "tests/collectives/statistics/statistics.h"

namespace sdp4bit::test {

/// Most that a code of compand4 is off, in parts of its group's largest difference.
inline constexpr double kCodeError = 0.191;
/// Of weights that move by at most 0.04 * 0.7 * 0.1 a version and are rounded: the code's error of that and
/// of the former error, and half an ulp of bf16 below 0.125.
inline constexpr double kDifferenceError = (kCodeError * (0.0028 + 0x1p-12) + 0x1p-12) / (1 - kCodeError);
/// Of weights that are replaced by others: differences of at most 0.22.
inline constexpr double kJumpError = kCodeError * 0.22 + 2.5e-4;
/// Root mean square relative to the exact sum's: what dither4 gives on many nodes, at most 11 %, and the
/// scatter of a thousand elements.
inline constexpr double kGradientError = 0.14;

/// Of a model's layer or bucket, on the rank that owns it: bf16 moves little from version to version.
[[nodiscard]] float weight(int layer, int version, int rank, std::size_t index);
/// About 1, without memory from version to version.
[[nodiscard]] float gradient(int layer, int version, int rank, std::size_t index);

/// One rank's program on one communicator.
class Program {
 public:
  explicit Program(RankContext& rank) : Program(rank, rank.comm) {}
  Program(RankContext& rank, ncclComm_t comm);
  [[nodiscard]] ncclComm_t comm() const { return comm_; }
  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(ranks_); }

  /// The call, and whether it was compressed, under the name `kind`. Outside groups it is over on return.
  void gather(const std::string& kind, const std::byte* send, std::byte* receive, std::size_t count,
              ncclDataType_t type = ncclBfloat16);
  void reduce(const std::string& kind, const std::byte* send, std::byte* receive, std::size_t count,
              ncclDataType_t type = ncclFloat32, ncclRedOp_t op = ncclSum);
  void group(const std::function<void()>& calls);
  /// In a program that opens groups by itself.
  void begin_group() { ++depth_; }
  void end_group();

  /// The optimizer's step: this rank's weights of a layer, and the check of what a gather gave. The check's
  /// hash is compared between the ranks.
  void store_weights(std::byte* shard, std::size_t count, int layer, int version,
                     ncclDataType_t type = ncclBfloat16) const;
  void check_weights(const std::byte* all, std::size_t count, int layer, int version, double bound,
                     ncclDataType_t type = ncclBfloat16);
  /// The backward pass, and the check of the reduced shard: `factor` times the sum of all ranks.
  void store_gradients(std::byte* all, std::size_t count, int layer, int version,
                       ncclDataType_t type = ncclFloat32) const;
  void check_gradients(const std::byte* shard, std::size_t count, int layer, int version, double factor,
                       double bound = kGradientError, ncclDataType_t type = ncclFloat32) const;

  /// The verdicts on all calls of a kind so far, as in "11 native, 5 compressed".
  [[nodiscard]] std::string verdicts(const std::string& kind) const;
  void expect_verdicts(const std::string& kind, const std::string& wanted) const;
  /// Why the last call of a function went where it went.
  void expect_why(const char* collective, const std::string& start) const;

 private:
  void record(const std::string& kind, const char* collective);
  [[nodiscard]] std::uint64_t compressed(const char* collective) const;

  RankContext& context_;
  ncclComm_t comm_;
  int rank_ = 0, ranks_ = 0, depth_ = 0;
  struct Pending {
    std::string kind;
    const char* collective;
  };
  std::vector<Pending> pending_;
  std::map<std::string, std::uint64_t> compressed_before_;  // by collective
  std::map<std::string, std::string> verdicts_;             // by kind, a letter for each call
};

/// Runs a trace under the library's defaults, but that small calls are taken and that all ranks hold the same
/// bits from the first difference (traces of `auto`: test_own_shard.cpp); all checked weights must be equal
/// on all ranks. Returns the outcomes for their logs.
std::vector<Outcome> run_trace(const std::vector<int>& node_of, const Environment& more,
                               const std::function<void(RankContext&)>& body);
/// As it is launched: every process knows the size of the job.
[[nodiscard]] Environment job_of(int ranks);

/// A communicator by color and key, with the name that PyTorch and Megatron-LM would give it.
[[nodiscard]] ncclComm_t split(RankContext& rank, int color, const char* name);

}  // namespace sdp4bit::test
