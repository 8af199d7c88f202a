// Owners of CUDA objects: device and pinned memory, events, the current device, the capture mode.
//
// Freeing memory makes CUDA wait for the device, and pinned memory for all of them. That never ends while a
// peer is dead, or while one device waits for what this thread has yet to enqueue on another. So the owners
// of memory only retire it, and those of events too, for some go on a thread that must not call CUDA
// (graph_hold.h); retired_memory.cpp has the rest.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <new>
#include <utility>

#include "plugin/error.h"

namespace sdp4bit {

enum class MemoryKind { device, pinned };

/// A block as CUDA gave it. Pinned memory remembers the device that was current, whose work uses it.
struct MemoryBlock {
  MemoryKind kind = MemoryKind::device;
  int device = 0;
  void* pointer = nullptr;
  std::size_t bytes = 0;
};

/// Room in the lists of what is retired, before something is made that will be: retiring happens where
/// nothing may fail. False where there is no host memory for it. Given back by retiring, or by give_back_room
/// where nothing came of it.
[[nodiscard]] bool take_room_for_memory() noexcept;
[[nodiscard]] bool take_room_for_event() noexcept;
void give_back_room_for_memory() noexcept;
void give_back_room_for_event() noexcept;
void retire_memory(const MemoryBlock& block) noexcept;
void retire_event(cudaEvent_t event) noexcept;
/// Where the device may be waited for: before a communicator is created and after one was destroyed. Frees
/// the device's retired memory, destroys events, and lets pinned memory be used again.
void collect_retired_memory(int device) noexcept;
/// A pinned block of at least that size, collected before or new.
[[nodiscard]] cudaError_t take_pinned_memory(std::size_t bytes, MemoryBlock& block) noexcept;

/// CUDA remembers the last error of each thread until the program asks. Around a call of ours whose error is
/// no error: the program shall not find it, nor lose one that it has not asked for yet.
class ProgramsLastError {
 public:
  ProgramsLastError() noexcept : pending_(cudaPeekAtLastError() != cudaSuccess) {}
  void forget_ours() const noexcept {
    if (!pending_) (void)cudaGetLastError();
  }

 private:
  bool pending_;
};

template <MemoryKind Kind>
class CudaBuffer {
 public:
  CudaBuffer() = default;
  /// Throws Error when there is no memory.
  explicit CudaBuffer(std::size_t bytes) : bytes_(bytes) { check(allocate(bytes)); }
  ~CudaBuffer() { reset(); }
  CudaBuffer(CudaBuffer&& other) noexcept { *this = std::move(other); }
  CudaBuffer& operator=(CudaBuffer&& other) noexcept {
    std::swap(block_, other.block_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }

  /// As the constructor, but an allocation that fails leaves the buffer
  /// empty and CUDA's last error as it was.
  [[nodiscard]] static CudaBuffer try_allocate(std::size_t bytes) noexcept {
    CudaBuffer buffer;
    const ProgramsLastError last_error;
    if (buffer.allocate(bytes) == cudaSuccess) {
      buffer.bytes_ = bytes;
    } else {
      buffer.block_.pointer = nullptr;
      last_error.forget_ours();
    }
    return buffer;
  }

  void reset() noexcept {
    if (block_.pointer) retire_memory(block_);
    block_.pointer = nullptr;
    bytes_ = 0;
  }
  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(block_.pointer); }
  template <typename T>
  [[nodiscard]] T* as() const noexcept {
    return static_cast<T*>(block_.pointer);
  }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  explicit operator bool() const noexcept { return block_.pointer != nullptr; }

