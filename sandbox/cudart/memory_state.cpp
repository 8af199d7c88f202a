// Which memory a pointer names, and copying together with the "written" state.
#include "memory_state.h"

#include <array>
#include <cstdio>
#include <cstring>

namespace sandbox::cudart {
namespace {

ptx::AddressSpace& space() {
  return ptx::AddressSpace::instance();
}

/// Bytes this close to an allocation belong to its guards, not to the program's own memory.
constexpr std::size_t kGuardBytes = 128;

bool verdict_is_fine(ptx::AccessVerdict verdict, const void* address, std::size_t bytes, const Device& device,
                     const char* who, const char* what) {
  if (verdict == ptx::AccessVerdict::ok || verdict == ptx::AccessVerdict::uninitialized) return true;
  const char* why = verdict == ptx::AccessVerdict::use_after_free ? "after free" : "out of bounds";
  say("device %d: %s: %s of %zu bytes %s: %s", device.index, who, what, bytes, why,
      describe(address).c_str());
  return false;
}

bool is_foreign(const void* address, std::size_t bytes) {
  if (space().find(address).has_value()) return false;
  const auto near = space().nearest(address);
  if (!near.has_value() || near->kind != ptx::MemoryKind::device) return true;
  const auto first = reinterpret_cast<std::uintptr_t>(address);
  return first + bytes + kGuardBytes <= near->base || first >= near->base + near->bytes + kGuardBytes;
}

}  // namespace

std::string describe(const void* address) {
  if (!is_foreign(address, 1)) return space().describe(address);
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%p is pageable host memory", address);
  return text.data();
}

Place place_of(const void* address) {
  const auto found = space().find(address);
  if (!found.has_value()) return Place::pageable;
  if (found->kind == ptx::MemoryKind::managed) return Place::managed;
  return found->kind == ptx::MemoryKind::pinned_host ? Place::pinned : Place::device;
}

bool may_copy_from(const void* address, std::size_t bytes, const Device& device, const char* who) {
  if (is_foreign(address, bytes)) return true;
  return verdict_is_fine(space().check_read(address, bytes), address, bytes, device, who, "read");
}

bool may_copy_to(const void* address, std::size_t bytes, const Device& device, const char* who) {
  if (is_foreign(address, bytes)) return true;
  return verdict_is_fine(space().check_write(address, bytes), address, bytes, device, who, "write");
}

void copy_bytes(void* destination, const void* source, std::size_t bytes) {
  std::memmove(destination, source, bytes);
  space().copy_written(destination, source, bytes);
}

void mark_written(void* address, std::size_t bytes) {
  space().mark_written(address, bytes);
}

}  // namespace sandbox::cudart
