// The table of all allocations: ordered by address, with freed ranges remembered for a while.
#include "sandbox/ptx/address_space.h"

#include <sys/mman.h>

#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <vector>

#include "sandbox/ptx/memory_range.h"

namespace sandbox::ptx {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::size_t kPage = 4096;
constexpr std::size_t kMappedFrom = 64 * 1024;           // larger allocations get their own mapping
constexpr std::size_t kRememberedRanges = 4096;          // freed ranges that can still be named
constexpr std::size_t kRememberedSmallBytes = 32 << 20;  // held by malloc for freed ranges
constexpr std::size_t kRememberedMappedBytes = std::size_t{1} << 40;  // address space only

std::size_t round_up(std::size_t value, std::size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/// What a mapped range's bit per byte takes; its contents are given back when it is freed, this is not.
std::size_t map_bytes(const MemoryRange& range) {
  return range.kind == MemoryKind::device ? range.bytes / 8 : 0;
}

const char* kind_name(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::device:
      return "device memory";
    case MemoryKind::pinned_host:
      return "pinned host memory";
    case MemoryKind::managed:
      return "managed memory";
    case MemoryKind::module_variable:
      return "a module variable";
    case MemoryKind::imported:
      return "imported memory";
  }
  return "memory";
}

}  // namespace

struct AddressSpace::Impl {
  mutable std::shared_mutex mutex;
  std::map<std::uintptr_t, MemoryRange*> ranges;  // alive and remembered
  std::deque<MemoryRange*> freed;                 // oldest first
  std::vector<MemoryRange*> spare;                // records to reuse
  std::map<int, std::size_t> used;
  std::map<int, std::size_t> capacity;
  std::uint64_t next_serial = 1;
  std::size_t remembered_small_bytes = 0;
  std::size_t remembered_mapped_bytes = 0;

  MemoryRange* find(std::uintptr_t address) const {
    auto next = ranges.upper_bound(address);
    if (next == ranges.begin()) return nullptr;
    MemoryRange* range = std::prev(next)->second;
    return range->contains(address) ? range : nullptr;
  }

  MemoryRange* nearest(std::uintptr_t address) const {
    auto next = ranges.upper_bound(address);
    MemoryRange* below = next == ranges.begin() ? nullptr : std::prev(next)->second;
    MemoryRange* above = next == ranges.end() ? nullptr : next->second;
    if (!below) return above;
    if (below->contains(address) || !above) return below;
    return address - below->end() <= above->base - address ? below : above;
  }

  MemoryRange* add(std::uintptr_t base, std::size_t bytes, int device, MemoryKind kind) {
    MemoryRange* range;
    if (spare.empty()) {
      range = new MemoryRange;  // lives as long as the process: holders may still look at it
    } else {
      range = spare.back();
      spare.pop_back();
    }
    range->base = base;
    range->bytes = bytes;
    range->device = device;
    range->kind = kind;
    range->serial = next_serial++;
    range->block = nullptr;
    range->block_bytes = 0;
    range->live_serial = range->serial;
    ranges[base] = range;
    used[device] += bytes;
    return range;
  }

  void give_back(MemoryRange* range) {
    ranges.erase(range->base);
    if (range->block_bytes != 0) {
      remembered_mapped_bytes -= range->block_bytes;
      remembered_small_bytes -= map_bytes(*range);
      ::munmap(range->block, range->block_bytes);
    } else if (range->block) {
      remembered_small_bytes -= range->bytes;
      std::free(range->block);
    }
    range->block = nullptr;
    range->written.forget();
    spare.push_back(range);
  }

  void trim() {
    while (freed.size() > kRememberedRanges || remembered_small_bytes > kRememberedSmallBytes ||
           remembered_mapped_bytes > kRememberedMappedBytes) {
      MemoryRange* oldest = freed.front();
      freed.pop_front();
      give_back(oldest);
    }
  }

  /// Forgets freed ranges that memory made elsewhere now covers.
  void evict_overlapping(std::uintptr_t base, std::size_t bytes) {
    for (auto entry = freed.begin(); entry != freed.end();) {
      MemoryRange* range = *entry;
      if (range->base < base + bytes && base < range->end()) {
        entry = freed.erase(entry);
        give_back(range);
      } else {
        ++entry;
      }
    }
  }

