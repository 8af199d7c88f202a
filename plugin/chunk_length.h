// How a long call is cut: as few chunks as fit the workspace, of equal length.
#pragma once

#include <cstddef>

#include "kernels/wire_format.h"

namespace sdp4bit {

/// Elements of a chunk: `count` where that fits, else a multiple of `unit`; 0 if not even one unit fits.
/// `fits(length)` is true up to some length and false from there on.
template <typename Fits>
[[nodiscard]] std::size_t equal_chunk_length(std::size_t count, std::size_t unit, const Fits& fits) {
  if (fits(count)) return count;
  std::size_t low = 0, high = count / unit + 1;  // units: low fit, high do not
  while (high - low > 1) {
    const std::size_t middle = low + (high - low) / 2;
    (fits(middle * unit) ? low : high) = middle;
  }
  if (low == 0) return 0;
  // Equal chunks rather than full ones and a rest.
  const std::size_t chunks = (count + low * unit - 1) / (low * unit);
  return round_up((count + chunks - 1) / chunks, unit);
}

}  // namespace sdp4bit
