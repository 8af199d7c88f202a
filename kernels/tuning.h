// Block and tile sizes of the kernels, as data.
#pragma once

#include <cstddef>

#include "kernels/wire_format.h"

namespace sdp4bit {

/// One thread holds one 32-element block in registers, so a tile of one thread block is the largest group.
inline constexpr unsigned kThreads = 256;
inline constexpr std::size_t kTile = kThreads * kBlock;

/// Thread blocks that a multiprocessor must take at a time: registers are given out accordingly, 65536 over
/// threads x blocks. To keep the memory busy, latency x bandwidth must be under way: 0.7 us x 4.8 TB/s / 132
/// = 26 KB a multiprocessor of an H200. A thread of quantize reads 64 bytes (bf16) before it needs any, so 3
/// x 256 threads are twice that. The reductions hold own values and sums, 64 registers, and read 64 to 128
/// bytes at a time; 2 x 256 threads do.
inline constexpr unsigned kBlocksQuantize = 3;
inline constexpr unsigned kBlocksReduce = 2;

/// Copies hold 64 to 128 bytes of a thread in flight; 4 blocks ask for 64 KB and more. Unasked, the compiler
/// would make room for a fifth, and put registers into memory for it.
inline constexpr unsigned kBlocksScatter = 4;
/// Adding by the general kernels: left to itself the compiler takes 48 registers for some types, and memory
/// for the rest, or 164 for others, with which a multiprocessor takes one block only.
inline constexpr unsigned kBlocksGeneral = 2;

inline constexpr std::size_t kSmallestGroup = kBlock;
inline constexpr std::size_t kLargestGroup = kTile;

/// Senders whose noise a thread block keeps ready in shared memory, 65 bytes each of 48 KiB without opt-in.
inline constexpr std::size_t kMostSendersKept = 512;

/// Grid limits of every architecture; kernels stride over what does not fit.
inline constexpr std::size_t kLargestGridX = 0x7fffffff;
inline constexpr std::size_t kLargestGridYZ = 0xffff;

/// Messages that one kernel may receive: each takes a byte of shared memory, of which 48 KiB need no opt-in.
inline constexpr std::size_t kLargestMessageCount = 32768;

}  // namespace sdp4bit
