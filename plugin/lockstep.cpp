// Rounds of steps, and the streams and workspaces they pass between.
#include "plugin/lockstep.h"

#include <algorithm>

#include "plugin/boundary.h"
#include "plugin/bounded_wait.h"
#include "plugin/comm_state.h"
#include "plugin/ranges.h"
#include "plugin/real_nccl.h"
#include "plugin/watchdog.h"

namespace sdp4bit {
namespace {

constexpr std::size_t kAlign = 256;  // of a call's part of the workspace, which is a multiple of it itself

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
    const cudaStream_t stream = call->stream();
    jobs_.push_back({.call = call,
                     .lane = lane_of(call->comm(), stream),
                     .stream = stream,
                     .kind = call->kind(),
                     .steps = call->step_count(),
                     .chunks = call->chunk_count()});
  }
  hand_over(device);
  while (const int steps = choose_round()) {
    for (int step = 0; step < steps; ++step) run_step(step, device);
    for (Job& job : jobs_) job.chunk += job.active;
  }
  hand_back(device);
}

std::size_t Lockstep::lane_of(CommState& comm, cudaStream_t stream) {
  for (std::size_t lane = 0; lane < lanes_.size(); ++lane) {
    if (lanes_[lane].comm == &comm) return lane;
  }
  lanes_.push_back({.comm = &comm, .stream = stream});
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
    if (job.stream == lane.stream) continue;
    device.to(lane.comm->device);
    lane.comm->join.record(job.stream);
    lane.comm->join.make_wait(lane.stream);
  }
}

/// Marks the jobs of the next round and gives them their part of the workspace; returns the steps it takes, 0
/// at the end.
int Lockstep::choose_round() {
  for (Lane& lane : lanes_) {
    lane.used = 0;
    lane.full = false;
  }
  int steps = 0;
  bool left = false;
  for (Job& job : jobs_) {
    job.active = job.placed = false;
    if (job.chunk == job.chunks) continue;
    left = true;
    Lane& lane = lanes_[job.lane];
    const std::size_t bytes = job.call->chunk_bytes(job.chunk);
    job.bytes = round_up(bytes, kAlign);
    lane.full = lane.full || lane.used + bytes > lane.comm->workspace.bytes();
    if (lane.full && bytes > 0) continue;
    job.active = true;
    lane.used += job.bytes;
    steps = std::max(steps, job.steps);
  }
  if (left && steps == 0) throw Error(ncclInternalError, "a chunk is larger than the workspace");

  parts_.clear();
  together_.clear();
  for (Lane& lane : lanes_) lane.used = 0;
  for (Job& job : jobs_) {
    if (job.active && !job.placed) form(job);
  }
  return steps;
}

/// Makes parts of a job of this round and of all others that take their steps with it, and gives them their
/// workspace.
void Lockstep::form(Job& first) {
  Lane& lane = lanes_[first.lane];
  Together together{.lane = first.lane, .first = parts_.size(), .count = 0, .steps = first.steps};
  std::size_t bytes = 0;
  bool last = true;
  for (Job& job : jobs_) {
    if (&job != &first &&
        (first.kind == CallKind::single || job.lane != first.lane || job.kind != first.kind))
      continue;
    last = last && job.chunk + job.active == job.chunks;
    if (!job.active) continue;
    job.placed = true;
    ++together.count;
    bytes += job.bytes;
    parts_.push_back(
        {.call = job.call, .step = {.chunk = job.chunk, .workspace = {}, .stream = lane.stream}});
  }
  for (Part& part : parts_of(together)) {
    if (bytes > 0) part.step.workspace = {lane.comm->workspace.data() + lane.used, bytes};
    part.step.last_of_kind = last;
  }
  lane.used += bytes;
  together_.push_back(together);
  parts_[together.first].call->arrange(parts_of(together));
}

void Lockstep::run_step(int step, DeviceSwitch& device) {
  bool exchanges = false;
  for (Together& together : together_) {
    if (step >= together.steps) continue;
    const std::span<Part> parts = parts_of(together);
    PhasedCall& first = *parts.front().call;
    together.exchanges = first.exchanges(step);
    exchanges = exchanges || together.exchanges;
    device.to(lanes_[together.lane].comm->device);
    for (Part& part : parts) part.step.step = step;
    const Range range(first.phase(step));
    first.launch(parts);
  }
  if (!exchanges) return;
  const InsideNccl inside;
  const Range range("exchange");
  InternalGroup group;
  for (const Together& together : together_) {
    if (step >= together.steps || !together.exchanges) continue;
    const StayFromAbort stay(*lanes_[together.lane].comm);
    const std::span<Part> parts = parts_of(together);
    parts.front().call->exchange(parts);
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
    if (lane.captured_use) {
      comm.last_use.record_external(lane.stream);
      lane.captured_use->event.record(lane.stream);
    } else {
      comm.last_use.record(lane.stream);
    }
  }
  for (const Job& job : jobs_) {
    const Lane& lane = lanes_[job.lane];
    if (job.stream == lane.stream) continue;
    device.to(lane.comm->device);
    lane.comm->join.record(lane.stream);
    lane.comm->join.make_wait(job.stream);
  }
}

}  // namespace sdp4bit
