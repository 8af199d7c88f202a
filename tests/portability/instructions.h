// One thread for each triple of words: what kernels/instructions.h makes of them on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace sdp4bit::test {

struct Triple {
  std::uint32_t a, b, c;
};

struct Answers {
  std::uint32_t multiply_add;  // of the words' two bfloat16
  std::uint32_t largest, smallest;
  std::uint32_t bfloat16, float16, float16_towards_zero;         // of the floats a and b
  std::uint32_t largest_float, smallest_float, largest_of_warp;  // of a and b; of all a of the warp
  bool operator==(const Answers&) const = default;
};

/// Device memory; `count` is a multiple of 32. By code for the oldest GPUs, and for those that have the
/// instructions.
void ask_oldest(Answers* answers, const Triple* triples, std::size_t count);
void ask_newer(Answers* answers, const Triple* triples, std::size_t count);

}  // namespace sdp4bit::test