  AccessVerdict check(std::uintptr_t address, std::size_t bytes, bool read) const {
    std::shared_lock lock(mutex);
    const MemoryRange* range = find(address);
    if (!range || bytes > range->end() - address) return AccessVerdict::out_of_bounds;
    if (!range->alive()) return AccessVerdict::use_after_free;
    if (read && !range->written.is_written(address - range->base, bytes)) return AccessVerdict::uninitialized;
    return AccessVerdict::ok;
  }

  static std::optional<Allocation> copy_of(const MemoryRange* range) {
    if (!range) return std::nullopt;
    return Allocation{range->base, range->bytes, range->device, range->kind, range->serial, range->alive()};
  }
};

AddressSpace::AddressSpace() : impl_(std::make_unique<Impl>()) {}

AddressSpace& AddressSpace::instance() {
  // Never destroyed: kernels and static destructors of the program may still use it at exit.
  static auto* const space = new AddressSpace;
  return *space;
}

void* AddressSpace::allocate(std::size_t bytes, int device, MemoryKind kind) {
  std::unique_lock lock(impl_->mutex);
  const auto limit = impl_->capacity.find(device);
  if (bytes == 0 || bytes > (std::size_t{1} << 46)) return nullptr;
  if (limit != impl_->capacity.end() && impl_->used[device] + bytes > limit->second) return nullptr;

  void* block = nullptr;
  std::size_t block_bytes = 0;
  std::uintptr_t base = 0;
  if (bytes >= kMappedFrom) {
    block_bytes = round_up(bytes, kPage) + 2 * kPage;
    block = ::mmap(nullptr, block_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                   -1, 0);
    if (block == MAP_FAILED) return nullptr;
    base = reinterpret_cast<std::uintptr_t>(block) + kPage;
  } else {
    block = std::aligned_alloc(kAlignment, round_up(bytes, kAlignment) + 2 * kAlignment);
    if (!block) return nullptr;
    base = reinterpret_cast<std::uintptr_t>(block) + kAlignment;
  }
  impl_->evict_overlapping(reinterpret_cast<std::uintptr_t>(block), bytes);
  MemoryRange* range = impl_->add(base, bytes, device, kind);
  range->block = block;
  range->block_bytes = block_bytes;
  // What the host can write without our knowledge cannot be tracked.
  if (kind == MemoryKind::device) range->written.track(bytes);
  return reinterpret_cast<void*>(base);
}

bool AddressSpace::release(void* base) {
  std::unique_lock lock(impl_->mutex);
  const auto entry = impl_->ranges.find(reinterpret_cast<std::uintptr_t>(base));
  if (entry == impl_->ranges.end() || !entry->second->alive() || !entry->second->block) return false;
  MemoryRange* range = entry->second;
  range->live_serial = 0;
  impl_->used[range->device] -= range->bytes;
  if (range->block_bytes != 0) {
    ::madvise(range->block, range->block_bytes, MADV_DONTNEED);
    impl_->remembered_mapped_bytes += range->block_bytes;
    impl_->remembered_small_bytes += map_bytes(*range);
  } else {
    impl_->remembered_small_bytes += range->bytes;
  }
  impl_->freed.push_back(range);
  impl_->trim();
  return true;
}

void AddressSpace::adopt(void* base, std::size_t bytes, int device, MemoryKind kind) {
  std::unique_lock lock(impl_->mutex);
  impl_->evict_overlapping(reinterpret_cast<std::uintptr_t>(base), bytes);
  impl_->add(reinterpret_cast<std::uintptr_t>(base), bytes, device, kind);
}

bool AddressSpace::disown(void* base) {
  std::unique_lock lock(impl_->mutex);
  const auto entry = impl_->ranges.find(reinterpret_cast<std::uintptr_t>(base));
  if (entry == impl_->ranges.end() || !entry->second->alive() || entry->second->block) return false;
  MemoryRange* range = entry->second;
  range->live_serial = 0;
  impl_->used[range->device] -= range->bytes;
  impl_->freed.push_back(range);
  impl_->trim();
  return true;
}

std::optional<Allocation> AddressSpace::find(const void* address) const {
  std::shared_lock lock(impl_->mutex);
  return Impl::copy_of(impl_->find(reinterpret_cast<std::uintptr_t>(address)));
}

