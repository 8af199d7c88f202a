// What the runtime stand-in offers beyond CUDA: extension.h.
#include "sandbox/cudart/extension.h"

#include <algorithm>
#include <cinttypes>
#include <string>

#include "counters.h"
#include "memory_state.h"
#include "sandbox/ptx/machine.h"
#include "stream.h"

namespace sandbox::cudart {
namespace {

/// Work of another library in stream order.
class ExtensionOperation final : public Operation {
 public:
  ExtensionOperation(const char* name, sandboxWork work, void* argument, void (*release)(void*))
      : name_(name != nullptr ? name : "work"), work_(work), argument_(argument), release_(release) {}
  ~ExtensionOperation() override {
    if (release_ != nullptr && owned_) release_(argument_);
  }
  cudaGraphNodeType type() const override { return cudaGraphNodeTypeKernel; }
  bool foreign() const override { return true; }
  cudaError_t execute(Device& device) const override {
    const cudaError_t result = work_(argument_);
    if (result != cudaSuccess && device.sticky() == cudaSuccess) {
      say("device %d: %s: %s", device.index, name_.c_str(), cudaGetErrorString(result));
    }
    return result;
  }
  /// The argument stays the caller's: nobody else has seen this operation.
  void disown() { owned_ = false; }

 private:
  const std::string name_;
  const sandboxWork work_;
  void* const argument_;
  void (*const release_)(void*);
  bool owned_ = true;
};

cudaError_t checked(int device_index, const void* address, std::size_t bytes, const char* who, bool write) {
  return entry([&] {
    Device& device = device_at(device_index);
    device.check();
    if (bytes == 0) return;
    auto& space = ptx::AddressSpace::instance();
    const auto verdict = write ? space.check_write(address, bytes) : space.check_read(address, bytes);
    if (verdict == ptx::AccessVerdict::ok) return;
    if (device.set_sticky(cudaErrorIllegalAddress)) {
      const char* what = verdict == ptx::AccessVerdict::out_of_bounds    ? "out of bounds"
                         : verdict == ptx::AccessVerdict::use_after_free ? "after free"
                                                                         : "of bytes never written";
      say("device %d: %s: %s %s, %zu bytes: %s", device_index, who, write ? "write" : "read", what, bytes,
          describe(address).c_str());
    }
    fail(cudaErrorIllegalAddress);
  });
}

}  // namespace

void print_counters() {
  for (const auto& kernel : ptx::counters()) {
    say("counters: %s launches=%" PRIu64 " lane_instructions=%" PRIu64 " global_bytes_loaded=%" PRIu64
        " global_bytes_stored=%" PRIu64 " global_requests=%" PRIu64 " global_sectors=%" PRIu64,
        kernel.kernel.c_str(), kernel.launches, kernel.lane_instructions, kernel.global_bytes_loaded,
        kernel.global_bytes_stored, kernel.global_requests, kernel.global_sectors);
  }
}

}  // namespace sandbox::cudart

using namespace sandbox::cudart;

extern "C" {

cudaError_t sandboxStreamEnqueue(cudaStream_t stream, const char* name, sandboxWork work, void* argument,
                                 void (*release)(void*)) {
  return entry([&] {
    enter_process();
    const auto target = resolve_stream(stream, current_device());
    require(work != nullptr);
    auto operation = std::make_shared<ExtensionOperation>(name, work, argument, release);
    try {
      enqueue(*target, operation);
    } catch (const Failure&) {
      operation->disown();
      throw;
    }
  });
}

cudaError_t sandboxStreamDevice(cudaStream_t stream, int* device) {
  return entry([&] {
    enter_process();
    require(device != nullptr);
    *device = resolve_stream(stream, current_device())->device.index;
  });
}

cudaError_t sandboxCheckRead(int device, const void* address, size_t bytes, const char* who) {
  return checked(device, address, bytes, who, false);
}

cudaError_t sandboxCheckWrite(int device, const void* address, size_t bytes, const char* who) {
  return checked(device, address, bytes, who, true);
}

void sandboxMarkWritten(void* address, size_t bytes) {
  if (bytes > 0) mark_written(address, bytes);
}

void sandboxCopyWritten(void* destination, const void* source, size_t bytes) {
  sandbox::ptx::AddressSpace::instance().copy_written(destination, source, bytes);
}

void sandboxSetStickyError(int device, cudaError_t error) {
  (void)entry([&] { device_at(device).set_sticky(error); });
}

cudaError_t sandboxStickyError(int device) {
  cudaError_t sticky = cudaSuccess;
  const cudaError_t found = entry([&] { sticky = device_at(device).sticky(); });
  return found == cudaSuccess ? sticky : found;
}

size_t sandboxGetKernelCounters(sandboxKernelCounters* records, size_t capacity) {
  const auto all = sandbox::ptx::counters();
  for (std::size_t i = 0; i < std::min(capacity, all.size()); ++i) {
    const auto& from = all[i];
    sandboxKernelCounters& to = records[i];
    to.kernel[from.kernel.copy(to.kernel, sizeof to.kernel - 1)] = '\0';
    to.launches = from.launches;
    to.lane_instructions = from.lane_instructions;
    to.global_bytes_loaded = from.global_bytes_loaded;
    to.global_bytes_stored = from.global_bytes_stored;
    to.global_requests = from.global_requests;
    to.global_sectors = from.global_sectors;
  }
  return all.size();
}

void sandboxResetKernelCounters(void) {
  sandbox::ptx::reset_counters();
}

void sandboxFailAllocation(int device, uint64_t count) {
  (void)entry([&] { device_at(device).fail_allocation_after(count); });
}

}  // extern "C"
