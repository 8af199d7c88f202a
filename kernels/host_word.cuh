// Words in pinned memory that a kernel writes while the host reads them.
//
// The host reads by acquire loads. In the memory model of GPUs only accesses of system scope are no race with
// those: volatile ones are, plain stores and atomicExch (of the GPU's scope) are not.
#pragma once

#include <cstdint>

namespace sdp4bit {

/// The host sees the old value or the new one, sooner or later, in no order with anything else.
template <typename T>
__device__ __forceinline__ void show_host(T& word, T value) {
  *const_cast<volatile T*>(&word) = value;
}

/// Who sees the value on the host also sees what this thread knows to be written before.
template <typename T>
__device__ __forceinline__ void publish_to_host(T& word, T value) {
  __threadfence_system();
  show_host(word, value);
}

}  // namespace sdp4bit
