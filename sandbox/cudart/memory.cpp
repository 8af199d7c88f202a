// Allocation and release of device, pinned, managed and registered memory.
#include <algorithm>

#include "capture.h"
#include "device.h"
#include "memory_state.h"

using namespace sandbox::cudart;
using sandbox::ptx::AddressSpace;
using sandbox::ptx::MemoryKind;

namespace {

constexpr std::size_t kPitchAlignment = 512;
constexpr unsigned kHostFlags = cudaHostAllocPortable | cudaHostAllocMapped | cudaHostAllocWriteCombined;
constexpr unsigned kRegisterFlags =
    cudaHostRegisterPortable | cudaHostRegisterMapped | cudaHostRegisterIoMemory | cudaHostRegisterReadOnly;

AddressSpace& space() {
  return AddressSpace::instance();
}

void* allocate(Device& device, std::size_t bytes, MemoryKind kind) {
  if (bytes == 0) return nullptr;
  if (device.allocation_fails()) fail(cudaErrorMemoryAllocation);
  void* memory = space().allocate(bytes, kind == MemoryKind::pinned_host ? -1 : device.index, kind);
  if (memory == nullptr) fail(cudaErrorMemoryAllocation);
  return memory;
}

/// Releasing memory waits for everything that may still use it.
void synchronize_all() {
  for (int i = 0; i < device_count(); ++i) device_at(i).synchronize();
}

std::size_t padded(std::size_t width) {
  return (width + kPitchAlignment - 1) / kPitchAlignment * kPitchAlignment;
}

}  // namespace

