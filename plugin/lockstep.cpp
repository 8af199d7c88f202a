// Rounds of steps, and the streams and workspaces they pass between.
#include "plugin/lockstep.h"

#include <algorithm>

#include "plugin/agreement.h"
#include "plugin/boundary.h"
#include "plugin/comm_state.h"
#include "plugin/ranges.h"
#include "plugin/real_nccl.h"
#include "plugin/watchdog.h"

namespace sdp4bit {
namespace {

struct Capture {
  unsigned long long id = 0;  // 0: the stream is not being captured
  cudaGraph_t graph = nullptr;
};

Capture capture_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  Capture capture;
  check(cudaStreamGetCaptureInfo(stream, &status, &capture.id, &capture.graph));
  return status == cudaStreamCaptureStatusActive ? capture : Capture{};
}

/// Closes the group whatever happens: one that stays open would swallow the program's next calls.
class InternalGroup {
 public:
  InternalGroup() { check(real_nccl().group_start()); }
  ~InternalGroup() {
    if (open_) (void)real_nccl().group_end();
  }
  InternalGroup(const InternalGroup&) = delete;
  InternalGroup& operator=(const InternalGroup&) = delete;
  ncclResult_t end() {
    open_ = false;
    return real_nccl().group_end();
  }

 private:
  bool open_ = true;
};

}  // namespace

void Lockstep::run(std::span<PhasedCall* const> calls, DeviceSwitch& device) {
  if (calls.empty()) return;
  lanes_.clear();
  jobs_.clear();
  for (PhasedCall* const call : calls) {
    jobs_.push_back({.call = call, .lane = lane_of(*call), .chunks = call->chunk_count(), .step = {}});
  }
  hand_over(device);
  while (const int steps = choose_round()) {
    for (int step = 0; step < steps; ++step) run_step(step, device);
    for (Job& job : jobs_) job.chunk += job.active;
  }
  hand_back(device);
}

std::size_t Lockstep::lane_of(PhasedCall& call) {
  CommState* const comm = &call.comm();
  const auto found =
      std::find_if(lanes_.begin(), lanes_.end(), [&](const Lane& lane) { return lane.comm == comm; });
  if (found != lanes_.end()) return static_cast<std::size_t>(found - lanes_.begin());
  lanes_.push_back({.comm = comm, .stream = call.stream()});
  return lanes_.size() - 1;
}

void Lockstep::hand_over(DeviceSwitch& device) {
  for (Lane& lane : lanes_) {
    device.to(lane.comm->device);
    CommState& comm = *lane.comm;
    const Capture capture = capture_of(lane.stream);
    lane.captured_use = nullptr;
    if (capture.id == 0) {
      comm.last_use.make_wait(lane.stream);  // also when the handle is the same: it may be a new stream's
    } else if ((lane.captured_use = comm.use_by_capture(capture.id))) {
      lane.captured_use->event.make_wait(lane.stream);
    } else {
      lane.captured_use = &comm.begin_capture(capture.id, capture.graph);
      comm.last_use.make_wait_external(lane.stream);
    }
  }
  for (const Job& job : jobs_) {
    const Lane& lane = lanes_[job.lane];
    if (job.call->stream() == lane.stream) continue;
    device.to(lane.comm->device);
    lane.comm->join.record(job.call->stream());
    lane.comm->join.make_wait(lane.stream);
  }
}

/// Marks the jobs of the next round and gives them their part of the workspace; returns the steps it takes, 0
/// at the end.
int Lockstep::choose_round() {
  constexpr std::size_t kAlign = 256;
  for (Lane& lane : lanes_) {
    lane.used = 0;
    lane.full = false;
  }
  int steps = 0;
  bool left = false;
  for (Job& job : jobs_) {
    job.active = false;
    if (job.chunk == job.chunks) continue;
    left = true;
    Lane& lane = lanes_[job.lane];
    const std::size_t bytes = job.call->chunk_bytes(job.chunk);
    lane.full = lane.full || lane.used + bytes > lane.comm->workspace.bytes();
    if (lane.full && bytes > 0) continue;
    job.active = true;
    job.step = {.chunk = job.chunk,
                .workspace = bytes > 0 ? std::span(lane.comm->workspace.data() + lane.used, bytes)
                                       : std::span<std::byte>{},
                .stream = lane.stream};
    lane.used += round_up(bytes, kAlign);
    steps = std::max(steps, job.call->step_count());
  }
  if (left && steps == 0) throw Error(ncclInternalError, "a chunk is larger than the workspace");
  return steps;
}

void Lockstep::run_step(int step, DeviceSwitch& device) {
  for (Job& job : jobs_) {
    if (!job.active || step >= job.call->step_count()) continue;
    device.to(lanes_[job.lane].comm->device);
    job.step.step = step;
    const Range range(job.call->phase(step));
    job.call->launch(job.step);
  }
  const InsideNccl inside;
  const Range range("exchange");
  InternalGroup group;
  for (Job& job : jobs_) {
    if (!job.active || step >= job.call->step_count()) continue;
    const StayFromAbort stay(*lanes_[job.lane].comm);
    job.call->exchange(job.step);
  }
  const WatchedWait watched("an exchange (the first one between two ranks waits until both have come to it)",
                            lanes_.front().comm->subject());
  const ncclResult_t result = group.end();
  check(result);
  if (result == ncclInProgress) {
    for (const Lane& lane : lanes_) wait_ready(*lane.comm);
  }
}

void Lockstep::hand_back(DeviceSwitch& device) {
  for (Lane& lane : lanes_) {
    CommState& comm = *lane.comm;
    device.to(comm.device);
    if (comm.draws_in_group > 0)
      check(advance_draw(comm.draw_counter(), comm.draws_in_group, lane.stream, comm.counter_mirror()));
    comm.draws_in_group = 0;
    if (lane.captured_use) {
      comm.last_use.record_external(lane.stream);
      lane.captured_use->event.record(lane.stream);
    } else {
      comm.last_use.record(lane.stream);
    }
  }
  for (const Job& job : jobs_) {
    const Lane& lane = lanes_[job.lane];
    if (job.call->stream() == lane.stream) continue;
    device.to(lane.comm->device);
    lane.comm->join.record(lane.stream);
    lane.comm->join.make_wait(job.call->stream());
  }
}

}  // namespace sdp4bit
