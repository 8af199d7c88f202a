// What a stream executes and a graph node holds: one unit of work, the same object in both.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "completion.h"

namespace sandbox::cudart {

class Device;

class Operation {
 public:
  Operation() = default;
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;
  virtual ~Operation() = default;

  /// The kind of node this is in a graph.
  virtual cudaGraphNodeType type() const = 0;
  /// Does the work; called on a stream's thread without any lock held. A result other than cudaSuccess
  /// becomes the device's sticky error.
  virtual cudaError_t execute(Device& device) const = 0;
  /// Called in place of execute() when the device has failed before.
  virtual void skip(cudaError_t) const {}

  /// At submission: adds what else must be finished first.
  virtual void add_dependencies(Completions&) const {}
  /// At submission: the point at which this execution will be done.
  virtual void submitted(const CompletionPtr&) const {}
  /// May block on other ranks or programs for ever: not waited for at exit.
  virtual bool foreign() const { return false; }
};

using OperationPtr = std::shared_ptr<const Operation>;

/// Work that only marks a point: joins, waits, empty nodes.
class EmptyOperation final : public Operation {
 public:
  cudaGraphNodeType type() const override { return cudaGraphNodeTypeEmpty; }
  cudaError_t execute(Device&) const override { return cudaSuccess; }
};

}  // namespace sandbox::cudart
