// A program that gathers weights step after step, as a distributed optimizer does, and checks what it gets.
//
// Weights are a function of (rank, buffer, step), so every rank knows what every other one sent.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cluster.h"

namespace sdp4bit::test {

/// What the program can do to its buffers between two steps, on one rank.
class Disturbance {
 public:
  virtual ~Disturbance() = default;
  virtual void scribble(int buffer) = 0;              // garbage into the receive buffer
  virtual void fill(int buffer, std::byte byte) = 0;  // the same byte everywhere; 0xff: NaN of every type
  virtual void move(int buffer) = 0;                  // to a new address
  virtual void exchange(int buffer, int other) = 0;   // their addresses
  virtual void reload(int buffer) = 0;                // other weights; must be done on all ranks alike
  virtual void expect_jump(int buffer) = 0;           // another rank disturbs what it sends
  virtual void fail_next_allocation() = 0;
};

/// compand4's outermost levels stand at 0.81 and 0.85 of the range.
inline constexpr double kCompandLevels = 0.5 / 0.2;

struct GatherJob {
  int nodes = 2, local_ranks = 2;
  std::vector<int> node_of = {};  // of each rank, where nodes are unequal
  std::size_t count = 3001;       // elements of a shard
  ncclDataType_t type = ncclBfloat16;
  int buffers = 2;
  int steps = 60;
  bool in_place = true;
  std::size_t misalignment = 0;  // elements
  std::size_t odd = 0;           // bytes that the address is off by besides
  bool grouped = false;          // all buffers' gathers in one group
  bool two_streams = false;      // buffers take turns
  bool fresh = false;            // a new receive buffer for every gather
  bool pool = false;             // all buffers take turns in one receive buffer
  bool still = false;            // weights never change
  Environment environment = {};
  std::function<Environment(int rank)> environment_of_rank = nullptr;
  /// Called before each step. A buffer that it moves, exchanges or reloads is not held to the bound for
  /// `recovery` steps; garbage is no excuse.
  std::function<void(int rank, int step, Disturbance&)> before = nullptr;
  int recovery = 0;
  bool owner_is_exact = false;  // the own slice must be the weights, and is not compared between ranks
  double bound = 0.0;  // 0: what differences promise; else the largest error relative to a group's maximum
  std::size_t group = 1024;        // SDP4BIT_WEIGHT_GROUP
  double levels = kCompandLevels;  // a group's largest difference over twice the largest error of a code
  bool narrow_scales = true;       // SDP4BIT_SCALE=bf16: rounded up
};

struct GatherResult {
  std::string failure;                                // of any rank, "" if there is none
  std::vector<std::string> logs;                      // by rank
  std::vector<std::vector<std::uint64_t>> hashes;     // by rank, then by call
  std::vector<CallCounts> calls;                      // by rank
  std::vector<std::vector<std::uint64_t>> last_step;  // by sender: bytes to each rank in the last step
};

[[nodiscard]] GatherResult run(const GatherJob& job);
/// Several jobs take turns on one communicator, step by step: cluster, environment and steps are the first
/// one's. Counts of calls and bytes are of all together; hashes are by job.
[[nodiscard]] std::vector<GatherResult> run_together(const std::vector<GatherJob>& jobs);

/// Empty where all ranks hold the same bits after every call.
[[nodiscard]] std::string disagreement(const GatherResult& result);

}  // namespace sdp4bit::test
