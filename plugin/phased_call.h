// What the group engine runs: a collective of our own making, cut into chunks of steps "kernels, then one
// exchange".
//
// The engine runs all calls of an outermost group in lockstep: step by step, the kernels of every call first,
// then one internal NCCL group with the exchanges of every call. Handshakes, records, gradients and weights
// are all calls of this kind. The engine makes the communicator's device current, and has all work of one
// communicator on one stream, joined to the streams of the calls before and after.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>

namespace sdp4bit {

class CommState;

/// Where a call stands.
struct Step {
  std::size_t chunk = 0;
  int step = 0;
  std::span<std::byte>
      workspace;  // chunk_bytes(chunk) bytes, 256-byte aligned, the same in all steps of the chunk
  cudaStream_t stream = nullptr;
};

class PhasedCall {
 public:
  virtual ~PhasedCall() = default;

  virtual CommState& comm() = 0;
  /// The stream that the program gave to the call.
  virtual cudaStream_t stream() const = 0;

  /// Chunks run one after the other. Their number and size follow from rank-invariant facts alone.
  virtual std::size_t chunk_count() const = 0;
  /// Bytes of the communicator's workspace that a chunk needs; 0 if it has memory of its own.
  virtual std::size_t chunk_bytes(std::size_t chunk) const = 0;
  /// Steps of each chunk: in step s first launch(s) is called, then exchange(s) in an open group of the real
  /// NCCL. A last step without exchange is the place for what follows the last exchange.
  virtual int step_count() const = 0;

  /// A step's name for profilers; lives as long as the process.
  virtual const char* phase(int step) const = 0;

  /// Enqueues the kernels of a step.
  virtual void launch(const Step& step) = 0;
  /// Issues the NCCL calls of a step through real_nccl(); may issue none.
  virtual void exchange(const Step& step) = 0;
};

}  // namespace sdp4bit
