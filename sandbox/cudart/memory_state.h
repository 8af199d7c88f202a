// Which memory a pointer names, and what the runtime's own copies may do with it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <string>

#include "device.h"
#include "sandbox/ptx/address_space.h"

namespace sandbox::cudart {

/// pageable: not known to the address space, ordinary memory of the program.
enum class Place : std::uint8_t { device, managed, pinned, pageable };

Place place_of(const void* address);
inline bool on_device(Place place) {
  return place != Place::pageable;
}
inline bool on_host(Place place) {
  return place != Place::device;
}

/// Where a pointer points, for messages.
std::string describe(const void* address);

/// Lets a copy touch [address, address + bytes)? Says what is wrong, in the name of `who`, if not. Unwritten
/// bytes may be copied; pageable memory is not known and always passes, unless it lies just beside an
/// allocation's guards.
bool may_copy_from(const void* address, std::size_t bytes, const Device& device, const char* who);
bool may_copy_to(const void* address, std::size_t bytes, const Device& device, const char* who);

/// Moves bytes together with what is known about them: a copy of unwritten bytes is unwritten.
void copy_bytes(void* destination, const void* source, std::size_t bytes);
void mark_written(void* address, std::size_t bytes);

/// Memory of a pool was released by cudaFree.
void forget_pool_memory(const void* address);

}  // namespace sandbox::cudart
