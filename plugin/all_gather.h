// How a weight travels: the AllGather of one communicator, with its classes, slots and ledger.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "plugin/gather_step.h"
#include "plugin/phased_call.h"

namespace sdp4bit {

class CommState;

/// As the program gave them.
struct AllGatherArgs {
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;  // elements of the shard
  ncclDataType_t type = ncclBfloat16;
  cudaStream_t stream = nullptr;
};

/// Where a class stands: the same on every rank.
struct ClassStanding {
  std::uint32_t number = 0;  // from 1; 0: no class yet
  std::uint32_t slots = 0;
  std::uint32_t stage = 0;
};

/// The weights' side of one communicator: created when its agreement is on, destroyed with it.
///
/// The group engine asks decide() at the call, passes the call on unless it is a difference, and behind the
/// natives of the outermost group asks enroll() for each call that was not refused, in call order.
class WeightState {
 public:
  explicit WeightState(CommState& comm);
  ~WeightState();
  WeightState(const WeightState&) = delete;
  WeightState& operator=(const WeightState&) = delete;

  /// Rank-invariant. A class has one kind in an outermost group; `epoch` numbers the groups of the process.
  [[nodiscard]] GatherKind decide(const AllGatherArgs& call, std::uint64_t epoch);
  /// Gives the call its number. What has to run now (owned here, valid until the next group), or nullptr.
  [[nodiscard]] PhasedCall* enroll(const AllGatherArgs& call, GatherKind kind, std::uint64_t epoch);
  /// Of the class that the call belongs to.
  [[nodiscard]] ClassStanding standing(const AllGatherArgs& call) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sdp4bit
