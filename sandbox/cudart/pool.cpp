// Stream-ordered allocation: memory pools, and allocation and release as work of a stream.
#include <algorithm>
#include <array>
#include <atomic>
#include <tuple>
#include <unordered_map>

#include "capture.h"
#include "memory_state.h"
#include "stream.h"

using namespace sandbox::cudart;
using sandbox::ptx::AddressSpace;
using sandbox::ptx::MemoryKind;

namespace {

class Pool {
 public:
  Pool(Device& device_, std::size_t limit_) : device(device_), limit(limit_) {}

  Device& device;
  const std::size_t limit;  // 0: the device's memory
  std::atomic<std::uint64_t> release_threshold{0};
  std::atomic<int> follow_events{1}, opportunistic{1}, internal_dependencies{1};
  std::atomic<std::uint64_t> used{0}, used_high{0};

  void took(std::size_t bytes) {
    const std::uint64_t now = used.fetch_add(bytes) + bytes;
    std::uint64_t high = used_high.load();
    while (high < now && !used_high.compare_exchange_weak(high, now)) {
    }
  }
  void gave(std::size_t bytes) { used.fetch_sub(bytes); }
  cudaMemPool_t handle() { return reinterpret_cast<cudaMemPool_t>(this); }
};
using PoolPtr = std::shared_ptr<Pool>;

struct Pools {
  std::mutex mutex;
  std::array<PoolPtr, kMaxDevices> defaults;
  std::array<PoolPtr, kMaxDevices> current;
  std::unordered_map<const void*, std::pair<PoolPtr, std::size_t>> live;  // by address
};

Pools& pools() {
  static auto& instance = *new Pools;
  return instance;
}

HandleTable<Pool>& table() {
  static auto& instance = *new HandleTable<Pool>;
  return instance;
}

PoolPtr default_pool(Device& device) {
  std::lock_guard lock(pools().mutex);
  auto& pool = pools().defaults[static_cast<std::size_t>(device.index)];
  if (pool == nullptr) {
    pool = std::make_shared<Pool>(device, 0);
    table().insert(pool);
  }
  return pool;
}

PoolPtr current_pool(Device& device) {
  auto otherwise = default_pool(device);
  std::lock_guard lock(pools().mutex);
  const auto& pool = pools().current[static_cast<std::size_t>(device.index)];
  return pool != nullptr ? pool : otherwise;
}

PoolPtr resolve_pool(cudaMemPool_t pool) {
  return table().get(pool, cudaErrorInvalidValue);
}

Device& device_of(const cudaMemLocation& location) {
  if (location.type != cudaMemLocationTypeDevice)
    fail(cudaErrorNotSupported, "only device memory pools are implemented");
  return device_at(location.id);
}

/// Memory is there when the call returns, a time at which a device may not have it yet: only work behind this
/// point of the stream, or ordered after it, may use it.
void allocate(void** out, std::size_t bytes, const PoolPtr& pool, Stream& stream) {
  require(out != nullptr && bytes > 0);
  stream.device.check();
  refuse_capture_of(stream);
  if (pool->device.allocation_fails()) fail(cudaErrorMemoryAllocation);
  if (pool->limit != 0 && pool->used.load() + bytes > pool->limit) fail(cudaErrorMemoryAllocation);
  auto& space = AddressSpace::instance();
  void* memory = space.allocate(bytes, pool->device.index, MemoryKind::device);
  if (memory == nullptr) {
    pool->device.synchronize();  // releases may be on their way
    memory = space.allocate(bytes, pool->device.index, MemoryKind::device);
  }
  if (memory == nullptr) fail(cudaErrorMemoryAllocation);
  pool->took(bytes);
  {
    std::lock_guard lock(pools().mutex);
    pools().live[memory] = {pool, bytes};
  }
  stream.submit(std::make_shared<EmptyOperation>());
  *out = memory;
}

class FreeOperation final : public Operation {
 public:
  FreeOperation(void* address, PoolPtr pool, std::size_t bytes)
      : address_(address), pool_(std::move(pool)), bytes_(bytes) {}
  cudaGraphNodeType type() const override { return cudaGraphNodeTypeMemFree; }
  cudaError_t execute(Device&) const override {
    AddressSpace::instance().release(address_);
    pool_->gave(bytes_);
    return cudaSuccess;
  }

 private:
  void* address_;
  PoolPtr pool_;
  std::size_t bytes_;
};

std::uint64_t attribute(const Pool& pool, cudaMemPoolAttr attr) {
  switch (attr) {
    case cudaMemPoolAttrReleaseThreshold:
      return pool.release_threshold.load();
    case cudaMemPoolAttrReservedMemCurrent:
    case cudaMemPoolAttrUsedMemCurrent:
      return pool.used.load();
    case cudaMemPoolAttrReservedMemHigh:
    case cudaMemPoolAttrUsedMemHigh:
      return pool.used_high.load();
    default:
      fail(cudaErrorInvalidValue);
  }
}

std::atomic<int>* switch_of(Pool& pool, cudaMemPoolAttr attr) {
  switch (attr) {
    case cudaMemPoolReuseFollowEventDependencies:
      return &pool.follow_events;
    case cudaMemPoolReuseAllowOpportunistic:
      return &pool.opportunistic;
    case cudaMemPoolReuseAllowInternalDependencies:
      return &pool.internal_dependencies;
    default:
      return nullptr;
  }
}

}  // namespace

