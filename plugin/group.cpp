// How a group begins and ends for its thread; its calls are taken in group_call.cpp, and run in
// group_end.cpp.
#include "plugin/group.h"

#include <algorithm>
#include <array>
#include <utility>

#include "plugin/boundary.h"
#include "plugin/real_nccl.h"
#include "plugin/watchdog.h"

namespace sdp4bit {
namespace {

/// One for each copy of NCCL. Plain pointers: programs may call NCCL from their last destructors, when a
/// thread_local object with a destructor is gone.
thread_local std::array<Group*, kMostNcclCopies> groups_of_thread{};
thread_local std::uint64_t groups_opened_by_thread = 0;

}  // namespace

Group& Group::current() {
  const RealNccl& nccl = real_nccl();
  Group* const group = groups_of_thread[nccl.index];
  return group ? *group : create(nccl);
}

Group& Group::create(const RealNccl& nccl) {
  struct Deleter {
    ~Deleter() {
      for (Group*& group : groups_of_thread) delete std::exchange(group, nullptr);
    }
  };
  static thread_local Deleter deleter;
  (void)deleter;
  Group* const group = groups_of_thread[nccl.index] = new Group;
  group->nccl_ = &nccl;
  return *group;
}

bool Group::is_open(const RealNccl& nccl) noexcept {
  const Group* const group = groups_of_thread[nccl.index];
  return group && group->depth_ > 0;
}

const RealNccl* Group::open_one() noexcept {
  const Group* latest = nullptr;
  for (const Group* const group : groups_of_thread) {
    if (group && group->depth_ > 0 && (!latest || group->opened_ > latest->opened_)) latest = group;
  }
  return latest ? latest->nccl_ : nullptr;
}

ncclResult_t Group::start() {
  const ncclResult_t result = real_nccl().group_start();
  if (result == ncclSuccess && depth_++ == 0) {
    epoch_ = 0;
    opened_ = ++groups_opened_by_thread;
  }
  return result;
}

ncclResult_t Group::end() {
  if (depth_ == 0) return real_nccl().group_end();  // NCCL knows what to say
  if (--depth_ > 0) return real_nccl().group_end();
  return finish_outermost([] {
    const InsideNccl inside;
    const WatchedWait watched("ncclGroupEnd, in NCCL: some rank has not come to it", {});
    return real_nccl().group_end();
  });
}

ncclResult_t Group::simulate_end(ncclSimInfo_t* info) {
  const RealNccl& real = real_nccl();
  if (!real.group_simulate_end) {
    throw Error(ncclInvalidUsage,
                "the program calls ncclGroupSimulateEnd, which its NCCL does not have (2.22)");
  }
  const InsideNccl inside;
  const Clearing clearing(*this, depth_ <= 1);
  ncclResult_t result = ncclSuccess;
  // Calls of ours were not passed on yet: the simulation is about what NCCL would do with them.
  for (const Recorded& call : calls_) {
    count_call(*call.comm->stats, call.collective, Reason::simulated, 0, 0);
    if (depth_ != 1 || refused(result)) continue;
    if (call.reason != Reason::compressed && !call.voted) continue;
    // A user's operator may be gone by now; a sum takes as long.
    const ReduceScatterArgs& args = call.reduce_scatter;
    result = pass_on(call, args.kind == OpKind::pre_mul_sum ? ncclSum : args.op);
  }
  if (depth_ > 0) --depth_;
  const ncclResult_t ended = real.group_simulate_end(info);
  return refused(result) ? result : ended;
}

ncclResult_t Group::pass_on(const Recorded& call, ncclRedOp_t op) {
  if (call.collective == Collective::reduce_scatter) {
    const ReduceScatterArgs& args = call.reduce_scatter;
    return real_nccl().reduce_scatter(args.send, args.receive, args.count, args.type, op, call.comm->handle,
                                      args.stream);
  }
  const AllGatherArgs& args = call.all_gather;
  return real_nccl().all_gather(args.send, args.receive, args.count, args.type, call.comm->handle,
                                args.stream);
}

bool Group::destroys_at_end(ncclRedOp_t op, ncclComm_t comm) {
  const bool needed = std::any_of(calls_.begin(), calls_.end(), [&](const Recorded& call) {
    return call.voted && call.collective == Collective::reduce_scatter && call.reduce_scatter.op == op &&
           call.comm->handle == comm;
  });
  if (needed) destroyed_.push_back({op, comm});
  return needed;
}

void Group::note_created_at_end(ncclComm_t* handle, const CommOrigin& origin) {
  if (!handle) return;
  if (depth_ > 0) {
    created_.push_back({handle, origin});
  } else if (*handle) {
    note_created(*handle, origin);
  }
}

Group::Clearing::~Clearing() {
  if (!outermost_) return;
  for (const Recorded& call : group_.calls_) call.comm->draws_in_group = 0;
  group_.calls_.clear();
  for (const Destroyed& destroyed : group_.destroyed_) {
    const InsideNccl inside;
    (void)real_nccl().red_op_destroy(destroyed.op, destroyed.comm);
  }
  group_.destroyed_.clear();
  group_.any_voted_ = false;
  group_.created_.clear();
  for (std::size_t i = 0; i < group_.gradient_calls_used_; ++i) group_.gradient_calls_[i].clear();
  group_.gradient_calls_used_ = 0;
  group_.error_ = ncclSuccess;
  group_.epoch_ = 0;
}

}  // namespace sdp4bit
