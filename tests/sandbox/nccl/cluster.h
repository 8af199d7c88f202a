// What the tests of the NCCL stand-in share: checked calls, device buffers, ranks as threads, ranks as
// processes.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "catch.h"

namespace cluster {

// Throw with the text of the error.
void check(cudaError_t error);
void check(ncclResult_t result);

// Device memory filled from and copied to host vectors.
class Buffer {
 public:
  explicit Buffer(size_t bytes);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept : data_(other.data_), bytes_(other.bytes_) { other.data_ = nullptr; }
  ~Buffer();

  template <class T>
  static Buffer of(const std::vector<T>& values) {
    Buffer buffer(values.size() * sizeof(T));
    check(cudaMemcpy(buffer.data(), values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice));
    return buffer;
  }
  template <class T>
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> result(bytes_ / sizeof(T));
    check(cudaMemcpy(result.data(), data_, result.size() * sizeof(T), cudaMemcpyDeviceToHost));
    return result;
  }
  // Done when it returns: the tests' streams do not wait for the NULL stream.
  void fill(int byte) {
    check(cudaMemset(data_, byte, bytes_));
    check(cudaStreamSynchronize(nullptr));
  }
  template <class T = void>
  [[nodiscard]] T* data() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_ = nullptr;
  size_t bytes_ = 0;
};

class Stream {
 public:
  Stream() { check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream() { cudaStreamDestroy(stream_); }
  operator cudaStream_t() const { return stream_; }
  void wait() const { check(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

// A rank as the tests see it, with its device current.
struct Rank {
  int rank;
  int ranks;
  ncclComm_t comm;
};

// Runs `body` on `ranks` threads, thread r on device r, each with a communicator. Rethrows the first error.
void run_threads(int ranks, const std::function<void(const Rank&)>& body);
// The same without communicators.
void run_plain_threads(int count, const std::function<void(int)>& body);

// In a worker process: this process's rank. The communicator is created from the launcher's id.
Rank join_as_worker(ncclConfig_t* config = nullptr);

struct Outcome {
  int status;          // exit code, or 128 + signal
  std::string output;  // stdout and stderr
};

using Environment = std::map<std::string, std::string>;
// Runs the hidden test case `worker` of this program in `processes` processes, rank r with additional[r] in
// its environment where given.
std::vector<Outcome> run_processes(int processes, const std::string& worker, const Environment& common = {},
                                   const std::vector<Environment>& additional = {});

}  // namespace cluster
