// Inputs of the kernel tests: random and edge values as functions of a seed, and what describes a case.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "device_bytes.h"
#include "kernels/launch.h"
#include "kernels/reference_codec.h"

namespace sdp4bit::test {

inline constexpr ElementType kTypes[] = {ElementType::float32, ElementType::float16, ElementType::bfloat16};
inline constexpr std::size_t kCounts[] = {1, 31, 32, 33, 127, 128, 129, 2047, 2049, 8191, 8193};
inline constexpr std::uint32_t kGroups[] = {32, 64, 128, 256, 512, 1024, 2048, 4096, 8192};

enum class Content { gaussian, zeros, edges, subnormals };
inline constexpr Content kContents[] = {Content::gaussian, Content::zeros, Content::edges,
                                        Content::subnormals};

/// All codecs of one group size.
inline std::vector<Codec> codecs(std::uint32_t group_size) {
  std::vector<Codec> all;
  for (const std::uint32_t bits : {4u, 8u}) {
    for (const ScaleType scale : {ScaleType::float32, ScaleType::bfloat16}) {
      for (const Coding coding : {Coding::nearest, Coding::stochastic, Coding::dithered}) {
        for (const bool hadamard : {false, true}) all.push_back({bits, group_size, scale, coding, hadamard});
      }
    }
  }
  return all;
}

/// Gaussian with groups of other magnitudes; `edges` strews NaN, Inf, -0, zeros and the largest values
/// thinly, so that most groups stay finite.
inline Bytes make_elements(ElementType type, std::size_t count, Content content, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  const float edges[] = {std::numeric_limits<float>::quiet_NaN(),
                         std::numeric_limits<float>::infinity(),
                         -std::numeric_limits<float>::infinity(),
                         -0.0f,
                         0.0f,
                         0x1.fffffep127f,
                         -0x1.fep127f,
                         65504.0f,
                         0x1p-149f,
                         -0x1p-126f,
                         0x1p-24f,
                         1.0f};
  Bytes elements(count * element_bytes(type));
  for (std::size_t i = 0; i < count; ++i) {
    float value = normal(generator);
    if (content == Content::zeros) value = i % 3 == 0 ? -0.0f : 0.0f;
    if (content == Content::subnormals) value *= type == ElementType::float16 ? 0x1p-22f : 0x1p-144f;
    if (content == Content::edges) {
      value *= i / 64 % 5 == 0 ? 0x1p-120f : i / 64 % 5 == 1 ? 0x1p100f : 1.0f;
      if (generator() % 97 == 0) value = edges[generator() % std::size(edges)];
    }
    reference::store_element(type, elements.data(), i, value);
  }
  return elements;
}

inline std::string describe(ElementType type, const Codec& codec, std::size_t count) {
  static constexpr const char* names[] = {"float32", "float16", "bfloat16"};
  static constexpr const char* codings[] = {"nearest", "stochastic", "dithered", "companded"};
  std::ostringstream text;
  text << names[static_cast<int>(type)] << " bits " << codec.bits << " group " << codec.group_size
       << " scale " << (codec.scale == ScaleType::float32 ? "float32" : "bfloat16") << " "
       << codings[static_cast<int>(codec.coding)] << (codec.hadamard ? " hadamard" : "") << " count "
       << count;
  return text.str();
}

/// Empty where equal, else the first byte that differs.
inline std::string first_difference(const Bytes& kernel, const Bytes& expected) {
  if (kernel.size() != expected.size()) return "sizes differ";
  for (std::size_t i = 0; i < kernel.size(); ++i) {
    if (kernel[i] != expected[i]) {
      std::ostringstream text;
      text << "byte " << i << " of " << kernel.size() << ": kernel " << std::to_integer<int>(kernel[i])
           << ", reference " << std::to_integer<int>(expected[i]);
      return text.str();
    }
  }
  return "";
}

}  // namespace sdp4bit::test
