// What is measured: one launch of a kernel on aligned data, with the fewest bytes that it must move.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device_memory.h"
#include "kernels/wire_format.h"

namespace sdp4bit::bench {

/// A launch that can be repeated; its memory lives as long as it does.
struct PreparedCase {
  DeviceMemory memory;
  std::function<cudaError_t(cudaStream_t)> launch;
  std::size_t elements = 0;    // that it works on
  std::size_t read_bytes = 0;  // the fewest: each byte once
  std::size_t written_bytes = 0;
};

struct Case {
  std::string name;    // row of the tables, and name of the recorded launch
  std::string kernel;  // part of the kernel's name
  std::function<std::unique_ptr<PreparedCase>(std::size_t count)> prepare;  // `count`: elements of a shard
};

/// Every row, gradients first. `count` must be a multiple of the largest group.
std::vector<Case> all_cases();
std::vector<Case> gradient_cases();
std::vector<Case> weight_cases();

/// A codec as rows name it: int4-sr g128 fp32.
std::string describe(const Codec& codec);

}  // namespace sdp4bit::bench
