// Movement of one thread's 32-element block: 16 bytes at a time where the address allows, with guarded ends.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/element.h"
#include "kernels/instructions.h"
#include "kernels/wire_format.h"

namespace sdp4bit {

SDP4BIT_HOST_DEVICE bool is_aligned(const void* address, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
}

/// Reads 16-byte aligned words.
template <unsigned Words>
__device__ __forceinline__ void load_words(std::uint32_t (&words)[Words], const void* address) {
  static_assert(Words % 4 == 0);
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < Words / 4; ++i) {
    const uint4 piece = static_cast<const uint4*>(address)[i];
    words[4 * i] = piece.x;
    words[4 * i + 1] = piece.y;
    words[4 * i + 2] = piece.z;
    words[4 * i + 3] = piece.w;
  }
}

/// Writes 16-byte aligned words. __stwb is a plain store; an assignment the compiler may take apart into
/// words.
template <unsigned Words>
__device__ __forceinline__ void store_words(void* address, const std::uint32_t (&words)[Words]) {
  static_assert(Words % 4 == 0);
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < Words / 4; ++i) {
    const uint4 piece{words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]};
    __stwb(static_cast<uint4*>(address) + i, piece);
  }
}

/// 16 bits, from an address aligned to 2 bytes, or to one: a program may well cut tensors out of raw bytes,
/// and NCCL copies from and to any address.
template <unsigned Aligned>
__device__ __forceinline__ std::uint32_t load_half(const void* address, unsigned index) {
  if constexpr (Aligned >= 2) return static_cast<const std::uint16_t*>(address)[index];
  const auto* const bytes = static_cast<const std::uint8_t*>(address) + 2 * index;
  return bytes[0] | std::uint32_t{bytes[1]} << 8;
}
template <unsigned Aligned>
__device__ __forceinline__ void store_half(void* address, unsigned index, std::uint32_t half) {
  if constexpr (Aligned >= 2) {
    static_cast<std::uint16_t*>(address)[index] = static_cast<std::uint16_t>(half);
  } else {
    auto* const bytes = static_cast<std::uint8_t*>(address) + 2 * index;
    bytes[0] = static_cast<std::uint8_t>(half);
    bytes[1] = static_cast<std::uint8_t>(half >> 8);
  }
}

/// Reads the first `bytes` (even) of the words; the others become zero. The address is aligned to 1, 2 or 4
/// bytes.
template <unsigned Aligned, unsigned Words>
__device__ __forceinline__ void load_guarded(std::uint32_t (&words)[Words], const void* address,
                                             unsigned bytes) {
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < Words; ++i) {
    words[i] = 0;
    if (Aligned == 4 && 4 * i + 4 <= bytes) {
      words[i] = static_cast<const std::uint32_t*>(address)[i];
    } else if (4 * i < bytes) {
      words[i] = load_half<Aligned>(address, 2 * i);
      if (4 * i + 2 < bytes) words[i] |= load_half<Aligned>(address, 2 * i + 1) << 16;
    }
  }
}

template <unsigned Aligned, unsigned Words>
__device__ __forceinline__ void store_guarded(void* address, const std::uint32_t (&words)[Words],
                                              unsigned bytes) {
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < Words; ++i) {
    if (Aligned == 4 && 4 * i + 4 <= bytes) {
      static_cast<std::uint32_t*>(address)[i] = words[i];
    } else if (4 * i < bytes) {
      store_half<Aligned>(address, 2 * i, words[i] & 0xffff);
      if (4 * i + 2 < bytes) store_half<Aligned>(address, 2 * i + 1, words[i] >> 16);
    }
  }
}

/// The same number, of which the compiler forgets the origin: what is computed from it stays behind the
/// branch that it stands in, and it is not computed anew in each round of a loop.
__device__ __forceinline__ std::uint32_t kept(std::uint32_t value) {
  asm volatile("" : "+r"(value));
  return value;
}
__device__ __forceinline__ std::uint64_t kept(std::uint64_t value) {
  asm volatile("" : "+l"(value));
  return value;
}
/// Of global memory.
template <typename T>
__device__ __forceinline__ T* kept(T* pointer) {
  asm volatile("" : "+l"(pointer));
  __builtin_assume(__isGlobal(pointer));
  return pointer;
}

/// Words of a block of type T.
template <typename T>
inline constexpr unsigned kBlockWords = kBlock * sizeof(T) / 4;

