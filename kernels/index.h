// Which tile, group and byte an element belongs to: index arithmetic for counts beyond 2^32, proven by unit
// tests.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/tuning.h"
#include "kernels/wire_format.h"

namespace sdp4bit {

constexpr std::size_t tile_count(std::size_t count) {
  return (count + kTile - 1) / kTile;
}

/// First element of a thread's block within the chunk.
constexpr std::size_t block_begin(std::size_t tile, unsigned thread) {
  return tile * kTile + thread * kBlock;
}

/// Elements of the block that exist: 0 to 32.
constexpr unsigned block_size(std::size_t begin, std::size_t count) {
  return begin >= count            ? 0
         : count - begin >= kBlock ? unsigned{kBlock}
                                   : static_cast<unsigned>(count - begin);
}

/// Element `begin` of a segment's chunk, counted from the first segment's start.
constexpr std::size_t element_index(std::size_t segment, std::size_t stride, std::size_t offset,
                                    std::size_t begin) {
  return segment * stride + offset + begin;
}

/// The tiles of a chunk. They are counted in 32 bits (2^45 elements are more than a GPU holds), so that one
/// multiplication makes an address of a tile's number.
struct TileRange {
  std::uint32_t whole;  // tiles of which all elements exist
  std::uint32_t all;
  std::uint32_t rest;  // elements of the last one, where that is not whole

  constexpr explicit TileRange(std::size_t count)
      : whole(static_cast<std::uint32_t>(count / kTile)),
        all(static_cast<std::uint32_t>(tile_count(count))),
        rest(static_cast<std::uint32_t>(count % kTile)) {}
  /// Elements of a tile's block that exist: 0 to 32. `first`: the block's first element in the tile.
  [[nodiscard]] constexpr unsigned block_size(std::uint32_t tile, unsigned first) const {
    return tile < whole ? unsigned{kBlock} : sdp4bit::block_size(first, rest);
  }
};

constexpr unsigned log2_of_power(std::size_t power_of_two) {
  unsigned exponent = 0;
  while (power_of_two >> exponent > 1) ++exponent;
  return exponent;
}

constexpr bool codec_is_valid(const Codec& codec) {
  return has_width(codec.coding, codec.bits) && codec.group_size >= kSmallestGroup &&
         codec.group_size <= kLargestGroup && (codec.group_size & (codec.group_size - 1)) == 0;
}

/// Where the parts of a segment lie in its message; made once on the host.
struct SegmentLayout {
  std::size_t segment_bytes = 0;
  std::size_t codes_offset = 0;  // from the segment's first byte, where its scales begin
  std::uint32_t bits = 4;
  std::uint32_t group_shift = 7;  // log2 of the group size
  ScaleType scale = ScaleType::float32;
  Coding coding = Coding::stochastic;

  constexpr SegmentLayout() = default;
  constexpr SegmentLayout(std::size_t count, const Codec& codec)
      : segment_bytes(sdp4bit::segment_bytes(count, codec)),
        codes_offset(scales_bytes(count, codec)),
        bits(codec.bits),
        group_shift(log2_of_power(codec.group_size)),
        scale(codec.scale),
        coding(codec.coding) {}

  /// From the message's first byte.
  constexpr std::size_t segment_offset(std::size_t segment) const {
    return sizeof(MessageHeader) + segment * segment_bytes;
  }
  /// From the segment's first byte, for the group and the block that hold `element`.
  constexpr std::size_t scale_offset(std::size_t element) const {
    return (element >> group_shift) * (scale == ScaleType::float32 ? 4 : 2);
  }
  constexpr std::size_t code_offset(std::size_t element) const { return codes_offset + element * bits / 8; }
  /// From one tile to the next.
  constexpr unsigned scale_step() const {
    return (static_cast<unsigned>(kTile) >> group_shift) * (scale == ScaleType::float32 ? 4 : 2);
  }
  constexpr unsigned code_step() const { return static_cast<unsigned>(kTile) * bits / 8; }
  constexpr unsigned threads_per_group() const { return 1u << (group_shift - 5); }
};

}  // namespace sdp4bit
