// A communicator of one rank: who it is, how far it is, and its way to the streams.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "sandbox/nccl/nonblocking.h"
#include "sandbox/nccl/operation.h"
#include "sandbox/nccl/settings.h"
#include "sandbox/nccl/topology.h"
#include "sandbox/nccl/transport.h"

namespace sandbox::nccl {

// What ncclConfig_t asks, as far as it matters here.
struct Configuration {
  bool blocking = true;
  std::string name;
};

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  // On the current device. Not usable before join().
  Communicator(int device, Configuration configuration);
  ~Communicator();

  // Comes to the segment and returns when all ranks did. Throws Failure.
  void join(const SegmentAddress& address, int ranks, int rank);

  [[nodiscard]] int rank() const { return endpoint_->rank(); }
  [[nodiscard]] int ranks() const { return endpoint_->ranks(); }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] const Configuration& configuration() const { return configuration_; }
  [[nodiscard]] Endpoint& endpoint() { return *endpoint_; }
  [[nodiscard]] const Topology& topology() const { return topology_; }
  [[nodiscard]] uint8_t serial() const { return serial_; }

  // State as ncclCommGetAsyncError tells it; errors of any rank are found in the segment.
  [[nodiscard]] ncclResult_t state();
  void set_state(ncclResult_t state) { state_.store(state, std::memory_order_release); }
  [[nodiscard]] bool joined() const { return joined_.load(std::memory_order_acquire); }
  // Throws what a call on this communicator returns where it is not ready for one.
  void require_ready();
  void remember(const std::string& error);
  [[nodiscard]] std::string last_error();

  // Numbers the calls of this rank, from 1, and plays planted failures: throws the Failure one asks for.
  uint64_t next_issue();

  // User operations.
  ncclRedOp_t create_op(ncclDataType_t type, const void* device_scalar, uint64_t bits);
  void destroy_op(ncclRedOp_t op);
  // Fills kind, factor and signature.op of an operation. Throws on an op or type that is none.
  void resolve_op(Operation& operation, ncclRedOp_t op, ncclDataType_t type);

  // Appends the operations of one group to their streams. Throws Failure.
  void launch(std::vector<Operation> operations);
  // Returns when no launched work is left. Captured work does not count.
  void drain();
  // Returns when no graph is left that holds captured work: the real library waits for them before it lets a
  // communicator go, also after an abort. Throws Failure where it would wait for ever.
  void await_graphs();
  // Ends running and queued work without an error.
  void abort();
  // Releases what belongs to CUDA, and leaves the segment.
  void leave(Presence how);

  // Runs a batch on the thread of its stream.
  cudaError_t execute(Batch& batch);
  void batch_released(const Batch& batch);

  // The helper thread of a non-blocking communicator.
  Helper helper;
  std::atomic<bool> finalized{false};
  std::atomic<uint64_t> splits{0};
  // An id to grow by was given out and not used yet.
  std::atomic<bool> id_is_out{false};

 private:
  [[nodiscard]] bool concerns(const Fault& fault, uint64_t issue) const;
  void play_faults(const Operation& operation);
  void run(Batch& batch);
  void join_streams(const std::vector<cudaStream_t>& others, cudaStream_t main);
  void release_streams(const std::vector<cudaStream_t>& others, cudaStream_t main);
  void order_after_last(cudaStream_t main, bool capturing, unsigned long long capture);
  void order_next(cudaStream_t main, bool capturing, unsigned long long capture);

  const int device_;
  const Configuration configuration_;
  const uint8_t serial_;
  std::unique_ptr<Endpoint> endpoint_;
  Topology topology_;
  std::atomic<ncclResult_t> state_{ncclSuccess};
  std::atomic<bool> joined_{false};
  bool uses_plugins_ = false;
  bool claimed_ = false;  // this rank's place in the segment is ours
  std::atomic<uint64_t> issued_{0};

  std::mutex error_mutex_;
  std::string last_error_;

  bool abort_requested_ = false;  // with error_mutex_

  struct UserOp {
    bool used = false;
    ncclDataType_t type = ncclFloat32;
    const void* device_scalar = nullptr;
    uint64_t bits = 0;
  };
  UserOp* find_op(ncclRedOp_t op);  // null where it is none; with op_mutex_
  std::mutex op_mutex_;
  std::vector<UserOp> ops_;

  std::mutex launch_mutex_;
  cudaEvent_t order_ = nullptr;  // recorded after the last operation; external inside captures
  std::map<unsigned long long, cudaEvent_t> capture_orders_;  // the same in one capture, by its id
  std::vector<cudaEvent_t> joins_;
  cudaStream_t last_stream_ = nullptr;
  bool launched_ = false;
  bool ever_captured_ = false;

  std::mutex execution_mutex_;
  uint64_t collectives_ = 0;  // executed so far; guarded by execution_mutex_
  std::mutex pending_mutex_;
  std::condition_variable pending_changed_;
  int pending_ = 0;   // launched
  int captured_ = 0;  // held by graphs
};

// Makes a device current for a scope.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device);
  ~DeviceGuard();
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = 0;
};

}  // namespace sandbox::nccl
