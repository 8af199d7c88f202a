// The emulated devices of the process: how many, which one is current, and whether one has failed.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "completion.h"
#include "error.h"

namespace sandbox::cudart {

class Stream;
using StreamPtr = std::shared_ptr<Stream>;

inline constexpr int kMaxDevices = 64;

class Device {
 public:
  Device(int index, std::size_t memory_bytes);

  const int index;
  const std::size_t memory_bytes;

  /// Throws the sticky error, if there is one.
  void check() const { sandbox::cudart::check(sticky()); }
  cudaError_t sticky() const { return sticky_.load(std::memory_order_acquire); }
  /// Keeps the first error only. False if there was one before.
  bool set_sticky(cudaError_t error);

  /// The NULL stream.
  const StreamPtr& legacy() const { return legacy_; }
  void add_stream(const StreamPtr& stream);
  /// Live streams other than the NULL stream. Needs `order`.
  std::vector<StreamPtr> streams_locked();
  /// The last points of all streams: what a device-wide wait waits for.
  Completions tails();
  void synchronize();

  /// Counts down to a requested allocation failure; true when this allocation shall fail.
  bool allocation_fails();
  void fail_allocation_after(std::uint64_t count) { failing_allocation_.store(count); }

  /// Held while work is appended to the NULL stream or a stream that is ordered with it.
  std::mutex order;
  std::atomic<bool> cancel{false};
  std::array<std::atomic<bool>, kMaxDevices> peer_enabled{};
  std::array<std::atomic<std::size_t>, cudaLimitPersistingL2CacheSize + 1> limits{};
  std::atomic<unsigned> flags{cudaDeviceScheduleAuto};

 private:
  std::atomic<cudaError_t> sticky_{cudaSuccess};
  std::atomic<std::uint64_t> failing_allocation_{0};
  StreamPtr legacy_;
  std::vector<std::weak_ptr<Stream>> streams_;
};

int device_count();
/// Throws cudaErrorInvalidDevice.
Device& device_at(int index);
/// The thread's current device, whatever its state.
Device& current_device();
void set_current_device(int index);

/// What every call that needs a working device starts with: throws after fork, at exit, in a host function,
/// and for a device that has failed. Returns the current device.
Device& enter();
/// The same without looking at the sticky error.
void enter_process();

/// Marks the thread as executing a host function, in which CUDA calls are not permitted.
class HostFunctionScope {
 public:
  HostFunctionScope();
  ~HostFunctionScope();
  HostFunctionScope(const HostFunctionScope&) = delete;
  HostFunctionScope& operator=(const HostFunctionScope&) = delete;
};

/// Marks work that process exit must let come to an end before memory and code go away.
class ActiveWork {
 public:
  ActiveWork();
  ~ActiveWork();
  ActiveWork(const ActiveWork&) = delete;
  ActiveWork& operator=(const ActiveWork&) = delete;
  /// False when the process is exiting: do nothing.
  bool allowed() const { return allowed_; }

 private:
  bool allowed_;
};

bool process_is_exiting();

}  // namespace sandbox::cudart
