// Life of a communicator's state: noted at creation, made at first use, dropped with the communicator.
#include "plugin/comm_state.h"

#include <array>
#include <mutex>
#include <shared_mutex>
#include <thread>
#include <unordered_map>

#include "plugin/agreement.h"
#include "plugin/all_gather.h"
#include "plugin/check_vote.h"
#include "plugin/graph_hold.h"
#include "plugin/real_nccl.h"
#include "plugin/stats_files.h"
#include "plugin/watchdog.h"

namespace sdp4bit {
namespace {

struct Entry {
  CommOrigin origin;
  std::shared_ptr<CommState> state;
  const RealNccl* nccl = nullptr;  // that made it
};

struct Registry {
  std::shared_mutex mutex;
  std::unordered_map<ncclComm_t, Entry> entries;
  std::array<std::uint32_t, 256> used_on_device{};
  std::atomic<std::uint64_t> generation{0};  // written under the lock
};

Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

}  // namespace

CommState::CommState(ncclComm_t comm_handle, CommOrigin comm_origin)
    : handle(comm_handle), origin(std::move(comm_origin)) {
  int count = 0, user_rank = 0;
  const RealNccl& real = real_nccl();
  check(real.comm_count(handle, &count));
  check(real.comm_user_rank(handle, &user_rank));
  check(real.comm_cu_device(handle, &device));
  ranks = static_cast<std::uint32_t>(count);
  rank = static_cast<std::uint32_t>(user_rank);
  blocking = origin.blocking;
  stats.identify(origin.name, ranks, rank, device);
}

CommState::~CommState() {
  stats.set_mirror(nullptr);
}

void CommState::check_usable() const {
  if (aborted.load()) throw Error(ncclInvalidUsage, "the communicator was aborted or revoked");
  if (failed.load()) {
    throw Error(
        ncclInternalError,
        "an earlier call on this communicator failed on this rank (the log names it): abort the communicator "
        "on all ranks and create it anew, as after an error of NCCL");
  }
  if (host_words && __atomic_load_n(error_flag(), __ATOMIC_ACQUIRE) != 0) {
    if (__atomic_load_n(&checksum_failure()->found, __ATOMIC_ACQUIRE) != 0)
      throw Error(ncclRemoteError, describe(*checksum_failure(), topology));
    throw Error(
        ncclRemoteError,
        "a message arrived whose header cannot be; the output of that call is NaN. Some rank runs another "
        "program, another version of sdp4bit, or memory was overwritten: compare the logs of all ranks, "
        "abort the communicator on all of them and create it anew");
  }
}

bool CommState::settled() const {
  if (vote) return false;
  if (agreement != Agreement::on) return agreement == Agreement::off || ranks <= 1;
  return connected && clock.launched() >= config().start_call;
}

const PreMulSum* CommState::find_operator(ncclRedOp_t op) const {
  for (const Operator& known : operators) {
    if (known.handle == op) return &known.state;
  }
  return nullptr;
}

void note_created(ncclComm_t handle, CommOrigin origin) {
  Registry& all = registry();
  Entry entry{.origin = std::move(origin), .state = nullptr, .nccl = &real_nccl()};
  const std::unique_lock lock(all.mutex);
  // What is left of a communicator of the same address that went unseen is dropped outside of the lock.
  std::swap(all.entries[handle], entry);
  all.generation.fetch_add(1, std::memory_order_release);
}

std::uint64_t registry_generation() noexcept {
  return registry().generation.load(std::memory_order_acquire);
}

const RealNccl* nccl_of(ncclComm_t handle) {
  Registry& all = registry();
  const std::shared_lock lock(all.mutex);
  const auto found = all.entries.find(handle);
  return found == all.entries.end() ? nullptr : found->second.nccl;
}

std::shared_ptr<CommState> find_comm(ncclComm_t handle) {
  if (!handle) return nullptr;
  Registry& all = registry();
  CommOrigin origin;
  {
    const std::shared_lock lock(all.mutex);
    const auto found = all.entries.find(handle);
    if (found != all.entries.end()) {
      if (found->second.state) return found->second.state;
      origin = found->second.origin;
    }
  }
  std::shared_ptr<CommState> state;
  try {
    state = std::make_shared<CommState>(handle, std::move(origin));
  } catch (const Error&) {
    return nullptr;  // NCCL does not answer for this handle: it will say why when it gets the call
  }
  report_at_exit();
  start_watchdog();
  const std::unique_lock lock(all.mutex);
  Entry& entry = all.entries[handle];
  if (!entry.state) {
    state->number = all.used_on_device[static_cast<std::size_t>(state->device) % all.used_on_device.size()]++;
    entry.state = std::move(state);
    if (!entry.nccl) entry.nccl = &real_nccl();
  }
  return entry.state;
}

std::shared_ptr<CommState> known_comm(ncclComm_t handle) {
  Registry& all = registry();
  const std::shared_lock lock(all.mutex);
  const auto found = all.entries.find(handle);
  return found == all.entries.end() ? nullptr : found->second.state;
}

int forget_comm(ncclComm_t handle) {
  Registry& all = registry();
  std::shared_ptr<CommState> last;  // dropped outside of the lock
  const std::unique_lock lock(all.mutex);
  const auto found = all.entries.find(handle);
  if (found == all.entries.end()) return -1;
  last = std::move(found->second.state);
  all.entries.erase(found);
  all.generation.fetch_add(1, std::memory_order_release);
  return last ? last->device : -1;
}

CommState::CapturedUse* CommState::use_by_capture(unsigned long long capture) {
  for (CapturedUse& use : captured_uses) {
    if (use.capture == capture) return &use;
  }
  return nullptr;
}

CommState::CapturedUse& CommState::begin_capture(unsigned long long capture, cudaGraph_t graph) {
  hold_in_graph(graph, shared_from_this());
  CapturedUse& use = captured_uses[captures_seen++ % captured_uses.size()];
  use.capture = capture;
  return use;
}

void abort_comm(ncclComm_t handle) {
  const auto state = known_comm(handle);
  if (!state) return;
  state->aborted.store(true);
  while (state->waiting.load() > 0) std::this_thread::yield();  // their polls and calls are short
}

void unabort_comm(ncclComm_t handle) {
  if (const auto state = known_comm(handle)) state->aborted.store(false);
}

StayFromAbort::StayFromAbort(CommState& comm) : comm_(comm) {
  comm_.waiting.fetch_add(1);
  if (!comm_.aborted.load()) return;
  comm_.waiting.fetch_sub(1);
  throw Error(ncclInvalidUsage, "the communicator was aborted or revoked while a call was under way");
}

}  // namespace sdp4bit
