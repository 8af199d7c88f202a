// The checksum of a message: a sum of its 64-bit words, each mixed with its place; the definition.
//
//   checksum = sum over i of mixed(word i + (i + 1) x kChecksumStep)   modulo 2^64
//
// Words are little-endian; the last 16 bytes are filled with zeros, and the word that holds the checksum
// counts as zero.
//
// mixed() is one to one, so damage that stays within one aligned word, as a flipped bit does, certainly
// changes the sum, wherever it is, the checksum itself included. Other damage passes only where the changes
// of two or more mixed words cancel. Each depends on all bits of its word and on its place as if drawn at
// random from 2^64 values, so that is a matter of 2^-64. There is no key: it is damage that is found, not
// intent.
//
// Sums of integers do not depend on the order: whatever thread adds first, the checksum is the same.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/host_device.h"

namespace sdp4bit {

inline constexpr std::uint64_t kChecksumStep = 0x9e3779b97f4a7c15;  // odd, so that all places differ
inline constexpr std::size_t kChecksumPiece = 16;                   // bytes: two words
inline constexpr std::size_t kNoHole = ~std::size_t{0};

/// Each line can be undone: an odd factor has an inverse, and a shift by more than half a word leaves the
/// half that it came from. (The finalizer of MurmurHash3.)
SDP4BIT_HOST_DEVICE std::uint64_t mixed(std::uint64_t word) {
  word = (word ^ word >> 33) * 0xff51afd7ed558ccd;
  word = (word ^ word >> 33) * 0xc4ceb9fe1a85ec53;
  return word ^ word >> 33;
}

/// What word number `index` adds.
SDP4BIT_HOST_DEVICE std::uint64_t checksum_term(std::uint64_t word, std::uint64_t index) {
  return mixed(word + (index + 1) * kChecksumStep);
}

/// On the host. `hole`: where the 8 bytes lie that count as zero, a multiple of 8, or kNoHole.
inline std::uint64_t checksum_of(const void* data, std::size_t bytes, std::size_t hole = kNoHole) {
  constexpr std::size_t kWord = sizeof(std::uint64_t);
  std::uint64_t sum = 0;
  const std::size_t words = (bytes + kChecksumPiece - 1) / kChecksumPiece * (kChecksumPiece / kWord);
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t word = 0;
    const std::size_t begin = i * kWord;
    if (begin < bytes && begin != hole) {
      std::memcpy(&word, static_cast<const std::byte*>(data) + begin,
                  bytes - begin < kWord ? bytes - begin : kWord);
    }
    sum += checksum_term(word, i);
  }
  return sum;
}

}  // namespace sdp4bit
