// Runs phased calls in lockstep: kernels of a step for all, then one NCCL group with the exchanges of all.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <vector>

#include "plugin/comm_state.h"
#include "plugin/cuda_raii.h"
#include "plugin/phased_call.h"

namespace sdp4bit {

/// Calls of one communicator that exceed its workspace go in rounds; which chunks share a round depends on
/// their sizes and order alone. Keeps its lists: no allocation once warm.
class Lockstep {
 public:
  void run(std::span<PhasedCall* const> calls, DeviceSwitch& device);

 private:
  /// A communicator of this run: all its calls go on one stream, that of its first call.
  struct Lane {
    CommState* comm;
    cudaStream_t stream;
    CommState::CapturedUse* captured_use = nullptr;  // of the stream's capture; nullptr: it is in none
    std::size_t used = 0;                            // bytes of the workspace in this round
    bool full = false;
  };
  /// A call, and what it answers once and for all.
  struct Job {
    PhasedCall* call;
    std::size_t lane;
    cudaStream_t stream;
    CallKind kind;
    int steps;
    std::size_t chunks;
    std::size_t chunk = 0;
    std::size_t bytes = 0;  // of the workspace, for that chunk
    bool active = false;    // in this round ...
    bool placed = false;    // ... and among its parts
  };
  /// Calls that take the steps of this round together: some of its parts, one behind the other.
  struct Together {
    std::size_t lane;
    std::size_t first, count;
    int steps;
    bool exchanges = false;  // in the present step
  };

  std::size_t lane_of(CommState& comm, cudaStream_t stream);
  void hand_over(DeviceSwitch& device);
  int choose_round();
  void form(Job& first);
  [[nodiscard]] std::span<Part> parts_of(const Together& together) {
    return std::span(parts_).subspan(together.first, together.count);
  }
  void run_step(int step, DeviceSwitch& device);
  void hand_back(DeviceSwitch& device);

  std::vector<Lane> lanes_;
  std::vector<Job> jobs_;
  std::vector<Part> parts_;  // of this round
  std::vector<Together> together_;
};

}  // namespace sdp4bit
