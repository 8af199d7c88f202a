// The numbers that codecs are compared on: made from a seed, or read from a file.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sdp4bit::bench {

struct Data {
  std::string name;
  std::vector<float> values;
};

std::vector<float> gaussian(std::size_t count, unsigned seed);
/// Student's t with 3 degrees of freedom: what gradients look like before the Hadamard transform.
std::vector<float> student(std::size_t count, unsigned seed);

/// A file of floats (fp32, little-endian); at most `most` of them, from its start. Throws std::runtime_error.
std::vector<float> read_floats(const std::string& path, std::size_t most);

}  // namespace sdp4bit::bench
