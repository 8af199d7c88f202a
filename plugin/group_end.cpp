// What waits for the outermost GroupEnd: votes, native calls that waited for them, then ours in lockstep.
#include <algorithm>
#include <optional>
#include <vector>

#include "plugin/agreement.h"
#include "plugin/boundary.h"
#include "plugin/bounded_wait.h"
#include "plugin/call_description.h"
#include "plugin/check_vote.h"
#include "plugin/group.h"
#include "plugin/log.h"
#include "plugin/real_nccl.h"
#include "plugin/watchdog.h"

namespace sdp4bit {

/// `result`: of NCCL's own end of the group.
ncclResult_t Group::finish_after(ncclResult_t result) {
  if (refused(result)) return result;
  for (const Created& created : created_) {
    if (*created.handle) note_created(*created.handle, created.origin);
  }
  if (error_ != ncclSuccess) {
    fail_all();
    throw Error(
        error_,
        "a call of this group failed before its end (the log names it): nothing of the group is compressed");
  }
  try {
    if (any_voted_) {
      vote();
      const ncclResult_t passed_on = pass_on_voted();
      if (refused(passed_on)) return passed_on;
    }
    launch(result == ncclInProgress);
  } catch (...) {
    fail_all();
    throw;
  }
  return result;
}

/// Votes of one communicator go one after the other, each in a group of NCCL of its own: then they meet also
/// where ranks group their calls differently. Those of several communicators go together, as they must where
/// one thread has several ranks.
void Group::vote() {
  const RelaxedCapture relaxed;
  DeviceSwitch device;
  std::vector<CallDescription> described(calls_.size());
  std::uint32_t rounds = 0;
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    if (!calls_[i].voted) continue;
    calls_[i].comm->check_usable();
    described[i] = describe(calls_[i]);
    described[i].in_group = 0;
    for (std::size_t j = 0; j < calls_.size(); ++j) {
      if (!calls_[j].voted || calls_[j].comm != calls_[i].comm) continue;
      ++described[i].in_group;
      described[i].place += j < i;
    }
    rounds = std::max(rounds, described[i].in_group);
  }
  for (std::uint32_t round = 0; round < rounds; ++round) {
    phased_.clear();
    for (std::size_t i = 0; i < calls_.size(); ++i) {
      if (!calls_[i].voted || described[i].place != round) continue;
      CheckVote& vote = *calls_[i].comm->vote;
      vote.set(described[i], calls_[i].stream());
      phased_.push_back(&vote);
    }
    lockstep_.run(phased_, device);
    for (PhasedCall* const vote : phased_) static_cast<CheckVote*>(vote)->read();
  }
}

CallDescription Group::describe(const Recorded& call) {
  CallDescription description{.collective = static_cast<std::uint32_t>(call.collective),
                              .reason = static_cast<std::uint32_t>(call.reason),
                              .gather = static_cast<std::uint32_t>(call.gather)};
  if (call.collective == Collective::reduce_scatter) {
    description.count = call.reduce_scatter.count;
    description.type = static_cast<std::uint32_t>(call.reduce_scatter.type);
    description.op = described_op(call.reduce_scatter.op);
    return description;
  }
  description.count = call.all_gather.count;
  description.type = static_cast<std::uint32_t>(call.all_gather.type);
  if (call.tracked) {
    const ClassStanding standing = call.comm->weights->standing(call.all_gather);
    description.weight_class = standing.number;
    description.slots = standing.slots;
    description.stage = standing.stage;
  }
  return description;
}

/// Native calls that waited for the votes, in the program's order.
ncclResult_t Group::pass_on_voted() {
  const RealNccl& real = real_nccl();
  const InsideNccl inside;
  const WatchedWait watched("a native call of a group, in NCCL: some rank has not come to it", {});
  if (const ncclResult_t started = real.group_start(); refused(started)) return started;
  ncclResult_t result = ncclSuccess;
  for (const Recorded& call : calls_) {
    if (call.voted && call.reason != Reason::compressed && !refused(result))
      result = pass_on(call, call.reduce_scatter.op);
  }
  const ncclResult_t ended = real.group_end();
  return refused(result) ? result : ended;
}

void Group::launch(bool in_progress) {
  if (calls_.empty()) return;
  const LogScope scope(calls_.front().comm->subject());
  phased_.clear();
  std::optional<RelaxedCapture> relaxed;
  DeviceSwitch device;
  for (Recorded& call : calls_) {
    CommState& comm = *call.comm;
    count(call);
    const LaunchSteps steps = launch_steps({.first = call.counts && comm.clock.launches_first(),
                                            .counts = call.counts,
                                            .tracked = call.tracked,
                                            .compressed = call.reason == Reason::compressed,
                                            .agreement = comm.agreement,
                                            .connected = comm.connected});
    if (!steps.any()) continue;  // NCCL's, and no CUDA call of ours

    if (!relaxed) relaxed.emplace();
    device.to(comm.device);
    const cudaStream_t stream = call.stream();
    if (steps.handshake) {
      if (in_progress) {
        comm.blocking = false;  // also of a communicator whose creation we did not see
        wait_ready(comm);
      }
      phased_.push_back(start_handshake(comm, stream));
    }
    if (steps.connecting) phased_.push_back(start_connecting(comm, stream));
    if (steps.health_records) {
      if (PhasedCall* const records = comm.health.start_records(comm, stream, epoch_))
        phased_.push_back(records);
    }
    ScaleHistogram* const scales =
        call.looked_after
            ? comm.health.number_call(call.reduce_scatter.count, call.reduce_scatter.type, epoch_)
            : nullptr;
    if (steps.gather) {
      if (PhasedCall* const gather = comm.weights->enroll(call.all_gather, call.gather, epoch_)) {
        phased_.push_back(gather);
      }
    } else if (steps.gradient) {
      if (gradient_calls_used_ == gradient_calls_.size()) gradient_calls_.emplace_back();
      ReduceScatterCall& gradient = gradient_calls_[gradient_calls_used_++];
      gradient.set(call.comm, call.reduce_scatter, scales);
      const std::size_t bytes = call.reduce_scatter.count * nccl_type_bytes(call.reduce_scatter.type);
      count_sent(*comm.stats, call.collective, comm.native(call.collective).of(bytes), gradient.sent_bytes());
      if (call.counts && comm.sampling.takes(call.collective, epoch_)) gradient.sample_error();
      phased_.push_back(&gradient);
      comm.gradients_before = comm.gradients_before || call.counts;
    }
  }
  if (!phased_.empty()) lockstep_.run(phased_, device);
}

/// This rank left its peers alone with the calls of the group: it must not go on as if it had not.
void Group::fail_all() {
  for (const Recorded& call : calls_) {
    if (call.comm->agreement != Agreement::off) call.comm->failed.store(true);
  }
}

}  // namespace sdp4bit