 private:
  cudaError_t allocate(std::size_t bytes) noexcept {
    if (!take_room_for_memory()) return cudaErrorMemoryAllocation;
    const cudaError_t error = allocate_block(bytes);
    if (error != cudaSuccess) give_back_room_for_memory();
    return error;
  }
  cudaError_t allocate_block(std::size_t bytes) noexcept {
    block_ = {.kind = Kind, .bytes = bytes};
    if (const cudaError_t error = cudaGetDevice(&block_.device); error != cudaSuccess) return error;
    if constexpr (Kind == MemoryKind::device) {
      return cudaMalloc(&block_.pointer, bytes);
    } else {
      return take_pinned_memory(bytes, block_);
    }
  }

  MemoryBlock block_;
  std::size_t bytes_ = 0;
};

using DeviceBuffer = CudaBuffer<MemoryKind::device>;
using PinnedBuffer = CudaBuffer<MemoryKind::pinned>;

/// Without timing. An event that was never recorded reads as finished: `recorded()` says which it is.
class Event {
 public:
  Event() = default;
  ~Event() {
    if (event_) retire_event(event_);
  }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  /// Creates the event on the current device at its first use.
  void record(cudaStream_t stream) { record(stream, cudaEventRecordDefault); }
  void make_wait(cudaStream_t stream) const { make_wait(stream, cudaEventWaitDefault); }
  /// On a stream that is being captured: a node of the graph, so that replays and eager work pass the event
  /// on to each other.
  void record_external(cudaStream_t stream) { record(stream, cudaEventRecordExternal); }
  void make_wait_external(cudaStream_t stream) const { make_wait(stream, cudaEventWaitExternal); }
  [[nodiscard]] bool recorded() const noexcept { return recorded_; }
  /// True if recorded and reached. Throws on a device error.
  [[nodiscard]] bool finished() const {
    if (!recorded_) return false;
    const ProgramsLastError last_error;
    const cudaError_t state = cudaEventQuery(event_);
    if (state == cudaErrorNotReady) {
      last_error.forget_ours();
      return false;
    }
    check(state);
    return true;
  }

 private:
  void record(cudaStream_t stream, unsigned flags) {
    if (!event_) create();
    check(cudaEventRecordWithFlags(event_, stream, flags));
    recorded_ = true;
  }
  void create() {
    if (!take_room_for_event()) throw std::bad_alloc();
    const cudaError_t error = cudaEventCreateWithFlags(&event_, cudaEventDisableTiming);
    if (error != cudaSuccess) give_back_room_for_event();
    check(error);
  }
  void make_wait(cudaStream_t stream, unsigned flags) const {
    if (recorded_) check(cudaStreamWaitEvent(stream, event_, flags));
  }

  cudaEvent_t event_ = nullptr;
  bool recorded_ = false;
};

/// Makes a device current, and the former one again at the end.
class DeviceGuard {
 public:
  explicit DeviceGuard(int device) {
    check(cudaGetDevice(&before_));
    if (before_ == device) {
      before_ = -1;
    } else {
      check(cudaSetDevice(device));
    }
  }
  ~DeviceGuard() {
    if (before_ >= 0) (void)cudaSetDevice(before_);
  }
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;

 private:
  int before_ = -1;
};

/// Makes devices current one after the other, and the former one again at the end.
class DeviceSwitch {
 public:
  DeviceSwitch() = default;
  ~DeviceSwitch() {
    if (current_ != before_) (void)cudaSetDevice(before_);
  }
  DeviceSwitch(const DeviceSwitch&) = delete;
  DeviceSwitch& operator=(const DeviceSwitch&) = delete;
  void to(int device) {
    if (before_ < 0) {
      check(cudaGetDevice(&before_));
      current_ = before_;
    }
    if (device == current_) return;
    check(cudaSetDevice(device));
    current_ = device;
  }

 private:
  int before_ = -1, current_ = -1;
};

/// Lets this thread call what is no enqueue (allocate, query an event) while some stream is being captured.
class RelaxedCapture {
 public:
  RelaxedCapture() { check(cudaThreadExchangeStreamCaptureMode(&mode_)); }
  ~RelaxedCapture() { (void)cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace sdp4bit
