// Events: a name for the point that a stream had reached when the event was last recorded.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "device.h"
#include "handle_table.h"
#include "operation.h"

namespace sandbox::cudart {

struct GraphNode;

class Event {
 public:
  Event(Device& device_, unsigned flags_) : device(device_), flags(flags_) {}

  Device& device;
  const unsigned flags;

  /// nullptr: never recorded, which reads as finished.
  CompletionPtr latest() const {
    std::lock_guard lock(mutex_);
    return latest_;
  }
  void set(CompletionPtr point) {
    std::lock_guard lock(mutex_);
    latest_ = std::move(point);
  }

  /// What a record during capture left behind; guarded by graph_mutex().
  struct Captured {
    std::uint64_t capture_id = 0;  // 0: last recorded outside of captures
    std::vector<GraphNode*> frontier;
  };
  Captured captured;

 private:
  mutable std::mutex mutex_;
  CompletionPtr latest_;
};

using EventPtr = std::shared_ptr<Event>;

class EventRecordOperation final : public Operation {
 public:
  explicit EventRecordOperation(EventPtr recorded) : event(std::move(recorded)) {}
  cudaGraphNodeType type() const override { return cudaGraphNodeTypeEventRecord; }
  cudaError_t execute(Device&) const override { return cudaSuccess; }
  void submitted(const CompletionPtr& done) const override { event->set(done); }
  const EventPtr event;
};

/// Waits for the point that the event names at submission: a later record changes nothing.
class EventWaitOperation final : public Operation {
 public:
  explicit EventWaitOperation(EventPtr awaited) : event(std::move(awaited)) {}
  cudaGraphNodeType type() const override { return cudaGraphNodeTypeWaitEvent; }
  cudaError_t execute(Device&) const override { return cudaSuccess; }
  void add_dependencies(Completions& after) const override {
    if (auto point = event->latest(); point != nullptr) after.push_back(std::move(point));
  }
  const EventPtr event;
};

HandleTable<Event>& event_table();

}  // namespace sandbox::cudart
