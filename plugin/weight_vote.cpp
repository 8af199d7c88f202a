// Votes before differences; see weight_vote.h.
#include "plugin/weight_vote.h"

#include <algorithm>

#include "plugin/bounded_wait.h"
#include "plugin/comm_state.h"
#include "plugin/real_nccl.h"
#include "plugin/weight_checksums.h"

namespace sdp4bit {
namespace {

/// As a record's, with maxima for every group of the shard.
RecordLayout vote_layout(std::size_t count, std::size_t group_size, std::uint32_t ranks) {
  RecordLayout layout = record_layout(count, group_size, ranks);
  layout.bytes = layout.maxima + (count + group_size - 1) / group_size * sizeof(GroupMaxima);
  return layout;
}

RecordLayout layout_of(const DifferencePlan& plan) {
  return vote_layout(plan.shard.shard, plan.shard.codec.group_size, plan.comm->ranks);
}

}  // namespace

std::size_t VotedCall::vote_bytes(std::size_t count, std::size_t group_size, std::uint32_t ranks) {
  return vote_layout(count, group_size, ranks).bytes;
}

void VotedCall::set(const DifferencePlan& plan, std::uint32_t slot_count, CallWords* votes) {
  plan_ = plan;
  difference_.set(plan);
  checksum_call_ = {.use = plan.comm->checksums.next_use(),
                    .number = plan.shard.class_call,
                    .class_number = plan.shard.class_number};
  slot_count_ = slot_count;
  votes_ = votes;
  native_ = false;
}

std::size_t VotedCall::chunk_bytes(std::size_t chunk) const {
  const std::size_t bytes = difference_.chunk_bytes(chunk);
  return chunk == 0 ? std::max(bytes, layout_of(plan_).bytes) : bytes;
}

Part VotedCall::inner(const Step& step) {
  Part part{.call = &difference_, .step = step};
  --part.step.step;
  return part;
}

void VotedCall::launch_step(const Step& step) {
  if (step.step == 0) {
    if (step.chunk == 0) launch_vote(step);
    return;
  }
  if (step.step == 1 && step.chunk == 0) read_vote(step);
  if (!native_) {
    const Part part = inner(step);
    if (step.step == 1) difference_.arrange({&part, 1});
    return difference_.launch({&part, 1});
  }
  if (step.step == 2 && step.chunk == 0) launch_entries(step);
}

void VotedCall::exchange_step(const Step& step) {
  std::byte* const workspace = step.workspace.data();
  if (step.step == 0) {
    if (step.chunk != 0) return;
    const RecordLayout layout = layout_of(plan_);
    check(real_nccl().all_gather(workspace + layout.own, workspace + layout.all, sizeof(MessageHeader),
                                 ncclUint8, plan_.comm->handle, step.stream));
  } else if (!native_) {
    const Part part = inner(step);
    difference_.exchange({&part, 1});
  } else if (step.step == 1 && step.chunk == 0) {
    check(real_nccl().all_gather(plan_.args.send, plan_.args.receive, plan_.args.count, plan_.args.type,
                                 plan_.comm->handle, step.stream));
  }
}

void VotedCall::launch_vote(const Step& step) {
  const RecordLayout layout = layout_of(plan_);
  std::byte* const workspace = step.workspace.data();
  auto* const maxima = reinterpret_cast<GroupMaxima*>(workspace + layout.maxima);
  plan_.tables->upload(step.stream);
  check(measure_difference(
      {.chunk = plan_.shard, .shard = plan_.args.send, .entry = plan_.own_entry, .maxima = maxima},
      step.stream));
  check(write_record({.chunk = plan_.shard,
                      .maxima = maxima,
                      .maxima_count = group_count(plan_.shard.shard, plan_.shard.codec),
                      .flags = kReady,
                      .slot = plan_.slot,
                      .slot_count = slot_count_,
                      .sender = plan_.comm->rank,
                      .record = workspace + layout.own},
                     step.stream));
  seal_record(*plan_.comm, plan_.shard, plan_.args, workspace + layout.own, true, step.stream);
}

/// The one place where the host waits for the present call: what the option asks for. All votes of the group
/// are under way on every rank.
void VotedCall::read_vote(const Step& step) {
  verify_records(*plan_.comm, Exchange::weight_vote, step.workspace.data() + layout_of(plan_).all,
                 checksum_call_, step.stream);
  SetEntriesArgs answer = votes_received(step);
  answer.words = votes_;
  check(set_entries(answer, step.stream));
  wait_bounded(
      *plan_.comm,
      [&] { return __atomic_load_n(&votes_->number, __ATOMIC_ACQUIRE) == plan_.shard.class_call + 1; },
      "the vote on an AllGather");
  plan_.comm->check_usable();
  native_ = (votes_->any_flags & kJump) != 0;
}

void VotedCall::launch_entries(const Step& step) {
  verify_shards(*plan_.comm, *plan_.tables, plan_.shard, plan_.args,
                step.workspace.data() + layout_of(plan_).all, checksum_call_, step.stream);
  SetEntriesArgs entries = votes_received(step);
  entries.senders = plan_.tables->device_holdings();
  entries.sender_count = static_cast<std::uint32_t>(plan_.tables->holdings.size());
  entries.receive = plan_.args.receive;
  entries.ledger = plan_.ledger;
  entries.words = plan_.words;
  check(set_entries(entries, step.stream));
  difference_.only_answer_probe(step);
}

SetEntriesArgs VotedCall::votes_received(const Step& step) const {
  const RecordLayout layout = layout_of(plan_);
  std::byte* const workspace = step.workspace.data();
  return {.chunk = plan_.shard,
          .records = workspace + layout.all,
          .ranks = plan_.comm->ranks,
          .all_ready = reinterpret_cast<std::uint32_t*>(workspace + layout.all_ready),
          .error = plan_.comm->error_flag()};
}

}  // namespace sdp4bit
