// What happens at a ReduceScatter or an AllGather: whether it is taken, and what is remembered of it.
#include "plugin/group.h"

#include <atomic>
#include <optional>
#include <utility>

#include "plugin/agreement.h"
#include "plugin/boundary.h"
#include "plugin/driver.h"
#include "plugin/first_number.h"
#include "plugin/log.h"
#include "plugin/real_nccl.h"
#include "plugin/watchdog.h"

namespace sdp4bit {
namespace {

std::uint64_t next_epoch() {
  static std::atomic<std::uint64_t> last{first_number()};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

/// `engaged`: the ranks have agreed, and this one may not go another way alone.
bool is_capturing(cudaStream_t stream, bool engaged) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const ProgramsLastError last_error;
  // The legacy stream answers with an error while another stream captures; NCCL will get the same one.
  const cudaError_t error = cudaStreamIsCapturing(stream, &status);
  if (error != cudaSuccess) {
    last_error.forget_ours();
    if (engaged && error != cudaErrorStreamCaptureImplicit) check(error);
    static Once once;
    if (error != cudaErrorStreamCaptureImplicit && once.first()) {
      // The program's own CUDA may well work: it is another copy, perhaps for older drivers.
      log_warn(
          "CUDA does not work for sdp4bit in this process (%s): it is built for %s; %s; its calls go to NCCL "
          "as if they were captured; where only some ranks say this the others wait for them, so preload "
          "sdp4bit on none (said once)",
          cudaGetErrorName(error), driver_text(CUDART_VERSION, found_driver()).c_str(),
          driver_advice(CUDART_VERSION, found_driver()).c_str());
    }
    return true;
  }
  return status != cudaStreamCaptureStatusNone;
}

CommFacts facts_of(const CommState& comm) {
  return {.ranks = comm.ranks,
          .agreement = comm.agreement,
          .calls_before_group = comm.clock.before_group(),
          .gradients_native = comm.gradients_native,
          .gradients_before = comm.gradients_before,
          .carried = comm.carried,
          .least = comm.agreement == Agreement::on ? &comm.least_bytes : nullptr};
}

void trace(const CallFacts& facts, Reason reason) {
  if (!log_enabled(LogLevel::trace)) return;
  log_trace("%s of %zu elements, type %d: %s", collective_name(facts.collective), facts.count,
            static_cast<int>(facts.type), reason_name(reason));
}

/// What NCCL would apply, or `other` where NCCL has to say no itself.
OpKind op_kind(ncclRedOp_t op, ncclDataType_t type, const PreMulSum* user) {
  if (op == ncclSum) return OpKind::sum;
  if (op == ncclAvg) return OpKind::avg;
  return user && user->type == type ? OpKind::pre_mul_sum : OpKind::other;
}

}  // namespace

std::shared_ptr<CommState> Group::find(ncclComm_t handle) {
  const std::uint64_t generation = registry_generation();
  for (const Known& known : known_) {
    if (known.handle != handle || known.generation != generation) continue;
    if (std::shared_ptr<CommState> state = known.state.lock()) return state;
  }
  std::shared_ptr<CommState> state = find_comm(handle);
  if (state) known_[next_known_++ % known_.size()] = {handle, generation, state};
  return state;
}

/// In an open group NCCL only notes the call, so there is nothing to wait for.
template <typename Call>
ncclResult_t Group::in_nccl(const char* waiting_for, const Call& call) const {
  const InsideNccl inside;
  if (depth_ > 0) return call();
  const WatchedWait watched(waiting_for, {});
  return call();
}

ncclResult_t Group::reduce_scatter(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                                   ncclRedOp_t op, ncclComm_t handle, cudaStream_t stream) {
  const auto pass_on = [&] {
    return in_nccl("ncclReduceScatter, in NCCL: some rank has not come to it", [&] {
      return real_nccl().reduce_scatter(send, receive, count, type, op, handle, stream);
    });
  };
  const std::shared_ptr<CommState> comm = find(handle);
  if (!comm || comm->finalized.load(std::memory_order_relaxed)) return pass_on();
  const LogScope scope(comm->subject());
  return recording(*comm, [&] {
    const PreMulSum* const user = comm->find_operator(op);
    CallFacts facts{.collective = Collective::reduce_scatter,
                    .count = count,
                    .type = type,
                    .op = op_kind(op, type, user)};
    const bool settled = comm->settled();
    if (const auto reason = settled ? lasting_reason(facts, facts_of(*comm), config()) : std::nullopt)
      return pass_lasting(*comm, facts, *reason, pass_on);
    facts.capturing = is_capturing(stream, comm->agreement == Agreement::on);
    Recorded call;
    call.collective = Collective::reduce_scatter;
    call.reduce_scatter = {send, receive, count, type, op, facts.op, user ? *user : PreMulSum{}, stream};
    call.reason = classify(*comm, facts, settled);
    if (call.reason == Reason::compressed &&
        comm->gradient_plans.of(count, comm->topology, config()).chunk_length == 0) {
      call.reason = Reason::workspace_too_small;
      static Once once;  // the line that says "works" would mislead without this one
      if (once.first()) {
        log_warn(
            "SDP4BIT_WORKSPACE of %llu bytes is too small for a ReduceScatter of this many ranks: it stays "
            "with NCCL; set a larger one on all ranks (said once)",
            static_cast<unsigned long long>(config().workspace));
      }
    }
    if (call.reason == Reason::compressed && !facts.capturing) {
      call.looked_after = true;
      if (comm->health.is_native(*comm, count, type, epoch_)) call.reason = Reason::unhealthy_gradients;
    }
    call.comm = comm;  // ours stays: an abort on another thread may have dropped every other one
    return take(std::move(call), facts, pass_on);
  });
}

ncclResult_t Group::all_gather(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                               ncclComm_t handle, cudaStream_t stream) {
  const auto pass_on = [&] {
    return in_nccl("ncclAllGather, in NCCL: some rank has not come to it",
                   [&] { return real_nccl().all_gather(send, receive, count, type, handle, stream); });
  };
  const std::shared_ptr<CommState> comm = find(handle);
  if (!comm || comm->finalized.load(std::memory_order_relaxed)) return pass_on();
  const LogScope scope(comm->subject());
  return recording(*comm, [&] {
    CallFacts facts{.collective = Collective::all_gather, .count = count, .type = type};
    const bool settled = comm->settled();
    if (const auto reason = settled ? lasting_reason(facts, facts_of(*comm), config()) : std::nullopt)
      return pass_lasting(*comm, facts, *reason, pass_on);
    facts.capturing = is_capturing(stream, comm->agreement == Agreement::on);
    Recorded call;
    call.collective = Collective::all_gather;
    call.all_gather = {send, receive, count, type, stream};
    call.reason = classify(*comm, facts, settled);
    if (call.reason == Reason::compressed) {
      call.gather = comm->weights->decide(call.all_gather, epoch_);
      call.tracked = true;
      if (call.gather != GatherKind::difference) call.reason = Reason::weight_native;
    }
    call.comm = comm;  // ours stays: an abort on another thread may have dropped every other one
    return take(std::move(call), facts, pass_on);
  });
}

/// As in NCCL, a call that fails in an open group is an error of the whole group. What this rank would have
/// sent for it never comes: the communicator must not go on as if it had.
template <typename Body>
ncclResult_t Group::recording(CommState& comm, const Body& body) {
  const auto remember = [&](ncclResult_t result) {
    if (comm.agreement == Agreement::on) comm.failed.store(true);
    if (depth_ > 0) error_ = result;
  };
  try {
    return body();
  } catch (const Error& error) {
    remember(error.result());
    throw;
  } catch (...) {
    remember(ncclInternalError);
    throw;
  }
}

/// The decision, after what the first call of a group on a communicator brings about. `settled`: there is no
/// lasting reason to pass the call on.
Reason Group::classify(CommState& comm, const CallFacts& facts, bool settled) {
  if (depth_ == 0 || epoch_ == 0) epoch_ = next_epoch();
  const bool counts = facts.count > 0 && !facts.capturing && comm.ranks > 1;
  if (facts.capturing && facts.count > 0 && comm.ranks > 1) comm.check_usable();
  if (counts && comm.clock.is_new(epoch_)) {
    comm.check_usable();
    comm.clock.enter(epoch_);
    if (comm.handshake && comm.clock.reads_handshake()) {
      const DeviceGuard device(comm.device);
      try {
        read_handshake(comm);
      } catch (...) {
        // Said "no" for all ranks alike: that is an error of one call. Else this rank must not go on alone.
        if (comm.agreement == Agreement::pending) comm.failed.store(true);
        throw;
      }
    }
  }
  return settled ? decide(facts, facts_of(comm), config(), std::nullopt)
                 : decide(facts, facts_of(comm), config());
}

/// As if we were not there: no question to CUDA, no record of the call.
template <typename PassOn>
ncclResult_t Group::pass_lasting(CommState& comm, const CallFacts& facts, Reason reason,
                                 const PassOn& pass_on) {
  if (facts.count > 0) comm.check_usable();
  trace(facts, reason);
  const ncclResult_t result = pass_on();
  if (refused(result)) return result;
  const std::uint64_t elements = facts.count * comm.ranks;
  count_call(*comm.stats, facts.collective, reason, elements, elements * nccl_type_bytes(facts.type));
  return result;
}

/// Passes the call on if it is not ours, remembers it, and outside of a group ends the group that it is.
template <typename PassOn>
ncclResult_t Group::take(Recorded call, const CallFacts& facts, const PassOn& pass_on) {
  const bool ours = call.reason == Reason::compressed;
  trace(facts, call.reason);
  call.counts = facts.count > 0 && !facts.capturing && call.comm->ranks > 1;
  call.voted = call.comm->vote && !facts.capturing;
  any_voted_ = any_voted_ || call.voted;
  const bool waits = ours || call.voted;  // for the end of the group
  const bool keep = call.counts || waits;
  if (!keep) count(call);
  if (depth_ == 0) {
    if (keep) calls_.push_back(std::move(call));
    return finish_outermost([&] { return waits ? ncclSuccess : pass_on(); });
  }
  const ncclResult_t result = waits ? ncclSuccess : pass_on();
  if (keep && !refused(result)) calls_.push_back(std::move(call));
  return result;
}

void Group::count(const Recorded& call) {
  const bool gradient = call.collective == Collective::reduce_scatter;
  const std::uint64_t elements =
      (gradient ? call.reduce_scatter.count : call.all_gather.count) * call.comm->ranks;
  const ncclDataType_t type = gradient ? call.reduce_scatter.type : call.all_gather.type;
  count_call(*call.comm->stats, call.collective, call.reason, elements, elements * nccl_type_bytes(type));
  if (call.reason == Reason::compressed && !call.counts)
    call.comm->stats->of(call.collective).add(Counter::captured_calls, 1);
}

}  // namespace sdp4bit
