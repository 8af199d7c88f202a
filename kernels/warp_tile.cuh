// Movement of a thread's 32 elements where neighbouring threads take neighbouring 16 bytes: every request of
// a warp is one stretch of memory.
//
// A warp works on 1024 elements; a thread on four pieces of 8, 256 elements apart. A piece of a 16-bit type
// is 16 bytes, and its 4-bit codes are one word.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/companded.h"
#include "kernels/memory.cuh"
#include "kernels/tuning.h"

namespace sdp4bit {

inline constexpr unsigned kPiece = 8;  // elements
inline constexpr unsigned kPieces = kBlock / kPiece;
inline constexpr unsigned kPieceStride = 32 * kPiece;  // from one piece of a thread to its next

/// Words of a piece, and of a thread's pieces, of type T.
template <typename T>
inline constexpr unsigned kPieceWords = kPiece * sizeof(T) / 4;

/// First element of a thread's first piece within its tile.
__device__ __forceinline__ unsigned first_piece() {
  return threadIdx.x / 32 * static_cast<unsigned>(kWarpTile) + threadIdx.x % 32 * kPiece;
}

/// How many elements there are from a thread's first piece on, as far as its last one. Whole: all of its
/// pieces exist, at 16-byte aligned addresses.
template <bool Whole>
struct PieceRange {
  unsigned left;
  unsigned padded;  // with those that fill the last block

  __device__ __forceinline__ PieceRange(std::size_t begin, std::size_t count)
      : left(reach(begin, count)), padded(reach(begin, padded_count(count))) {}
  /// Elements of a piece that exist: 0 to 8.
  [[nodiscard]] __device__ __forceinline__ unsigned size(unsigned piece) const {
    const unsigned at = piece * kPieceStride;
    return at >= left ? 0 : min(left - at, kPiece);
  }

 private:
  static __device__ __forceinline__ unsigned reach(std::size_t begin, std::size_t end) {
    return begin >= end ? 0 : static_cast<unsigned>(min(end - begin, kWarpTile));
  }
};

/// The pieces' elements; those that do not exist are zero. `first` is the first piece's first. What is not
/// whole is rare, and moves byte by byte.
template <typename T, bool Whole>
__device__ __forceinline__ void load_pieces(std::uint32_t (&words)[kBlockWords<T>], const T* first,
                                            const PieceRange<Whole>& range) {
  constexpr unsigned each = kPieceWords<T>;
  SDP4BIT_UNROLL
  for (unsigned piece = 0; piece < kPieces; ++piece) {
    const T* address = first + piece * kPieceStride;
    std::uint32_t some[each];
    if constexpr (Whole) {
      load_words(some, address);
    } else {
      load_guarded<1>(some, address, range.size(piece) * sizeof(T));
    }
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < each; ++i) words[piece * each + i] = some[i];
  }
}

/// Writes the elements of each piece that exist, rounded up to `unit` of them.
template <typename T, bool Whole>
__device__ __forceinline__ void store_pieces(T* first, const std::uint32_t (&words)[kBlockWords<T>],
                                             const PieceRange<Whole>& range, unsigned unit = 1) {
  constexpr unsigned each = kPieceWords<T>;
  SDP4BIT_UNROLL
  for (unsigned piece = 0; piece < kPieces; ++piece) {
    T* address = first + piece * kPieceStride;
    std::uint32_t some[each];
    SDP4BIT_UNROLL
    for (unsigned i = 0; i < each; ++i) some[i] = words[piece * each + i];
    const unsigned size = Whole ? kPiece : (range.size(piece) + unit - 1) / unit * unit;
    if constexpr (Whole) {
      store_words(address, some);
    } else {
      store_guarded<1>(address, some, size * sizeof(T));
    }
  }
}

}  // namespace sdp4bit