std::optional<Allocation> AddressSpace::nearest(const void* address) const {
  std::shared_lock lock(impl_->mutex);
  return Impl::copy_of(impl_->nearest(reinterpret_cast<std::uintptr_t>(address)));
}

AccessVerdict AddressSpace::check_read(const void* address, std::size_t bytes) const {
  return impl_->check(reinterpret_cast<std::uintptr_t>(address), bytes, true);
}

AccessVerdict AddressSpace::check_write(const void* address, std::size_t bytes) const {
  return impl_->check(reinterpret_cast<std::uintptr_t>(address), bytes, false);
}

void AddressSpace::mark_written(void* address, std::size_t bytes) {
  std::shared_lock lock(impl_->mutex);
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  if (MemoryRange* range = impl_->find(start); range && bytes <= range->end() - start)
    range->written.mark(start - range->base, bytes);
}

void AddressSpace::mark_unwritten(void* address, std::size_t bytes) {
  std::unique_lock lock(impl_->mutex);
  const auto start = reinterpret_cast<std::uintptr_t>(address);
  if (MemoryRange* range = impl_->find(start); range && bytes <= range->end() - start)
    range->written.clear(start - range->base, bytes);
}

void AddressSpace::copy_written(void* destination, const void* source, std::size_t bytes) {
  if (bytes == 0) return;
  const auto to = reinterpret_cast<std::uintptr_t>(destination);
  const auto from = reinterpret_cast<std::uintptr_t>(source);
  // What nobody tracks, the program's own memory too, counts as written.
  if (const auto verdict = check_read(source, bytes); verdict != AccessVerdict::uninitialized) {
    mark_written(destination, bytes);
    return;
  }
  std::unique_lock lock(impl_->mutex);  // clearing and marking the same bits do not mix
  MemoryRange* target = impl_->find(to);
  const MemoryRange* origin = impl_->find(from);
  if (!target || bytes > target->end() - to || !origin || bytes > origin->end() - from) return;
  const std::size_t first = to - target->base;
  std::size_t done = 0;
  while (done < bytes) {
    const std::size_t left = bytes - done;
    const std::size_t here = from - origin->base + done;
    const std::size_t written = origin->written.first_unwritten(here, left) - here;
    if (written > 0) target->written.mark(first + done, written);
    if (written == left) break;
    const std::size_t next = origin->written.first_written(here + written, left - written) - here;
    target->written.clear(first + done + written, next - written);
    done += next;
  }
}

std::string AddressSpace::describe(const void* address) const {
  const auto place = reinterpret_cast<std::uintptr_t>(address);
  char text[256];
  const auto range = nearest(address);
  if (!range) {
    std::snprintf(text, sizeof text, "0x%" PRIxPTR " belongs to no allocation (there is none)", place);
    return text;
  }
  const std::uintptr_t end = range->base + range->bytes;
  char where[64];
  if (place < range->base)
    std::snprintf(where, sizeof where, "%zu bytes before", static_cast<std::size_t>(range->base - place));
  else if (place >= end)
    std::snprintf(where, sizeof where, "%zu bytes after the end of", static_cast<std::size_t>(place - end));
  else
    std::snprintf(where, sizeof where, "%zu bytes into", static_cast<std::size_t>(place - range->base));
  char owner[32] = "the host";
  if (range->device >= 0) std::snprintf(owner, sizeof owner, "device %d", range->device);
  std::snprintf(text, sizeof text, "0x%" PRIxPTR " is %s allocation #%" PRIu64 " (%zu bytes of %s on %s, %s)",
                place, where, range->serial, range->bytes, kind_name(range->kind), owner,
                range->alive ? "alive" : "freed");
  return text;
}

void AddressSpace::set_capacity(int device, std::size_t bytes) {
  std::unique_lock lock(impl_->mutex);
  impl_->capacity[device] = bytes;
}

std::size_t AddressSpace::used(int device) const {
  std::shared_lock lock(impl_->mutex);
  const auto entry = impl_->used.find(device);
  return entry == impl_->used.end() ? 0 : entry->second;
}

MemoryRange* AddressSpace::range(std::uintptr_t address) const {
  std::shared_lock lock(impl_->mutex);
  return impl_->find(address);
}

MemoryRange* find_range(std::uintptr_t address) {
  return AddressSpace::instance().range(address);
}

}  // namespace sandbox::ptx
