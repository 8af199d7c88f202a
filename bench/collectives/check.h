// Turns error codes of CUDA and NCCL into exceptions that say where and what.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <stdexcept>
#include <string>

namespace collectives {

[[noreturn]] inline void fail(const char* file, int line, const std::string& text) {
  throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + text);
}

inline void check(cudaError_t result, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (result != cudaSuccess) fail(file, line, std::string("CUDA: ") + cudaGetErrorString(result));
}

inline void check(ncclResult_t result, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  if (result != ncclSuccess) fail(file, line, std::string("NCCL: ") + ncclGetErrorString(result));
}

}  // namespace collectives
