// One call of the program, and the calls of one group on one communicator.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "sandbox/nccl/reduce.h"
#include "sandbox/nccl/signature.h"

namespace sandbox::nccl {

class Communicator;

struct Operation {
  Signature signature;
  const std::byte* send = nullptr;
  std::byte* receive = nullptr;
  ReduceKind kind = ReduceKind::sum;
  uint64_t factor = 0;                   // bits of the pre-multiplication
  const void* factor_address = nullptr;  // set: read the factor from the device when the operation runs
  cudaStream_t stream = nullptr;
  uint64_t issue = 0;  // number of the call on this rank

  [[nodiscard]] size_t element_bytes() const;
  // Bytes of one rank's part: what `count` stands for.
  [[nodiscard]] size_t part_bytes() const { return static_cast<size_t>(signature.count) * element_bytes(); }
};

// What one stream item executes. Immutable once enqueued: a graph runs it again at each replay.
struct Batch {
  std::shared_ptr<Communicator> communicator;
  std::vector<Operation> operations;
  bool captured = false;
  std::atomic<bool> ran{false};
};

// Runs collective number `number` of a communicator. Throws Failure or Aborted.
void run_collective(Communicator& communicator, const Operation& operation, uint64_t number);
// How much an operation writes to its receive buffer.
[[nodiscard]] size_t received_bytes(const Operation& operation, int rank, int ranks);
// Runs the sends and receives among `operations`, all at once.
void run_point_to_point(Communicator& communicator, const std::vector<Operation>& operations);

}  // namespace sandbox::nccl
