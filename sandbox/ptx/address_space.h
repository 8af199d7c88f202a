// Every byte of emulated device memory: who owns it, whether it is alive, whether it was ever written.
//
// Device pointers are ordinary host pointers. The runtime stand-in registers and releases ranges; the
// interpreter and the runtime's own copies ask whether an access is allowed and record what was written.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace sandbox::ptx {

enum class MemoryKind : std::uint8_t { device, pinned_host, managed, module_variable, imported };

struct Allocation {
  std::uintptr_t base = 0;
  std::size_t bytes = 0;
  int device = -1;  // -1: host memory
  MemoryKind kind = MemoryKind::device;
  std::uint64_t serial = 0;  // order of allocation, shown in messages
  bool alive = true;         // false: freed, remembered to name uses after free
};

struct MemoryRange;  // an allocation as the interpreter sees it

enum class AccessVerdict : std::uint8_t { ok, out_of_bounds, use_after_free, uninitialized };

class AddressSpace {
 public:
  /// The one address space of the process.
  static AddressSpace& instance();

  /// Allocates `bytes` (> 0) of fresh memory, 256-byte aligned, surrounded by guard space that no other
  /// allocation uses. Returns nullptr when `device`'s capacity (set_capacity) would be exceeded or the host
  /// is out of memory.
  void* allocate(std::size_t bytes, int device, MemoryKind kind);
  /// Ends an allocation's life; the range stays reserved for a while so that later uses are named.
  /// False if `base` is not the base of a live allocation.
  bool release(void* base);

  /// Memory made elsewhere (host registration, shared memory); counts as written.
  void adopt(void* base, std::size_t bytes, int device, MemoryKind kind);
  bool disown(void* base);

  /// The allocation, alive or remembered, that contains `address`.
  std::optional<Allocation> find(const void* address) const;
  /// The live or remembered allocation nearest to `address`, for messages.
  std::optional<Allocation> nearest(const void* address) const;

  /// May [address, address + bytes) be read or written by a device? Reads also require written bytes.
  AccessVerdict check_read(const void* address, std::size_t bytes) const;
  AccessVerdict check_write(const void* address, std::size_t bytes) const;
  /// Records a write; cheap for ranges already written.
  void mark_written(void* address, std::size_t bytes);
  /// Forgets that a range was written (stream-ordered reuse of memory).
  void mark_unwritten(void* address, std::size_t bytes);
  /// Gives each byte of the destination the "written" state of its source, as a copy of the bytes does.
  void copy_written(void* destination, const void* source, std::size_t bytes);

  /// "0x7f... is 4 bytes after allocation #12 (1024 bytes on device 0, alive)".
  std::string describe(const void* address) const;

  /// The interpreter's view of the allocation, alive or remembered, that contains `address`, or nullptr.
  MemoryRange* range(std::uintptr_t address) const;

  void set_capacity(int device, std::size_t bytes);
  std::size_t used(int device) const;

 private:
  AddressSpace();
  ~AddressSpace() = default;
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sandbox::ptx
