// Life of a communicator, its user operations, and its state.
#include "sandbox/nccl/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "sandbox/nccl/plugin_loader.h"
#include "sandbox/nccl/settings.h"
#include "sandbox/nccl/types.h"

namespace sandbox::nccl {
namespace {

std::atomic<uint8_t> next_serial{0};

cudaEvent_t new_event() {
  cudaEvent_t event = nullptr;
  check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return event;
}

// User operations: the place in the table and, so that another communicator's handle is noticed, the serial
// number.
int handle_of(size_t place, uint8_t serial) {
  return ncclNumOps + (static_cast<int>(place) << 8 | serial);
}

}  // namespace

DeviceGuard::DeviceGuard(int device) {
  check(cudaGetDevice(&before_), "cudaGetDevice");
  if (before_ != device) check(cudaSetDevice(device), "cudaSetDevice");
}

DeviceGuard::~DeviceGuard() {
  cudaSetDevice(before_);
}

Communicator::Communicator(int device, Configuration configuration)
    : device_(device), configuration_(std::move(configuration)), serial_(next_serial++) {
  const DeviceGuard guard(device_);
  order_ = new_event();
}

Communicator::~Communicator() = default;

void Communicator::join(const SegmentAddress& address, int ranks, int rank) {
  load_plugins_for_communicator();
  uses_plugins_ = true;
  const std::shared_ptr<Segment> segment = Segment::attach(address, ranks);
  const std::string name =
      configuration_.name.empty() ? text("%08x", static_cast<unsigned>(address.token)) : configuration_.name;
  {
    const std::lock_guard lock(error_mutex_);
    endpoint_ = std::make_unique<Endpoint>(segment, rank, name);
    if (abort_requested_) throw Aborted{};
  }
  int devices = 1;
  check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
  RankRecord& record = segment->rank(rank);
  Presence absent = Presence::absent;
  require(record.presence.compare_exchange_strong(absent, Presence::arriving), ncclInvalidUsage,
          "comm " + name + text(": two callers say they are rank %d", rank));
  claimed_ = true;
  record.process = getpid();
  record.process_start = process_start(record.process);
  record.device = device_;
  record.host = host_of_device(device_, devices);
  record.presence.store(Presence::present, std::memory_order_release);
  segment->wake_all();

  Waiter waiter(*endpoint_, Signature{}, settings().init_timeout);
  std::vector<uint64_t> hosts;
  for (int other = 0; other < ranks; ++other) {
    while (true) {
      const uint32_t bell = waiter.bell();
      if (segment->rank(other).presence.load(std::memory_order_acquire) >= Presence::present) break;
      waiter.pause(bell, other);
    }
    hosts.push_back(segment->rank(other).host);
  }
  segment->everyone_is_here();
  for (int other = 0; other < ranks; ++other) {
    const bool same = other != rank && segment->same_process(other) && segment->rank(other).device == device_;
    require(!same, ncclInvalidUsage,
            "comm " + name +
                text(": ranks %d and %d are both on device %d", std::min(rank, other), std::max(rank, other),
                     device_));
  }
  topology_ = Topology(hosts);
  joined_.store(true, std::memory_order_release);
}

ncclResult_t Communicator::state() {
  const ncclResult_t own = state_.load(std::memory_order_acquire);
  if (own != ncclSuccess || !joined()) return own;
  Segment& segment = endpoint_->segment();
  return segment.failed() ? static_cast<ncclResult_t>(segment.header().failure_code) : ncclSuccess;
}

void Communicator::require_ready() {
  const ncclResult_t now = state();
  require(now != ncclInProgress, ncclInvalidArgument,
          "the previous call on the communicator is still in progress");
  require(now == ncclSuccess, now, last_error());
  require(!finalized.load(), ncclInvalidUsage, "the communicator was finalized");
  require(joined() && !endpoint_->aborted(), ncclInvalidUsage, "the communicator was revoked or aborted");
}

void Communicator::remember(const std::string& error) {
  const std::lock_guard lock(error_mutex_);
  last_error_ = error;
}

std::string Communicator::last_error() {
  if (joined() && endpoint_->segment().failed()) return endpoint_->segment().header().failure_text;
  const std::lock_guard lock(error_mutex_);
  return last_error_;
}

uint64_t Communicator::next_issue() {
  const uint64_t issue = ++issued_;
  for (const Fault& fault : settings().faults) {
    if (fault.kind == Fault::Kind::fail && concerns(fault, issue)) {
      throw Failure{fault.code, endpoint_->label() + text(": planted failure of call %llu",
                                                          static_cast<unsigned long long>(issue))};
    }
  }
  return issue;
}

bool Communicator::concerns(const Fault& fault, uint64_t issue) const {
  return fault.call == issue && (fault.rank < 0 || fault.rank == endpoint_->rank()) &&
         (fault.communicator.empty() || fault.communicator == configuration_.name);
}

ncclRedOp_t Communicator::create_op(ncclDataType_t type, const void* device_scalar, uint64_t bits) {
  const std::lock_guard lock(op_mutex_);
  const auto free = std::find_if(ops_.begin(), ops_.end(), [](const UserOp& op) { return !op.used; });
  const size_t place = static_cast<size_t>(free - ops_.begin());
  if (free == ops_.end()) ops_.emplace_back();
  ops_[place] = UserOp{true, type, device_scalar, bits};
  return static_cast<ncclRedOp_t>(handle_of(place, serial_));
}

Communicator::UserOp* Communicator::find_op(ncclRedOp_t op) {
  const int value = static_cast<int>(op) - ncclNumOps;
  if (value < 0 || (value & 0xff) != serial_) return nullptr;
  const size_t place = static_cast<size_t>(value) >> 8;
  return place < ops_.size() && ops_[place].used ? &ops_[place] : nullptr;
}

void Communicator::destroy_op(ncclRedOp_t op) {
  const std::lock_guard lock(op_mutex_);
  UserOp* const found = find_op(op);
  require(found != nullptr, ncclInvalidArgument, "not an operation of this communicator");
  *found = UserOp{};
}

void Communicator::resolve_op(Operation& operation, ncclRedOp_t op, ncclDataType_t type) {
  operation.signature.op = static_cast<int32_t>(op);
  switch (op) {
    case ncclSum:
      operation.kind = ReduceKind::sum;
      return;
    case ncclProd:
      operation.kind = ReduceKind::prod;
      return;
    case ncclMax:
      operation.kind = ReduceKind::max;
      return;
    case ncclMin:
      operation.kind = ReduceKind::min;
      return;
    case ncclAvg:
      operation.kind = is_float(type) ? ReduceKind::scaled_sum : ReduceKind::sum_then_divide;
      operation.factor = reciprocal_bits(type, ranks());
      return;
    default:
      break;
  }
  // The program may destroy its operation before the group ends: everything is copied now.
  const std::lock_guard lock(op_mutex_);
  const UserOp* const found = find_op(op);
  require(found != nullptr, ncclInvalidArgument,
          text("%d is not an operation of this communicator", static_cast<int>(op)));
  require(found->type == type, ncclInvalidArgument, "the operation was created for another type");
  operation.signature.op = kUserOp;
  operation.kind = ReduceKind::scaled_sum;
  operation.factor = found->bits;
  operation.factor_address = found->device_scalar;
}

void Communicator::drain() {
  std::unique_lock lock(pending_mutex_);
  pending_changed_.wait(lock, [this] { return pending_ == 0; });
}

void Communicator::await_graphs() {
  std::unique_lock lock(pending_mutex_);
  const auto limit = std::chrono::duration<double>(settings().timeout);
  const bool gone = pending_changed_.wait_for(lock, limit, [this] { return captured_ == 0; });
  require(gone, ncclInternalError,
          text("%d captured groups of the communicator are in graphs that live: NCCL would wait for ever",
               captured_));
}

void Communicator::abort() {
  {
    const std::lock_guard lock(error_mutex_);
    abort_requested_ = true;
    if (endpoint_ != nullptr) endpoint_->abort();
  }
  helper.wait();
  const std::lock_guard running(execution_mutex_);  // what runs notices and returns
}

void Communicator::leave(Presence how) {
  helper.wait();
  {
    const std::lock_guard lock(launch_mutex_);
    cudaEventDestroy(order_);
    for (const auto& [capture, event] : capture_orders_) cudaEventDestroy(event);
    capture_orders_.clear();
    for (cudaEvent_t event : joins_) cudaEventDestroy(event);
    joins_.clear();
    order_ = nullptr;
  }
  if (std::exchange(uses_plugins_, false)) release_plugins_of_communicator();
  if (!claimed_) return;
  endpoint_->record().presence.store(how, std::memory_order_seq_cst);
  endpoint_->segment().wake_all();
}

}  // namespace sandbox::nccl
