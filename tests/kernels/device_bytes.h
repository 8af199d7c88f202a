// Device memory of exactly the size asked for, at a chosen misalignment, filled from and read back to the
// host.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sdp4bit::test {

using Bytes = std::vector<std::byte>;

inline void require_success(cudaError_t result) {
  if (result != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(result));
}

class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes, std::byte fill, std::size_t misalignment = 0)
      : bytes_(bytes), misalignment_(misalignment) {
    require_success(cudaMalloc(&allocation_, bytes + misalignment));
    require_success(cudaMemset(allocation_, std::to_integer<int>(fill), bytes + misalignment));
  }
  explicit DeviceBytes(std::span<const std::byte> content, std::size_t misalignment = 0)
      : DeviceBytes(content.size(), std::byte{0}, misalignment) {
    require_success(cudaMemcpy(data(), content.data(), content.size(), cudaMemcpyHostToDevice));
  }
  template <typename T>
  explicit DeviceBytes(const std::vector<T>& content) : DeviceBytes(std::as_bytes(std::span(content))) {}
  ~DeviceBytes() { cudaFree(allocation_); }
  DeviceBytes(DeviceBytes&& other) noexcept
      : allocation_(std::exchange(other.allocation_, nullptr)),
        bytes_(other.bytes_),
        misalignment_(other.misalignment_) {}
  DeviceBytes& operator=(DeviceBytes&&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(allocation_) + misalignment_; }
  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(data());
  }
  Bytes download() const {
    Bytes content(bytes_);
    require_success(cudaMemcpy(content.data(), data(), bytes_, cudaMemcpyDeviceToHost));
    return content;
  }

 private:
  void* allocation_ = nullptr;
  std::size_t bytes_;
  std::size_t misalignment_;
};

}  // namespace sdp4bit::test