/// The words of `size` (1 to 32) elements at any address; the others are zero.
template <typename T>
__device__ __forceinline__ void load_block_words(std::uint32_t (&words)[kBlockWords<T>], const T* address,
                                                 unsigned size) {
  if (size == kBlock && is_aligned(address, 16)) {
    load_words(words, address);
  } else if (is_aligned(address, 4)) {
    load_guarded<4>(words, address, size * sizeof(T));
  } else if (is_aligned(address, 2)) {
    load_guarded<2>(words, address, size * sizeof(T));
  } else {
    load_guarded<1>(words, address, size * sizeof(T));
  }
}

template <typename T>
__device__ __forceinline__ void store_block_words(T* address, const std::uint32_t (&words)[kBlockWords<T>],
                                                  unsigned size) {
  if (size == kBlock && is_aligned(address, 16)) {
    store_words(address, words);
  } else if (is_aligned(address, 4)) {
    store_guarded<4>(address, words, size * sizeof(T));
  } else if (is_aligned(address, 2)) {
    store_guarded<2>(address, words, size * sizeof(T));
  } else {
    store_guarded<1>(address, words, size * sizeof(T));
  }
}

template <typename T>
__device__ __forceinline__ void words_to_floats(float (&value)[kBlock],
                                                const std::uint32_t (&words)[kBlockWords<T>]) {
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kBlock; ++i) {
    if constexpr (sizeof(T) == 4) {
      value[i] = float_from_bits(words[i]);
    } else {
      value[i] = to_float(T{static_cast<std::uint16_t>(words[i / 2] >> (i % 2 * 16))});
    }
  }
}

/// Reads `size` (1 to 32) elements from any address; the others are zero.
template <typename T>
__device__ __forceinline__ void load_block(float (&value)[kBlock], const T* address, unsigned size) {
  std::uint32_t words[kBlockWords<T>];
  load_block_words(words, address, size);
  words_to_floats<T>(value, words);
}

/// Rounds two floats to a 16-bit T each, the first into the low half.
template <typename T>
__device__ __forceinline__ std::uint32_t pair_from_floats(float low, float high) {
  if constexpr (kElementType<T> == ElementType::bfloat16) {
    return instructions::to_bfloat16_pair(low, high);
  } else {
    return instructions::to_float16_pair(low, high);
  }
}

/// Rounds to T.
template <typename T>
__device__ __forceinline__ void floats_to_words(std::uint32_t (&words)[kBlockWords<T>],
                                                const float (&value)[kBlock]) {
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kBlockWords<T>; ++i) {
    if constexpr (sizeof(T) == 4) {
      words[i] = bits_of(from_float<float>(value[i]));
    } else {
      words[i] = pair_from_floats<T>(value[2 * i], value[2 * i + 1]);
    }
  }
}

/// Rounds to T and writes the first `size` elements.
template <typename T>
__device__ __forceinline__ void store_block(T* address, const float (&value)[kBlock], unsigned size) {
  std::uint32_t words[kBlockWords<T>];
  floats_to_words<T>(words, value);
  store_block_words(address, words, size);
}

/// A whole block of floats at a 16-byte aligned address.
__device__ __forceinline__ void load_floats(float (&value)[kBlock], const float* address) {
  std::uint32_t words[kBlock];
  load_words(words, address);
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kBlock; ++i) value[i] = float_from_bits(words[i]);
}
__device__ __forceinline__ void store_floats(float* address, const float (&value)[kBlock]) {
  std::uint32_t words[kBlock];
  SDP4BIT_UNROLL
  for (unsigned i = 0; i < kBlock; ++i) words[i] = bits_of(value[i]);
  store_words(address, words);
}

/// One element, from any address.
template <typename T>
__device__ __forceinline__ float load_element(const T* address) {
  std::uint32_t word[1];
  load_guarded<1>(word, address, sizeof(T));
  if constexpr (sizeof(T) == 4) {
    return float_from_bits(word[0]);
  } else {
    return to_float(T{static_cast<std::uint16_t>(word[0])});
  }
}
/// Rounds to T; to any address.
template <typename T>
__device__ __forceinline__ void store_element(T* address, float value) {
  std::uint32_t word[1];
  if constexpr (sizeof(T) == 4) {
    word[0] = bits_of(from_float<float>(value));
  } else {
    word[0] = from_float<T>(value).bits;
  }
  store_guarded<1>(address, word, sizeof(T));
}

}  // namespace sdp4bit
