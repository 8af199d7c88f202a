// Whole segments of a message as plain loops over codec.h: shared by the references of gradients and weights.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "kernels/launch.h"
#include "kernels/random.h"

namespace sdp4bit::reference {

/// What keys the noise of a segment; `element` is the index of the chunk's first element in the segment.
struct SegmentNoise {
  PhiloxKey key{};
  std::uint64_t draw = 0;
  MessageKind kind{};
  std::uint32_t segment = 0;
  std::uint64_t element = 0;
};

/// Element `index` of an array at any address, and its way back.
float load_element(ElementType type, const void* data, std::size_t index);
void store_element(ElementType type, void* data, std::size_t index, float value);

/// Codes `count` elements, zero-padded by the caller to padded_count(count), into a segment of a message.
void encode_segment(std::byte* segment, std::span<const float> padded, std::size_t count, const Codec& codec,
                    const SegmentNoise& noise);

/// Adds the decoded elements of a segment to its padded_count(count) sums; `noise` is the sender's, for
/// dithered codes.
void add_segment(std::span<float> sum, const std::byte* segment, std::size_t count, const Codec& codec,
                 const SegmentNoise& noise);

/// The padded_count(count) decoded elements of a segment; `noise` is the sender's, for dithered codes.
std::vector<float> decode_segment(const std::byte* segment, std::size_t count, const Codec& codec,
                                  const SegmentNoise& noise = {});

}  // namespace sdp4bit::reference
