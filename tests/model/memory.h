// Device memory that a program's streams use in turn.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <utility>

namespace sdp4bit::model {

/// Throw std::runtime_error. A communicator that does not block may still be at it: that is no error.
void check(cudaError_t error, const char* file = __builtin_FILE(), int line = __builtin_LINE());
void check(ncclResult_t result, const char* file = __builtin_FILE(), int line = __builtin_LINE());

inline constexpr std::byte kCanary{0xc5};  // what memory holds that nobody may write

/// Ordering the streams is the program's own duty.
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes);
  ~Memory() { release(); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }
  void swap(Memory& other) noexcept;
  void release();
  /// Around work of a stream on this memory.
  void begin_use(cudaStream_t stream);
  void end_use(cudaStream_t stream);
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  cudaEvent_t event_ = nullptr;
  cudaStream_t stream_ = nullptr;
  bool used_ = false;
};

}  // namespace sdp4bit::model
