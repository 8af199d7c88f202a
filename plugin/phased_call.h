// What the group engine runs: a collective of our own making, cut into chunks of steps "kernels, then one exchange".
//
// The engine runs all calls of an outermost group in lockstep: step by step, the kernels of every call first, then
// one internal NCCL group with the exchanges of every call. Handshakes, records, gradients and weights are all calls
// of this kind.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

namespace sdp4bit {

class CommState;

class PhasedCall {
 public:
  virtual ~PhasedCall() = default;

  virtual CommState& comm() = 0;
  virtual cudaStream_t stream() const = 0;

  /// Chunks run one after the other. Their number and size follow from rank-invariant facts alone.
  virtual std::size_t chunk_count() const = 0;
  /// Bytes of the communicator's workspace that a chunk needs; 0 if it has memory of its own.
  virtual std::size_t chunk_bytes(std::size_t chunk) const = 0;
  /// Steps of each chunk: in step s first launch(chunk, s) is called, then exchange(chunk, s) in an open group.
  virtual int step_count() const = 0;

  /// Enqueues the kernels of a step on stream().
  virtual void launch(std::size_t chunk, int step, std::span<std::byte> workspace) = 0;
  /// Issues the NCCL calls of a step on stream(); may issue none.
  virtual void exchange(std::size_t chunk, int step, std::span<std::byte> workspace) = 0;
};

}  // namespace sdp4bit
