// Everything the library knows about one communicator, and the registry of them.
//
// A communicator is used by one thread at a time (NCCL's rule), so only what another thread may touch is
// atomic: the aborted flag, and the registry. Groups hold shared pointers: an abort on another thread frees
// nothing in use.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/device_counters.h"
#include "kernels/launch.h"
#include "kernels/launch_checksum.h"
#include "kernels/launch_weight.h"
#include "kernels/random.h"
#include "plugin/checksums.h"
#include "plugin/comm_clock.h"
#include "plugin/cuda_raii.h"
#include "plugin/first_number.h"
#include "plugin/gradient_health.h"
#include "plugin/gradient_plan.h"
#include "plugin/native_traffic.h"
#include "plugin/options.h"
#include "plugin/phased_call.h"
#include "plugin/policy.h"
#include "plugin/sampled_error.h"
#include "plugin/stats.h"
#include "plugin/topology.h"

namespace sdp4bit {

class WeightState;  // all_gather.h
class CheckVote;    // check_vote.h
struct Handshake;   // agreement.h
struct RealNccl;    // real_nccl.h

/// What the creating call said. Communicators that were created out of our sight have `seen` false.
struct CommOrigin {
  bool seen = false;
  bool blocking = true;
  bool part = false;  // split or shrunk from another communicator, or grown from such a one
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
  PinnedBuffer source;
  const std::uint32_t* first_phase = nullptr;  // what quantize sends to whom
  const std::uint32_t* own_column = nullptr;   // two levels: (node, own local rank) for each node
};

/// Arguments of launches that are being put together; kept, so that no call allocates.
struct BatchedLaunches {
  std::vector<QuantizeArgs> quantize;
  std::vector<ReduceRequantizeArgs> reduce_requantize;
  std::vector<ReduceFinishArgs> reduce_finish;
  std::vector<EncodeDifference> encode;
  std::vector<AddDifference> add;
  std::vector<ScatterShards> scatter;
};

/// What kernels count in device memory.
struct DeviceWords {
  DeviceCounters counters;
  std::uint32_t finished_blocks[kFinishedWords] = {};  // of the launch that is under way: 0 between launches
};

/// What kernels write to pinned memory.
struct HostWords {
  std::uint32_t error = 0;  // 1: a header arrived that cannot be
  ChecksumFailure checksum_failure{};
  FunctionChecksums checksum_counts;
  DeviceCounters counters;
};

class CommState : public std::enable_shared_from_this<CommState> {
 public:
  CommState(ncclComm_t handle, CommOrigin origin);
  ~CommState();
  CommState(const CommState&) = delete;
  CommState& operator=(const CommState&) = delete;

  OpenStats stats;  // first: its class counters outlive the weights' side

  // Fixed from the start.
  const ncclComm_t handle;
  const CommOrigin origin;
  std::uint32_t ranks = 1;
  std::uint32_t rank = 0;
  int device = 0;
  bool blocking = true;
  std::uint32_t number = 0;  // how many communicators this process had on this device before

  /// What the program said that the communicator carries: HandshakeRecord::Bits. In force if all ranks said
  /// something before their first call.
  std::atomic<std::uint32_t> hint{0};
  std::atomic<bool> handshake_started{false};  // too late for hints

  // Agreed by the handshake; fixed from then on.
  Agreement agreement = Agreement::pending;
  std::unique_ptr<Handshake> handshake;    // from the first call until it is read
  std::unique_ptr<PhasedCall> connecting;  // run once, by the group that read the agreement
  bool connected = false;
  Carried carried;
  bool gradients_native = false;  // ReduceScatter stays with NCCL: padding may be garbage
  Topology topology;
  LeastBytes least_bytes;
  std::array<NativeShards, kCollectives.size()> native_shards;  // by function
  NoiseKey noise;
  PhiloxSchedule noise_schedule{};  // of that key
  GradientWay gradient_way;
  GradientPlans gradient_plans;

  // Memory: allocated with the handshake, given back when it says no.
  DeviceBuffer workspace;   // SDP4BIT_WORKSPACE bytes, the same on all ranks
  DeviceBuffer words;       // DeviceWords; then scratch for connecting
  PinnedBuffer host_words;  // HostWords
  ErrorSampling sampling;
  Checksums checksums;
  SegmentTables tables;
  BatchedLaunches launches;
  GradientHealth health;
  Event join;      // brings the streams of one group together
  Event last_use;  // of the workspace
  /// Of the workspace, by a capture that need not have ended. More than these at a time are ordered by their
  /// replays alone.
  struct CapturedUse {
    unsigned long long capture = 0;  // its id
    Event event;
  };
  std::array<CapturedUse, 8> captured_uses;
  std::size_t captures_seen = 0;
  /// nullptr if the capture has not used this communicator yet.
  [[nodiscard]] CapturedUse* use_by_capture(unsigned long long capture);
  /// From then on the graph holds the state.
  CapturedUse& begin_capture(unsigned long long capture, cudaGraph_t graph);
  std::unique_ptr<CheckVote> vote;       // created with the agreement if all ranks check their calls
  std::unique_ptr<WeightState> weights;  // created when the agreement is on

