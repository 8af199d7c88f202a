// Writes down a launch of the emulated machine: kernel, grid, parameters, and its memory before and after.
//
// A recorded launch is a file NUMBER.launch: one line of JSON that ends in a newline, then the bytes of all
// regions before the launch, then those after it, in the order of "regions". sass_counts.py reads it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cases.h"

namespace sdp4bit::bench {

class Recorder {
 public:
  /// An empty folder: nothing is recorded.
  Recorder(const std::string& folder, std::size_t number);
  void begin(const DeviceMemory& memory);
  void end(const Case& row, const PreparedCase& prepared);

 private:
  std::string path_;
  std::vector<std::byte> before_;
};

}  // namespace sdp4bit::bench
