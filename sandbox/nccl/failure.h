// How an error travels inside the stand-in: as an exception that carries NCCL's code and one line for people.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <string>
#include <utility>

namespace sandbox::nccl {

struct Failure {
  ncclResult_t code;
  std::string text;
  cudaError_t device_error = cudaErrorLaunchFailure;  // what the stream reports when this happens on one
};

// The communicator was aborted by its own process: work ends at once and is not an error of the device.
struct Aborted {};

inline void require(bool condition, ncclResult_t code, const std::string& text) {
  if (!condition) throw Failure{code, text};
}

inline void check(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  throw Failure{ncclUnhandledCudaError, std::string(what) + ": " + cudaGetErrorString(error), error};
}

// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string text(const char* format, ...);

// One line to stderr, written at once.
void complain(const std::string& line);

}  // namespace sandbox::nccl