  // Counting. Numbers are given when calls are launched.
  CommClock clock{first_number()};
  bool gradients_before = false;     // an eager ReduceScatter was compressed
  std::uint32_t draws_in_group = 0;  // noise draws taken by calls of this group

  /// Requests of the program that all classes of weights learn anew; see WeightState.
  std::atomic<std::uint64_t> resets_asked{0};

  std::atomic<bool> aborted{false};
  /// Calls are for NCCL to refuse.
  std::atomic<bool> finalized{false};
  /// A call of ours ended half done: what this rank would send next need not be what its peers expect.
  std::atomic<bool> failed{false};
  /// Threads in a bounded wait or about to give NCCL the handle: an abort lets them leave before NCCL frees
  /// it.
  std::atomic<int> waiting{0};

  /// The next value for Draw::offset in this group; the last kernel of its gradients advances the counter.
  [[nodiscard]] Draw take_draw() { return {.counter = draw_counter(), .offset = draws_in_group++}; }
  [[nodiscard]] std::uint64_t* draw_counter() const { return &counters()->draws; }
  [[nodiscard]] DeviceCounters* counters() const { return &words.as<DeviceWords>()->counters; }
  [[nodiscard]] std::uint32_t* finished_blocks() const { return words.as<DeviceWords>()->finished_blocks; }
  [[nodiscard]] CounterMirror counter_mirror() const {
    return {counters(), &host_words.as<HostWords>()->counters};
  }
  [[nodiscard]] std::uint32_t* error_flag() const { return &host_words.as<HostWords>()->error; }
  [[nodiscard]] FunctionChecksums* checksum_counts() const {
    return &host_words.as<HostWords>()->checksum_counts;
  }
  [[nodiscard]] ChecksumFailure* checksum_failure() const {
    return &host_words.as<HostWords>()->checksum_failure;
  }
  [[nodiscard]] const NativeShards& native(Collective collective) const {
    return native_shards[static_cast<std::size_t>(collective)];
  }
  /// Whether a call that is native for a lasting reason changes nothing here: neither its number nor its
  /// group matter any more. All ranks alike.
  [[nodiscard]] bool settled() const;
  /// Throws if a kernel has met a header that cannot be or data that does not fit its checksum, if an earlier
  /// call failed here, or after an abort.
  void check_usable() const;

  /// User operators; copied at the call, for PyTorch destroys the handle before the group ends.
  struct Operator {
    ncclRedOp_t handle;
    PreMulSum state;
  };
  std::vector<Operator> operators;
  [[nodiscard]] const PreMulSum* find_operator(ncclRedOp_t op) const;

  [[nodiscard]] LogSubject subject() const { return {static_cast<int>(rank), device}; }
};

/// While it lives an abort of another thread waits: for short calls into NCCL that never block. Throws if the
/// abort came first, for then NCCL may have freed the handle.
class StayFromAbort {
 public:
  explicit StayFromAbort(CommState& comm);
  ~StayFromAbort() { comm_.waiting.fetch_sub(1); }
  StayFromAbort(const StayFromAbort&) = delete;
  StayFromAbort& operator=(const StayFromAbort&) = delete;

 private:
  CommState& comm_;
};

/// Remembers what a creating call said, until the communicator is used.
void note_created(ncclComm_t handle, CommOrigin origin);
/// The copy of NCCL that made a communicator; nullptr if neither its creation nor a use of it was seen.
[[nodiscard]] const RealNccl* nccl_of(ncclComm_t handle);
/// The state of a communicator, made at its first use; nullptr if NCCL does not know the handle (yet).
[[nodiscard]] std::shared_ptr<CommState> find_comm(ncclComm_t handle);
/// The same without making it: nullptr if it was not used yet.
[[nodiscard]] std::shared_ptr<CommState> known_comm(ncclComm_t handle);
/// Changes whenever a handle may have come to mean something else, so that who remembers a state can tell.
[[nodiscard]] std::uint64_t registry_generation() noexcept;
/// Forgets a communicator; its memory goes when nobody uses it any more. Its device, or -1 if it was never
/// used.
int forget_comm(ncclComm_t handle);
/// Before NCCL aborts: makes waits of other threads end, and later calls fail.
void abort_comm(ncclComm_t handle);
/// After NCCL refused to revoke: the communicator is as before.
void unabort_comm(ncclComm_t handle);

}  // namespace sdp4bit
