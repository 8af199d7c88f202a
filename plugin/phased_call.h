// What the group engine runs: a collective of our own making, cut into chunks of steps "kernels, then one
// exchange".
//
// The engine runs all calls of an outermost group in lockstep: step by step, the kernels of every call first,
// then one internal NCCL group with the exchanges of every call. Handshakes, records, gradients and weights
// are all calls of this kind. The engine makes the communicator's device current, and has all work of one
// communicator on one stream, joined to the streams of the calls before and after.
//
// Calls of one kind on one communicator take their steps together, so that they can share kernels and
// messages. Which ones do follows from facts that are equal on all ranks: what they send together is one
// message.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace sdp4bit {

class CommState;
class PhasedCall;

/// Where a call stands.
struct Step {
  std::size_t chunk = 0;
  int step = 0;
  std::span<std::byte> workspace;  // of all calls that take the step together, 256-byte aligned, the same in
                                   // all steps of the round: the sum of what their chunks need
  cudaStream_t stream = nullptr;
  bool last_of_kind = false;  // no later round of the group has calls of this kind on the communicator
};

/// A call in a round.
struct Part {
  PhasedCall* call = nullptr;
  Step step{};
};

enum class CallKind : std::uint8_t { single, gradient, difference, direct };  // single: takes its steps alone

class PhasedCall {
 public:
  virtual ~PhasedCall() = default;

  virtual CommState& comm() = 0;
  /// The stream that the program gave to the call.
  virtual cudaStream_t stream() const = 0;
  virtual CallKind kind() const { return CallKind::single; }

  /// Chunks run one after the other. Their number and size follow from rank-invariant facts alone.
  virtual std::size_t chunk_count() const = 0;
  /// Bytes of the communicator's workspace that a chunk needs; 0 if it has memory of its own.
  virtual std::size_t chunk_bytes(std::size_t chunk) const = 0;
  /// Steps of each chunk: in step s first the kernels of step s are launched, then, where exchanges(s) says
  /// so, its NCCL calls issued in an open group of the real NCCL. Of one kind and communicator all have the
  /// same.
  virtual int step_count() const = 0;
  /// By default all but the last: that is the place for what follows the last exchange.
  virtual bool exchanges(int step) const { return step + 1 < step_count(); }

  /// A step's name for profilers; lives as long as the process.
  virtual const char* phase(int step) const = 0;

  /// Once a round, before its first step, asked of the first of `together`: divides their workspace.
  virtual void arrange(std::span<const Part> together) { (void)together; }
  /// Enqueues the kernels of a step; asked of the first of `together`, as the next one.
  virtual void launch(std::span<const Part> together) = 0;
  /// Issues the NCCL calls of a step through real_nccl(); may issue none.
  virtual void exchange(std::span<const Part> together) = 0;
};

/// A call that takes its steps alone.
class SingleCall : public PhasedCall {
 public:
  virtual void launch_step(const Step& step) = 0;
  virtual void exchange_step(const Step& step) = 0;

  void launch(std::span<const Part> together) final { launch_step(together.front().step); }
  void exchange(std::span<const Part> together) final { exchange_step(together.front().step); }
};

}  // namespace sdp4bit
