// From a group to the streams, and what a stream runs.
//
// One group on one communicator is one stream item. Its streams are joined by events, as NCCL does it: the
// first call's stream waits for the others and they wait for it. Items of one communicator follow each other
// by another event, which inside captures is an external one, so that replays and eager calls keep their
// order too.
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "sandbox/cudart/extension.h"
#include "sandbox/nccl/communicator.h"
#include "sandbox/nccl/settings.h"
#include "sandbox/nccl/strict.h"
#include "sandbox/nccl/traffic.h"
#include "sandbox/nccl/types.h"

namespace sandbox::nccl {
namespace {

struct Capture {
  bool active = false;
  unsigned long long id = 0;
};

Capture capture_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  check(cudaStreamGetCaptureInfo(stream, &status, &id, nullptr, nullptr, nullptr, nullptr),
        "cudaStreamGetCaptureInfo");
  require(status != cudaStreamCaptureStatusInvalidated, ncclUnhandledCudaError,
          "the capture of the stream is invalid");
  return {status == cudaStreamCaptureStatusActive, status == cudaStreamCaptureStatusActive ? id : 0};
}

std::vector<cudaStream_t> other_streams(const std::vector<Operation>& operations, cudaStream_t main) {
  std::vector<cudaStream_t> others;
  for (const Operation& operation : operations) {
    if (operation.stream == main || std::count(others.begin(), others.end(), operation.stream) > 0) continue;
    others.push_back(operation.stream);
  }
  return others;
}

void number_within_group(std::vector<Operation>& operations, bool captured) {
  const auto is_collective = [](const Operation& operation) {
    return !is_point_to_point(operation.signature.function);
  };
  const auto size = static_cast<uint32_t>(std::count_if(operations.begin(), operations.end(), is_collective));
  uint32_t index = 0;
  for (Operation& operation : operations) {
    operation.signature.captured = captured ? 1 : 0;
    if (!is_collective(operation)) continue;
    operation.signature.group_size = size;
    operation.signature.group_index = index++;
  }
}

cudaError_t run_item(void* argument) {
  Batch& batch = **static_cast<std::shared_ptr<Batch>*>(argument);
  return batch.communicator->execute(batch);
}

void release_item(void* argument) {
  const std::unique_ptr<std::shared_ptr<Batch>> item(static_cast<std::shared_ptr<Batch>*>(argument));
  (*item)->communicator->batch_released(**item);
}

}  // namespace

size_t Operation::element_bytes() const {
  return size_of(static_cast<ncclDataType_t>(signature.type));
}

void Communicator::join_streams(const std::vector<cudaStream_t>& others, cudaStream_t main) {
  while (joins_.size() < others.size()) {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    joins_.push_back(event);
  }
  for (size_t i = 0; i < others.size(); ++i) {
    check(cudaEventRecord(joins_[i], others[i]), "cudaEventRecord");
    check(cudaStreamWaitEvent(main, joins_[i], 0), "cudaStreamWaitEvent");
  }
}

void Communicator::release_streams(const std::vector<cudaStream_t>& others, cudaStream_t main) {
  if (others.empty()) return;
  check(cudaEventRecord(joins_[0], main), "cudaEventRecord");
  for (cudaStream_t stream : others) check(cudaStreamWaitEvent(stream, joins_[0], 0), "cudaStreamWaitEvent");
}

void Communicator::order_after_last(cudaStream_t main, bool capturing, unsigned long long capture) {
  if (!launched_ && !capturing) return;  // a graph may run after calls that are yet to come
  const auto earlier = capture_orders_.find(capture);
  if (capturing && earlier != capture_orders_.end()) {
    check(cudaStreamWaitEvent(main, earlier->second, 0), "cudaStreamWaitEvent");
  } else if (capturing) {
    check(cudaStreamWaitEvent(main, order_, cudaEventWaitExternal), "cudaStreamWaitEvent");
  } else if (ever_captured_ || main != last_stream_ || main == cudaStreamPerThread) {
    check(cudaStreamWaitEvent(main, order_, 0), "cudaStreamWaitEvent");
  }
}

void Communicator::order_next(cudaStream_t main, bool capturing, unsigned long long capture) {
  constexpr size_t kMostCaptures = 16;  // at a time; the ids of later ones are larger
  if (capturing) {
    cudaEvent_t& event = capture_orders_[capture];
    if (event == nullptr) {
      check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
    }
    check(cudaEventRecord(event, main), "cudaEventRecord");
    if (capture_orders_.size() > kMostCaptures) {
      cudaEventDestroy(capture_orders_.begin()->second);
      capture_orders_.erase(capture_orders_.begin());
    }
    check(cudaEventRecordWithFlags(order_, main, cudaEventRecordExternal), "cudaEventRecordWithFlags");
  } else {
    check(cudaEventRecord(order_, main), "cudaEventRecord");
  }
}

