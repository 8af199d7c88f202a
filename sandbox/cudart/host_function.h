// Functions of the program that run in stream order, on the stream's thread.
#pragma once

#include <cuda_runtime_api.h>

#include "device.h"
#include "operation.h"

namespace sandbox::cudart {

/// cudaLaunchHostFunc: not called once the device has failed.
class HostFunctionOperation final : public Operation {
 public:
  HostFunctionOperation(cudaHostFn_t function_, void* argument_) : function(function_), argument(argument_) {}
  cudaGraphNodeType type() const override { return cudaGraphNodeTypeHost; }
  bool foreign() const override { return true; }
  cudaError_t execute(Device&) const override {
    const HostFunctionScope no_calls;
    function(argument);
    return cudaSuccess;
  }
  const cudaHostFn_t function;
  void* const argument;
};

/// cudaStreamAddCallback: called in any case, with the state of the device.
class CallbackOperation final : public Operation {
 public:
  CallbackOperation(cudaStream_t stream, cudaStreamCallback_t callback, void* argument)
      : stream_(stream), callback_(callback), argument_(argument) {}
  cudaGraphNodeType type() const override { return cudaGraphNodeTypeHost; }
  bool foreign() const override { return true; }
  cudaError_t execute(Device&) const override {
    skip(cudaSuccess);
    return cudaSuccess;
  }
  void skip(cudaError_t status) const override {
    const HostFunctionScope no_calls;
    callback_(stream_, status, argument_);
  }

 private:
  cudaStream_t stream_;
  cudaStreamCallback_t callback_;
  void* argument_;
};

}  // namespace sandbox::cudart
