// Makes and reads the numbers that codecs are compared on.
#include "data.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <fstream>
#include <random>
#include <stdexcept>

namespace sdp4bit::bench {
namespace {

/// A normal number from two uniform ones (Box and Muller 1958): the same on every standard library.
float normal(std::mt19937& generator) {
  const double u = (static_cast<double>(generator()) + 0.5) * 0x1p-32;
  const double v = static_cast<double>(generator()) * 0x1p-32;
  return static_cast<float>(std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * M_PI * v));
}

}  // namespace

std::vector<float> gaussian(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

std::vector<float> student(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::vector<float> values(count);
  for (float& value : values) {
    const float numerator = normal(generator);
    float chi_squared = 0;
    for (int i = 0; i < 3; ++i) {
      const float each = normal(generator);
      chi_squared += each * each;
    }
    value = numerator / std::sqrt(chi_squared / 3.0f);
  }
  return values;
}

std::vector<float> read_floats(const std::string& path, std::size_t most) {
  static_assert(std::endian::native == std::endian::little);
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) throw std::runtime_error("cannot read " + path);
  const auto bytes = static_cast<std::size_t>(file.tellg());
  if (bytes % sizeof(float) != 0 || bytes < 8192 * sizeof(float))
    throw std::runtime_error(path + " must hold at least 8192 floats of 4 bytes each");
  std::vector<float> values(std::min(bytes / sizeof(float), most) / 8192 * 8192);
  file.seekg(0);
  file.read(reinterpret_cast<char*>(values.data()),
            static_cast<std::streamsize>(values.size() * sizeof(float)));
  if (!file) throw std::runtime_error("cannot read " + path);
  return values;
}

}  // namespace sdp4bit::bench
