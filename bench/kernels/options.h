// The command line of the program `kernels`.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace sdp4bit::bench {

struct Options {
  std::size_t count = 0;             // elements of a shard; 0: as the machine asks
  std::vector<std::string> filters;  // parts of row names; empty: all rows
  std::string record;                // folder for recorded launches (emulated machine)
  int repeats = 20;                  // timed launches (GPU)
  bool json = false;
  bool list = false;
  bool help = false;
};

/// Throws std::invalid_argument with a text for the user.
Options parse_options(int argc, char** argv);

extern const char* const kUsage;

}  // namespace sdp4bit::bench
