// What kernels count for people: one block of words a communicator on the device, mirrored to pinned memory.
//
// Kernels add to the device's words; the last kernel of a group copies them to the mirror, so the host reads
// without waiting.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"

namespace sdp4bit {

/// Groups of elements that hold a NaN or an infinity.
struct NonFiniteGroups {
  std::uint64_t sent = 0;      // coded by this rank
  std::uint64_t received = 0;  // with at least one NaN scale among the messages
};

/// Successive samples together: squares of what decoding leaves, and of what was to be sent.
struct SamplePoint {
  double error = 0.0;
  double input = 0.0;
};
inline constexpr unsigned kSamplePoints = 64;  // of a course, at most; even

/// Samples that one point of a course of `samples` stands for, the last point perhaps fewer. Points are never
/// dropped: when all are in use, neighbours become one.
SDP4BIT_HOST_DEVICE constexpr std::uint64_t samples_per_point(std::uint64_t samples) {
  std::uint64_t each = 1;
  while (samples > each * kSamplePoints) each *= 2;
  return each;
}

/// One kind of sampled message: sums over its elements that are finite.
struct SampleSums {
  std::uint64_t samples = 0;  // odd while the kernel writes: twice the number of samples else
  double last_error = 0.0;    // of the last sample: squares of what decoding leaves ...
  double last_input = 0.0;    // ... and of what was to be sent
  double total_error = 0.0;   // of all samples
  double total_input = 0.0;
  SamplePoint course[kSamplePoints] = {};  // all samples in order, as samples_per_point() groups them
};

enum class SampleKind : std::uint8_t { gradient_first, gradient_second, weight, count_ };
inline constexpr unsigned kSampleKinds = static_cast<unsigned>(SampleKind::count_);

struct DeviceCounters {
  std::uint64_t draws = 0;  // noise draws made: compressed ReduceScatters that ran
  NonFiniteGroups gradients;
  NonFiniteGroups weights;
  SampleSums samples[kSampleKinds];
};

/// From where to where the last kernel of a group copies; without `device` it copies nothing.
struct CounterMirror {
  DeviceCounters* device = nullptr;
  DeviceCounters* host = nullptr;
};

}  // namespace sdp4bit
