// Everything the library knows about one communicator, and the registry of them.
//
// A communicator is used by one thread at a time (NCCL's rule), so only what another thread may touch is
// atomic: the aborted flag, and the registry. Groups hold shared pointers: an abort on another thread frees
// nothing in use.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>

#include "kernels/launch.h"
#include "plugin/cuda_raii.h"
#include "plugin/options.h"
#include "plugin/policy.h"
#include "plugin/stats.h"
#include "plugin/topology.h"

namespace sdp4bit {

class WeightState;  // all_gather.h
struct Handshake;   // handshake.h

/// What the creating call said. Communicators that were created out of our sight have `seen` false.
struct CommOrigin {
  bool seen = false;
  bool blocking = true;
  bool part = false;  // made from another communicator (split, shrink)
  std::string name;   // ncclConfig_t::commName
};

/// A user's reduction operator: its scalar, as NCCL keeps it.
struct PreMulSum {
  ncclDataType_t type = ncclFloat32;
  float value = 1.0f;                    // a scalar in host memory, read at creation
  const void* device_pointer = nullptr;  // or in device memory, read when the kernel runs
};

/// Device arrays that say which input segment goes where; see reduce_scatter.cpp.
struct SegmentTables {
  DeviceBuffer memory;
  const std::uint32_t* first_phase = nullptr;  // what quantize sends to whom
  const std::uint32_t* own_column = nullptr;   // two levels: (node, own local rank) for each node
};

class CommState {
 public:
  CommState(ncclComm_t handle, CommOrigin origin);
  ~CommState();
  CommState(const CommState&) = delete;
  CommState& operator=(const CommState&) = delete;

  // Fixed from the start.
  const ncclComm_t handle;
  const CommOrigin origin;
  std::uint32_t ranks = 1;
  std::uint32_t rank = 0;
  int device = 0;
  std::uint32_t number = 0;  // how many communicators this process had on this device before

  // Agreed by the handshake; fixed from then on.
  Agreement agreement = Agreement::pending;
  std::unique_ptr<Handshake> handshake;  // from the first call until it is read
  Topology topology;
  NoiseKey noise;

  // Memory: allocated with the handshake, given back when it says no.
  DeviceBuffer workspace;   // SDP4BIT_WORKSPACE bytes, the same on all ranks
  DeviceBuffer words;       // see draw_counter()
  PinnedBuffer error_word;  // a kernel that met a header that cannot be writes 1
  SegmentTables tables;
  Event last_use;                        // of the workspace
  cudaStream_t last_stream = nullptr;    // which recorded last_use
  std::unique_ptr<WeightState> weights;  // created when the agreement is on

  // Counting. Numbers are given when calls are launched.
  std::uint64_t calls_launched =
      0;                          // ReduceScatter and AllGather: neither zero-count nor captured nor refused
  std::uint64_t group_epoch = 0;  // the outermost group that the next two belong to
  std::uint64_t calls_before_group = 0;
  std::uint32_t draws_in_group = 0;  // noise draws taken by calls of this group
  CommStats stats;

  std::atomic<bool> aborted{false};

  /// The next value for Draw::offset in this group; the engine advances the counter behind the group.
  [[nodiscard]] Draw take_draw() { return {.counter = draw_counter(), .offset = draws_in_group++}; }
  [[nodiscard]] std::uint64_t* draw_counter() const { return words.as<std::uint64_t>(); }
  [[nodiscard]] std::uint32_t* error_flag() const { return error_word.as<std::uint32_t>(); }
  /// Throws if a kernel has met a header that cannot be, or if the communicator was aborted.
  void check_usable() const;

  /// User operators by handle value; copied at the call, for PyTorch destroys the handle before the group
  /// ends.
  std::unordered_map<int, PreMulSum> operators;

  [[nodiscard]] LogSubject subject() const { return {static_cast<int>(rank), device}; }
};

/// Remembers what a creating call said, until the communicator is used.
void note_created(ncclComm_t handle, CommOrigin origin);
/// The state of a communicator, made at its first use; nullptr if NCCL does not know the handle (yet).
[[nodiscard]] std::shared_ptr<CommState> find_comm(ncclComm_t handle);
/// Forgets a communicator; its memory goes when nobody uses it any more.
void forget_comm(ncclComm_t handle, bool aborted);

}  // namespace sdp4bit