void Communicator::launch(std::vector<Operation> operations) {
  const DeviceGuard guard(device_);
  const std::lock_guard lock(launch_mutex_);
  require(order_ != nullptr, ncclInvalidUsage, "the communicator was destroyed meanwhile");
  const cudaStream_t main = operations.front().stream;
  const Capture capture = capture_of(main);
  for (const Operation& operation : operations) {
    int device = device_;
    check(sandboxStreamDevice(operation.stream, &device), "sandboxStreamDevice");
    require(device == device_, ncclUnhandledCudaError,
            endpoint_->label() + ": " + describe(operation.signature) +
                text(" on a stream of device %d, but the communicator is on device %d", device, device_));
    const Capture own = capture_of(operation.stream);
    require(own.active == capture.active && own.id == capture.id, ncclInvalidUsage,
            endpoint_->label() + ": a group mixes streams that are captured with others");
  }
  number_within_group(operations, capture.active);
  const std::vector<cudaStream_t> others = other_streams(operations, main);
  join_streams(others, main);
  order_after_last(main, capture.active, capture.id);

  auto item = std::make_unique<std::shared_ptr<Batch>>(std::make_shared<Batch>());
  Batch& batch = **item;
  batch.communicator = shared_from_this();
  batch.operations = std::move(operations);
  batch.captured = capture.active;
  const std::string name = std::string("nccl") + name_of(batch.operations.front().signature.function);
  int& count = batch.captured ? captured_ : pending_;
  {
    const std::lock_guard pending(pending_mutex_);
    ++count;
  }
  const cudaError_t error = sandboxStreamEnqueue(main, name.c_str(), run_item, item.get(), release_item);
  if (error == cudaSuccess) {
    item.release();  // NOLINT(bugprone-unused-return-value): release_item owns it now
    count_launch();
  } else {
    {
      const std::lock_guard pending(pending_mutex_);
      --count;
    }
    check(error, "sandboxStreamEnqueue");
  }
  try {
    order_next(main, capture.active, capture.id);
    release_streams(others, main);
  } catch (const Failure&) {
    // The work may already have run and failed the device; then the call was fine, and its error is an
    // asynchronous one.
    if (!endpoint_->segment().failed()) throw;
  }
  launched_ = true;
  ever_captured_ = ever_captured_ || capture.active;
  last_stream_ = main;
}

void Communicator::play_faults(const Operation& operation) {
  for (const Fault& fault : settings().faults) {
    if (!concerns(fault, operation.issue)) continue;
    if (fault.kind == Fault::Kind::exit) _exit(9);
    if (fault.kind != Fault::Kind::delay) continue;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(fault.milliseconds);
    while (std::chrono::steady_clock::now() < end) {
      endpoint_->check();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
}

void Communicator::run(Batch& batch) {
  endpoint_->check();
  for (const Operation& operation : batch.operations) play_faults(operation);
  std::vector<const Operation*> collectives;
  for (const Operation& operation : batch.operations) {
    if (!is_point_to_point(operation.signature.function)) collectives.push_back(&operation);
  }
  for (const size_t place : execution_order(collectives.size(), collectives_)) {
    endpoint_->say(Activity::State::executing, collectives[place]->signature);
    run_collective(*this, *collectives[place], collectives_++);
  }
  run_point_to_point(*this, batch.operations);
  endpoint_->say(Activity::State::idle, batch.operations.back().signature);
}

cudaError_t Communicator::execute(Batch& batch) {
  const std::lock_guard lock(execution_mutex_);
  batch.ran = true;
  try {
    run(batch);
    return cudaSuccess;
  } catch (const Aborted&) {
    // Kernels behind it run, here as there. What they read was not received, but it is the program's memory,
    // and no mistake of the program's.
    for (const Operation& operation : batch.operations)
      sandboxMarkWritten(operation.receive, received_bytes(operation, endpoint_->rank(), endpoint_->ranks()));
    endpoint_->wait_for_readers();
    return cudaSuccess;
  } catch (const Failure& failure) {
    endpoint_->fail(failure);
    endpoint_->wait_for_readers();
    return failure.device_error;
  }
}

void Communicator::batch_released(const Batch& batch) {
  if (!batch.captured && !batch.ran && !endpoint_->aborted()) {
    const cudaError_t error = sandboxStickyError(device_);
    if (error != cudaSuccess) {
      endpoint_->fail(Failure{ncclUnhandledCudaError, endpoint_->label() + ": the device failed before " +
                                                          describe(batch.operations.front().signature) +
                                                          ": " + cudaGetErrorString(error)});
    }
  }
  const std::lock_guard lock(pending_mutex_);
  --(batch.captured ? captured_ : pending_);
  pending_changed_.notify_all();
}

}  // namespace sandbox::nccl
