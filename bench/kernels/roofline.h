// From where on a kernel waits for instructions rather than for memory, on the GPUs that training runs on.
#pragma once

#include <array>

namespace sdp4bit::bench {

/// Published figures of a GPU, and the part of its memory's bandwidth that a copy reaches.
struct Gpu {
  const char* name;
  double multiprocessors;
  double clock;             // Hz, boost
  double bytes_per_second;  // of a copy: 85 to 90 % of the data sheet's
};

inline constexpr std::array<Gpu, 4> kGpus{{
    {"A100", 108, 1.41e9, 1.7e12},
    {"H100", 132, 1.98e9, 3.0e12},
    {"H200", 132, 1.98e9, 4.3e12},
    {"B200", 148, 1.965e9, 7.2e12},
}};

/// Lane-instructions that the GPU issues while memory moves one byte: four warps of 32 lanes each cycle on
/// each multiprocessor.
constexpr double instructions_per_byte(const Gpu& gpu) {
  return gpu.multiprocessors * 4 * 32 * gpu.clock / gpu.bytes_per_second;
}

}  // namespace sdp4bit::bench
