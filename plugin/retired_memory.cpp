// Memory that its owner needs no more, until it can be freed or used again without harm; see cuda_raii.h.
#include <algorithm>
#include <iterator>
#include <mutex>
#include <vector>

#include "plugin/cuda_raii.h"
#include "plugin/log.h"

namespace sdp4bit {
namespace {

/// A list that never allocates when something is added: room was taken when the thing was made.
template <typename T>
struct RetiredList {
  std::vector<T> list;
  std::size_t rooms = 0;  // taken, by things that are not retired yet

  bool take_room() noexcept {
    try {
      list.reserve(list.size() + rooms + 1);
    } catch (const std::bad_alloc&) {
      return false;
    }
    ++rooms;
    return true;
  }
  void add(const T& thing) noexcept {
    --rooms;
    list.push_back(thing);
  }
};

struct Blocks {
  std::mutex mutex;
  RetiredList<MemoryBlock> retired;  // work under way may still use them
  RetiredList<cudaEvent_t> events;
  std::vector<MemoryBlock> reusable;  // pinned: freeing it would wait for all devices, so it never is
};

/// Never destroyed: CUDA may be gone by the time static objects are. Without an allocation, which could fail.
Blocks& blocks() {
  alignas(Blocks) static std::byte storage[sizeof(Blocks)];
  static Blocks& instance = *new (storage) Blocks;
  return instance;
}

/// Of one device. The lists keep their capacity.
std::vector<MemoryBlock> take_retired(int device) {
  std::vector<MemoryBlock>& all = blocks().retired.list;
  const std::lock_guard lock(blocks().mutex);
  const auto is_of_device = [device](const MemoryBlock& block) { return block.device == device; };
  std::vector<MemoryBlock> taken;
  taken.reserve(all.size());
  std::copy_if(all.begin(), all.end(), std::back_inserter(taken), is_of_device);
  blocks().reusable.reserve(blocks().reusable.size() + taken.size());
  all.erase(std::remove_if(all.begin(), all.end(), is_of_device), all.end());
  return taken;
}

std::vector<cudaEvent_t> take_events() {
  std::vector<cudaEvent_t>& all = blocks().events.list;
  const std::lock_guard lock(blocks().mutex);
  std::vector<cudaEvent_t> events = all;
  all.clear();
  return events;
}

bool nothing_is_retired() {
  const std::lock_guard lock(blocks().mutex);
  return blocks().retired.list.empty() && blocks().events.list.empty();
}

/// Pinned memory that was retired: no work uses it, or nobody knows.
void keep_pinned(const std::vector<MemoryBlock>& taken, bool device_was_idle) {
  Blocks& all = blocks();
  const std::lock_guard lock(all.mutex);
  for (const MemoryBlock& block : taken) {
    if (block.kind != MemoryKind::pinned) continue;
    if (!device_was_idle && all.retired.take_room()) {
      all.retired.add(block);
    } else if (device_was_idle) {
      all.reusable.push_back(block);
    }
  }
}

}  // namespace

bool take_room_for_memory() noexcept {
  const std::lock_guard lock(blocks().mutex);
  return blocks().retired.take_room();
}
bool take_room_for_event() noexcept {
  const std::lock_guard lock(blocks().mutex);
  return blocks().events.take_room();
}
void give_back_room_for_memory() noexcept {
  const std::lock_guard lock(blocks().mutex);
  --blocks().retired.rooms;
}
void give_back_room_for_event() noexcept {
  const std::lock_guard lock(blocks().mutex);
  --blocks().events.rooms;
}

void retire_memory(const MemoryBlock& block) noexcept {
  const std::lock_guard lock(blocks().mutex);
  blocks().retired.add(block);
}

void retire_event(cudaEvent_t event) noexcept {
  const std::lock_guard lock(blocks().mutex);
  blocks().events.add(event);
}

void collect_retired_memory(int device) noexcept {
  try {
    if (nothing_is_retired()) return;
    const RelaxedCapture relaxed;  // another thread may be capturing; nothing is taken before it is there
    for (const cudaEvent_t event : take_events()) (void)cudaEventDestroy(event);  // waits for nothing
    const std::vector<MemoryBlock> taken = take_retired(device);
    bool idle = false;
    for (const MemoryBlock& block : taken) {
      if (block.kind != MemoryKind::device) continue;
      const cudaError_t error = cudaFree(block.pointer);
      if (error != cudaSuccess) log_error("freeing memory: %s", cudaGetErrorName(error));
      idle = idle || error == cudaSuccess;  // freeing has waited for the device
    }
    keep_pinned(taken, idle);
  } catch (const std::exception& error) {
    log_error("freeing memory: %s", error.what());
  }
}

cudaError_t take_pinned_memory(std::size_t bytes, MemoryBlock& block) noexcept {
  Blocks& all = blocks();
  {
    const std::lock_guard lock(all.mutex);
    const auto smallest = std::min_element(
        all.reusable.begin(), all.reusable.end(), [&](const MemoryBlock& a, const MemoryBlock& b) {
          return (a.bytes >= bytes) != (b.bytes >= bytes) ? a.bytes >= bytes : a.bytes < b.bytes;
        });
    if (smallest != all.reusable.end() && smallest->bytes >= bytes) {
      block.pointer = smallest->pointer;
      block.bytes = smallest->bytes;
      all.reusable.erase(smallest);
      return cudaSuccess;
    }
  }
  constexpr std::size_t kPage = 4096;  // what the operating system gives at least
  block.bytes = (bytes + kPage - 1) / kPage * kPage;
  return cudaHostAlloc(&block.pointer, block.bytes, cudaHostAllocPortable | cudaHostAllocMapped);
}

}  // namespace sdp4bit
