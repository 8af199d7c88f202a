// Device memory of a case: what its launch may touch, freed with it, and listed for whoever records a launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <vector>

namespace sdp4bit::bench {

/// Throws std::runtime_error with CUDA's text.
void check(cudaError_t result);

class DeviceMemory {
 public:
  struct Region {
    std::byte* data;
    std::size_t bytes;
  };

  DeviceMemory() = default;
  ~DeviceMemory();
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  std::byte* zeros(std::size_t bytes);
  template <typename T>
  T* copy_of(const std::vector<T>& content) {
    return static_cast<T*>(copy(std::as_bytes(std::span(content))));
  }
  /// Elements of a normal distribution.
  std::byte* gaussian_bfloat16(std::size_t count, unsigned seed, float spread = 1.0f);
  std::byte* gaussian_float32(std::size_t count, unsigned seed);

  std::span<const Region> regions() const { return regions_; }

 private:
  void* copy(std::span<const std::byte> content);

  std::vector<Region> regions_;
};

}  // namespace sdp4bit::bench