namespace sandbox::cudart {

void forget_pool_memory(const void* address) {
  std::lock_guard lock(pools().mutex);
  const auto found = pools().live.find(address);
  if (found == pools().live.end()) return;
  found->second.first->gave(found->second.second);
  pools().live.erase(found);
}

}  // namespace sandbox::cudart

extern "C" {

cudaError_t cudaMallocAsync(void** devPtr, size_t size, cudaStream_t hStream) {
  return entry([&] {
    const auto stream = resolve_stream(hStream, enter());
    allocate(devPtr, size, current_pool(stream->device), *stream);
  });
}

cudaError_t cudaMallocFromPoolAsync(void** ptr, size_t size, cudaMemPool_t memPool, cudaStream_t stream) {
  return entry([&] {
    const auto target = resolve_stream(stream, enter());
    allocate(ptr, size, resolve_pool(memPool), *target);
  });
}

cudaError_t cudaFreeAsync(void* devPtr, cudaStream_t hStream) {
  return entry([&] {
    const auto stream = resolve_stream(hStream, enter());
    if (devPtr == nullptr) return;
    stream->device.check();
    refuse_capture_of(*stream);
    PoolPtr pool;
    std::size_t bytes = 0;
    {
      std::lock_guard lock(pools().mutex);
      const auto found = pools().live.find(devPtr);
      if (found != pools().live.end()) {
        std::tie(pool, bytes) = found->second;
        pools().live.erase(found);
      }
    }
    if (pool == nullptr) {
      fail(cudaErrorInvalidValue, "cudaFreeAsync of what no pool holds: %s", describe(devPtr).c_str());
    }
    stream->submit(std::make_shared<FreeOperation>(devPtr, std::move(pool), bytes));
  });
}

cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* memPool, int device) {
  return entry([&] {
    enter_process();
    require(memPool != nullptr);
    *memPool = default_pool(device_at(device))->handle();
  });
}

cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* memPool, int device) {
  return entry([&] {
    enter_process();
    require(memPool != nullptr);
    *memPool = current_pool(device_at(device))->handle();
  });
}

cudaError_t cudaDeviceSetMemPool(int device, cudaMemPool_t memPool) {
  return entry([&] {
    enter_process();
    const auto pool = resolve_pool(memPool);
    require(&pool->device == &device_at(device));
    std::lock_guard lock(pools().mutex);
    pools().current[static_cast<std::size_t>(device)] = pool;
  });
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t* memPool, const cudaMemPoolProps* poolProps) {
  return entry([&] {
    enter();
    require(memPool != nullptr && poolProps != nullptr &&
            poolProps->allocType == cudaMemAllocationTypePinned);
    if (poolProps->handleTypes != cudaMemHandleTypeNone) {
      fail(cudaErrorNotSupported, "memory pools shared between processes are not implemented");
    }
    auto pool = std::make_shared<Pool>(device_of(poolProps->location), poolProps->maxSize);
    *memPool = pool->handle();
    table().insert(std::move(pool));
  });
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t memPool) {
  return entry([&] {
    enter();
    const auto pool = resolve_pool(memPool);
    require(default_pool(pool->device) != pool);
    table().remove(memPool, cudaErrorInvalidValue);
    std::lock_guard lock(pools().mutex);
    auto& current = pools().current[static_cast<std::size_t>(pool->device.index)];
    if (current == pool) current = nullptr;
  });
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t memPool, size_t) {
  return entry([&] {
    enter();
    (void)resolve_pool(memPool);  // nothing unused is ever kept
  });
}

cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value) {
  return entry([&] {
    enter();
    require(value != nullptr);
    const auto pool = resolve_pool(memPool);
    if (const auto* flag = switch_of(*pool, attr); flag != nullptr) {
      *static_cast<int*>(value) = flag->load();
    } else {
      *static_cast<std::uint64_t*>(value) = attribute(*pool, attr);
    }
  });
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t memPool, cudaMemPoolAttr attr, void* value) {
  return entry([&] {
    enter();
    require(value != nullptr);
    const auto pool = resolve_pool(memPool);
    if (auto* flag = switch_of(*pool, attr); flag != nullptr) {
      flag->store(*static_cast<int*>(value));
      return;
    }
    const auto number = *static_cast<std::uint64_t*>(value);
    if (attr == cudaMemPoolAttrReleaseThreshold) {
      pool->release_threshold.store(number);
      return;
    }
    require((attr == cudaMemPoolAttrUsedMemHigh || attr == cudaMemPoolAttrReservedMemHigh) && number == 0);
    pool->used_high.store(pool->used.load());
  });
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t memPool, const cudaMemAccessDesc* descList, size_t count) {
  return entry([&] {
    enter();
    (void)resolve_pool(memPool);
    require(count == 0 || descList != nullptr);
    for (std::size_t i = 0; i < count; ++i) (void)device_of(descList[i].location);
  });
}

cudaError_t cudaMemPoolGetAccess(cudaMemAccessFlags* flags, cudaMemPool_t memPool,
                                 cudaMemLocation* location) {
  return entry([&] {
    enter();
    require(flags != nullptr && location != nullptr);
    (void)resolve_pool(memPool);
    (void)device_of(*location);
    *flags = cudaMemAccessFlagsProtReadWrite;
  });
}

}  // extern "C"
