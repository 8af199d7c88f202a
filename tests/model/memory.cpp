// Device memory and the order of its users; see memory.h.
#include "memory.h"

#include <stdexcept>
#include <string>
#include <utility>

namespace sdp4bit::model {

void check(cudaError_t error, const char* file, int line) {
  if (error != cudaSuccess) {
    throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " + cudaGetErrorName(error));
  }
}

void check(ncclResult_t result, const char* file, int line) {
  if (result != ncclSuccess && result != ncclInProgress) {
    throw std::runtime_error(std::string(file) + ":" + std::to_string(line) + ": " +
                             ncclGetErrorString(result));
  }
}

Memory::Memory(std::size_t bytes) : bytes_(bytes) {
  check(cudaMalloc(reinterpret_cast<void**>(&data_), bytes));
  check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  check(cudaMemset(data_, std::to_integer<int>(kCanary), bytes));
  check(cudaStreamSynchronize(nullptr));
}

void Memory::swap(Memory& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(event_, other.event_);
  std::swap(stream_, other.stream_);
  std::swap(used_, other.used_);
}

void Memory::release() {
  if (data_) (void)cudaFree(std::exchange(data_, nullptr));
  if (event_) (void)cudaEventDestroy(std::exchange(event_, nullptr));
  used_ = false;
}

void Memory::begin_use(cudaStream_t stream) {
  if (used_ && stream_ != stream) check(cudaStreamWaitEvent(stream, event_, 0));
}

void Memory::end_use(cudaStream_t stream) {
  check(cudaEventRecord(event_, stream));
  stream_ = stream;
  used_ = true;
}

}  // namespace sdp4bit::model
