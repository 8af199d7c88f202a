// What the tests of the runtime stand-in share: checked calls and work that waits until it is let go.
#pragma once

#include <cuda_runtime_api.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "catch.h"
#include "sandbox/cudart/extension.h"

namespace sandbox::test {

inline std::string name_of(cudaError_t code) {
  return cudaGetErrorName(code);
}

/// Requires that a call gives exactly this code, and clears the last error.
inline void expect(cudaError_t got, cudaError_t wanted = cudaSuccess) {
  REQUIRE(name_of(got) == name_of(wanted));
  (void)cudaGetLastError();
}

/// A gate on a stream: work behind it does not start before it is opened, at the latest when the gate goes.
class Gate {
 public:
  void close(cudaStream_t stream) {
    using Flag = std::shared_ptr<std::atomic<bool>>;
    expect(sandboxStreamEnqueue(
        stream, "gate",
        [](void* argument) {
          while (!(*static_cast<Flag*>(argument))->load())
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return cudaSuccess;
        },
        new Flag(open_), [](void* argument) { delete static_cast<Flag*>(argument); }));
  }
  void open() { *open_ = true; }
  Gate() = default;
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  ~Gate() { open(); }

 private:
  std::shared_ptr<std::atomic<bool>> open_ = std::make_shared<std::atomic<bool>>(false);
};

/// Appends work that stores the next number of a common count: shows in which order things ran.
struct Order {
  std::atomic<int> next{1};
};
struct Mark {
  Order* order = nullptr;
  std::atomic<int> at{0};
  void put(cudaStream_t stream) {
    expect(sandboxStreamEnqueue(
        stream, "mark",
        [](void* argument) {
          auto* mark = static_cast<Mark*>(argument);
          mark->at = mark->order->next++;
          return cudaSuccess;
        },
        this, nullptr));
  }
};

inline void short_pause() {
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
}

struct StreamHolder {
  cudaStream_t stream = nullptr;
  explicit StreamHolder(unsigned flags = cudaStreamNonBlocking) {
    expect(cudaStreamCreateWithFlags(&stream, flags));
  }
  StreamHolder(const StreamHolder&) = delete;
  StreamHolder& operator=(const StreamHolder&) = delete;
  ~StreamHolder() { (void)cudaStreamDestroy(stream); }
  operator cudaStream_t() const { return stream; }
};

struct EventHolder {
  cudaEvent_t event = nullptr;
  explicit EventHolder(unsigned flags = cudaEventDefault) { expect(cudaEventCreateWithFlags(&event, flags)); }
  EventHolder(const EventHolder&) = delete;
  EventHolder& operator=(const EventHolder&) = delete;
  ~EventHolder() { (void)cudaEventDestroy(event); }
  operator cudaEvent_t() const { return event; }
};

template <class T>
struct DeviceArray {
  T* data = nullptr;
  explicit DeviceArray(std::size_t count) {
    expect(cudaMalloc(reinterpret_cast<void**>(&data), count * sizeof(T)));
  }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  ~DeviceArray() { (void)cudaFree(data); }
  operator T*() const { return data; }
};

}  // namespace sandbox::test
