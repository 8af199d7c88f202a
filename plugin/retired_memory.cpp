// Memory that its owner needs no more, until it can be freed or used again without harm; see cuda_raii.h.
#include <algorithm>
#include <mutex>
#include <vector>

#include "plugin/cuda_raii.h"
#include "plugin/log.h"

namespace sdp4bit {
namespace {

struct Blocks {
  std::mutex mutex;
  std::vector<MemoryBlock> retired;  // work under way may still use them
  std::vector<cudaEvent_t> events;
  std::vector<MemoryBlock> reusable;  // pinned: freeing it would wait for all devices, so it never is
};

/// Never destroyed: CUDA may be gone by the time static objects are.
Blocks& blocks() {
  static auto* const instance = new Blocks;
  return *instance;
}

std::vector<MemoryBlock> take_retired(int device) {
  Blocks& all = blocks();
  const std::lock_guard lock(all.mutex);
  const auto others = std::stable_partition(all.retired.begin(), all.retired.end(),
                                            [&](const MemoryBlock& block) { return block.device == device; });
  std::vector<MemoryBlock> taken(all.retired.begin(), others);
  all.retired.erase(all.retired.begin(), others);
  return taken;
}

bool nothing_is_retired() {
  const std::lock_guard lock(blocks().mutex);
  return blocks().retired.empty() && blocks().events.empty();
}

std::vector<cudaEvent_t> take_events() {
  std::vector<cudaEvent_t> events;
  const std::lock_guard lock(blocks().mutex);
  events.swap(blocks().events);
  return events;
}

}  // namespace

void retire_memory(const MemoryBlock& block) noexcept {
  Blocks& all = blocks();
  const std::lock_guard lock(all.mutex);
  try {
    all.retired.push_back(block);
  } catch (const std::bad_alloc&) {
    log_error("no host memory left: a block of device memory stays allocated");
  }
}

void retire_event(cudaEvent_t event) noexcept {
  Blocks& all = blocks();
  const std::lock_guard lock(all.mutex);
  try {
    all.events.push_back(event);
  } catch (const std::bad_alloc&) {
    log_error("no host memory left: an event is never destroyed");
  }
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
    const std::lock_guard lock(blocks().mutex);
    std::vector<MemoryBlock>& to = idle ? blocks().reusable : blocks().retired;
    for (const MemoryBlock& block : taken) {
      if (block.kind == MemoryKind::pinned) to.push_back(block);
    }
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
