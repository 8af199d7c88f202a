// Block and tile sizes of the kernels, as data.
#pragma once

#include <cstddef>

#include "kernels/wire_format.h"

namespace sdp4bit {

/// One thread holds one 32-element block in registers, so a tile of one thread block is the largest group.
inline constexpr unsigned kThreads = 256;
inline constexpr std::size_t kTile = kThreads * kBlock;
inline constexpr std::size_t kSmallestGroup = kBlock;
inline constexpr std::size_t kLargestGroup = kTile;

/// Grid limits of every architecture; kernels stride over what does not fit.
inline constexpr std::size_t kLargestGridX = 0x7fffffff;
inline constexpr std::size_t kLargestGridYZ = 0xffff;

/// Messages that one kernel may receive: each takes a byte of shared memory, of which 48 KiB need no opt-in.
inline constexpr std::size_t kLargestMessageCount = 32768;

}  // namespace sdp4bit