extern "C" {

cudaError_t cudaMalloc(void** devPtr, size_t size) {
  return entry([&] {
    Device& device = enter();
    require(devPtr != nullptr);
    refuse_unsafe_call();
    *devPtr = allocate(device, size, MemoryKind::device);
  });
}

cudaError_t cudaMallocPitch(void** devPtr, size_t* pitch, size_t width, size_t height) {
  return entry([&] {
    Device& device = enter();
    require(devPtr != nullptr && pitch != nullptr);
    refuse_unsafe_call();
    *pitch = padded(width);
    *devPtr = allocate(device, *pitch * height, MemoryKind::device);
  });
}

cudaError_t cudaMalloc3D(cudaPitchedPtr* pitchedDevPtr, cudaExtent extent) {
  return entry([&] {
    Device& device = enter();
    require(pitchedDevPtr != nullptr);
    refuse_unsafe_call();
    const std::size_t pitch = padded(extent.width);
    *pitchedDevPtr = {allocate(device, pitch * extent.height * extent.depth, MemoryKind::device), pitch,
                      extent.width, extent.height};
  });
}

cudaError_t cudaMallocManaged(void** devPtr, size_t size, unsigned int flags) {
  return entry([&] {
    Device& device = enter();
    require(devPtr != nullptr && size > 0 && (flags == cudaMemAttachGlobal || flags == cudaMemAttachHost));
    refuse_unsafe_call();
    *devPtr = allocate(device, size, MemoryKind::managed);
  });
}

cudaError_t cudaFree(void* devPtr) {
  return entry([&] {
    enter();
    refuse_unsafe_call();
    if (devPtr == nullptr) return;
    const auto found = space().find(devPtr);
    const bool own = found.has_value() && found->alive &&
                     found->base == reinterpret_cast<std::uintptr_t>(devPtr) &&
                     (found->kind == MemoryKind::device || found->kind == MemoryKind::managed);
    if (!own) {
      fail(cudaErrorInvalidValue, "cudaFree of what is not the start of live device memory: %s",
           describe(devPtr).c_str());
    }
    Device& owner = device_at(found->device);
    owner.synchronize();
    owner.check();
    forget_pool_memory(devPtr);
    space().release(devPtr);
  });
}

cudaError_t cudaHostAlloc(void** pHost, size_t size, unsigned int flags) {
  return entry([&] {
    Device& device = enter();
    require(pHost != nullptr && (flags & ~kHostFlags) == 0);
    refuse_unsafe_call();
    *pHost = allocate(device, size, MemoryKind::pinned_host);
  });
}

cudaError_t cudaMallocHost(void** ptr, size_t size) {
  return cudaHostAlloc(ptr, size, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* ptr) {
  return entry([&] {
    enter();
    refuse_unsafe_call();
    if (ptr == nullptr) return;
    const auto found = space().find(ptr);
    const bool own = found.has_value() && found->alive &&
                     found->base == reinterpret_cast<std::uintptr_t>(ptr) &&
                     found->kind == MemoryKind::pinned_host;
    if (!own) {
      fail(cudaErrorInvalidValue, "cudaFreeHost of what is not the start of live pinned memory: %s",
           describe(ptr).c_str());
    }
    synchronize_all();
    require(space().release(ptr));
  });
}

cudaError_t cudaHostRegister(void* ptr, size_t size, unsigned int flags) {
  return entry([&] {
    enter();
    require(ptr != nullptr && size > 0 && (flags & ~kRegisterFlags) == 0);
    refuse_unsafe_call();
    const auto* first = static_cast<const std::byte*>(ptr);
    for (const auto* address : {first, first + size - 1}) {
      const auto found = space().find(address);
      if (found.has_value() && found->alive) fail(cudaErrorHostMemoryAlreadyRegistered);
    }
    space().adopt(ptr, size, -1, MemoryKind::pinned_host);
  });
}

cudaError_t cudaHostUnregister(void* ptr) {
  return entry([&] {
    enter();
    refuse_unsafe_call();
    const auto found = space().find(ptr);
    if (!found.has_value() || !found->alive || found->kind != MemoryKind::pinned_host) {
      fail(cudaErrorHostMemoryNotRegistered);
    }
    synchronize_all();
    if (!space().disown(ptr)) fail(cudaErrorHostMemoryNotRegistered);
  });
}

cudaError_t cudaHostGetDevicePointer(void** pDevice, void* pHost, unsigned int flags) {
  return entry([&] {
    enter();
    require(pDevice != nullptr && flags == 0);
    const auto found = space().find(pHost);
    require(found.has_value() && found->alive && found->kind == MemoryKind::pinned_host);
    *pDevice = pHost;
  });
}

cudaError_t cudaHostGetFlags(unsigned int* pFlags, void* pHost) {
  return entry([&] {
    enter();
    require(pFlags != nullptr);
    const auto found = space().find(pHost);
    require(found.has_value() && found->alive && found->kind == MemoryKind::pinned_host);
    *pFlags = cudaHostAllocPortable | cudaHostAllocMapped;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* ptr) {
  return entry([&] {
    Device& device = enter();
    require(attributes != nullptr);
    *attributes = {};
    const auto found = space().find(ptr);
    void* const address = const_cast<void*>(ptr);
    if (!found.has_value() || !found->alive) {
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->device = -2;  // cudaInvalidDeviceId
      attributes->hostPointer = address;
      return;
    }
    attributes->device = found->device >= 0 ? found->device : device.index;
    attributes->devicePointer = address;
    const Place place = place_of(ptr);
    attributes->type = place == Place::device    ? cudaMemoryTypeDevice
                       : place == Place::managed ? cudaMemoryTypeManaged
                                                 : cudaMemoryTypeHost;
    if (place != Place::device) attributes->hostPointer = address;
  });
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  return entry([&] {
    Device& device = enter();
    require(free != nullptr && total != nullptr);
    *total = device.memory_bytes;
    *free = device.memory_bytes - std::min(device.memory_bytes, space().used(device.index));
  });
}

cudaError_t cudaMemAdvise(const void* devPtr, size_t count, cudaMemoryAdvise, cudaMemLocation) {
  return entry([&] {
    Device& device = enter();
    require(place_of(devPtr) == Place::managed && may_copy_from(devPtr, count, device, "cudaMemAdvise"));
  });
}

cudaError_t cudaMemPrefetchAsync(const void* devPtr, size_t count, cudaMemLocation, unsigned int flags,
                                 cudaStream_t stream) {
  return entry([&] {
    const auto target = resolve_stream(stream, enter());
    require(flags == 0 && place_of(devPtr) == Place::managed &&
            may_copy_from(devPtr, count, target->device, "cudaMemPrefetchAsync"));
    enqueue(*target, std::make_shared<EmptyOperation>());
  });
}

}  // extern "C"
