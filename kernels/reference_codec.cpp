// Segments of a message, element by element.
#include "kernels/reference_codec.h"

#include <algorithm>
#include <cstring>

#include "kernels/codec.h"
#include "kernels/element.h"

namespace sdp4bit::reference {
namespace {

template <typename T>
T load_bytes(const void* data, std::size_t byte_offset) {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(data) + byte_offset, sizeof(T));
  return value;
}

template <typename T>
void store_bytes(void* data, std::size_t byte_offset, T value) {
  std::memcpy(static_cast<std::byte*>(data) + byte_offset, &value, sizeof(T));
}

float load_scale(const std::byte* segment, std::size_t group, ScaleType type) {
  if (type == ScaleType::float32) return load_bytes<float>(segment, 4 * group);
  return to_float(load_bytes<BFloat16>(segment, 2 * group));
}

void store_scale(std::byte* segment, std::size_t group, ScaleType type, float scale) {
  if (type == ScaleType::float32) {
    store_bytes(segment, 4 * group, bits_of(scale));
  } else {
    store_bytes(segment, 2 * group, static_cast<std::uint16_t>(bits_of(scale) >> 16));
  }
}

/// The 16 random bits of an element of the segment.
std::uint32_t noise_of(const SegmentNoise& noise, std::size_t element) {
  const std::uint64_t position = noise.element + element;
  const std::uint64_t first = position / kElementsPerNoise * kElementsPerNoise;
  const Philox4 random = sdp4bit::noise(noise.key, noise.draw, noise.kind, noise.segment, first);
  return noise16(random, static_cast<unsigned>(position - first));
}

int encode(float value, float scale, const Codec& codec, const SegmentNoise& noise, std::size_t element) {
  if (!has_codes(scale)) return 0;
  switch (codec.coding) {
    case Coding::stochastic:
      return encode_stochastic(value, scale, noise_of(noise, element), codec.bits);
    case Coding::dithered:
      return encode_dithered(value, scale, noise_of(noise, element), codec.bits);
    case Coding::companded:
      return encode_companded(value, scale);
    case Coding::nearest:
      break;
  }
  return encode_nearest(value, scale, codec.bits);
}

float add_decoded(float sum, int code, float scale, const Codec& codec, const SegmentNoise& noise,
                  std::size_t element) {
  if (codec.coding == Coding::dithered) {
    return add_dithered(sum, code, scale, noise_of(noise, element), codec.bits);
  }
  return sum + (codec.coding == Coding::companded ? decode_companded(code, scale) : decode(code, scale));
}

}  // namespace

float load_element(ElementType type, const void* data, std::size_t index) {
  switch (type) {
    case ElementType::float16:
      return to_float(load_bytes<Float16>(data, 2 * index));
    case ElementType::bfloat16:
      return to_float(load_bytes<BFloat16>(data, 2 * index));
    case ElementType::float32:
      break;
  }
  return load_bytes<float>(data, 4 * index);
}

void store_element(ElementType type, void* data, std::size_t index, float value) {
  switch (type) {
    case ElementType::float16:
      return store_bytes(data, 2 * index, from_float<Float16>(value));
    case ElementType::bfloat16:
      return store_bytes(data, 2 * index, from_float<BFloat16>(value));
    case ElementType::float32:
      return store_bytes(data, 4 * index, from_float<float>(value));
  }
}

void encode_segment(std::byte* segment, std::span<const float> padded, std::size_t count, const Codec& codec,
                    const SegmentNoise& noise) {
  std::memset(segment, 0, segment_bytes(count, codec));
  std::byte* codes = segment + scales_bytes(count, codec);
  const std::uint32_t per_word = codes_per_word(codec.bits);
  for (std::size_t begin = 0; begin < padded.size(); begin += codec.group_size) {
    const std::size_t end = std::min<std::size_t>(begin + codec.group_size, padded.size());
    std::uint32_t largest = 0;
    for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, magnitude_bits(padded[i]));
    const float scale = group_scale(largest, scale_steps(codec.coding, codec.bits), codec.scale);
    store_scale(segment, begin / codec.group_size, codec.scale, scale);
    for (std::size_t i = begin; i < end; ++i) {
      const std::size_t word = i / per_word * 4;
      const int code = encode(padded[i], scale, codec, noise, i);
      store_bytes(codes, word,
                  load_bytes<std::uint32_t>(codes, word) |
                      pack_code(code, static_cast<std::uint32_t>(i % per_word), codec.bits));
    }
  }
}

void add_segment(std::span<float> sum, const std::byte* segment, std::size_t count, const Codec& codec,
                 const SegmentNoise& noise) {
  const std::byte* codes = segment + scales_bytes(count, codec);
  const std::uint32_t per_word = codes_per_word(codec.bits);
  for (std::size_t i = 0; i < sum.size(); ++i) {
    const auto word = load_bytes<std::uint32_t>(codes, i / per_word * 4);
    const int code = unpack_code(word, static_cast<std::uint32_t>(i % per_word), codec.bits);
    const float scale = load_scale(segment, i / codec.group_size, codec.scale);
    sum[i] = canonical(add_decoded(sum[i], code, scale, codec, noise, i));
  }
}

std::vector<float> decode_segment(const std::byte* segment, std::size_t count, const Codec& codec,
                                  const SegmentNoise& noise) {
  std::vector<float> decoded(padded_count(count), -0.0f);
  add_segment(decoded, segment, count, codec, noise);
  return decoded;
}

}  // namespace sdp4bit::reference
