// What the plugin calls to see whether gradients look like gradients: from the scales that quantize() has
// just written, so every group that a rank sends is looked at for the price of reading its scale.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/launch.h"
#include "kernels/wire_format.h"

namespace sdp4bit {

/// How many groups have a scale of which (biased) float exponent; 0: zeros, the last: NaN.
inline constexpr unsigned kExponents = 256;
struct ScaleHistogram {
  std::uint32_t groups[kExponents];
};

/// One rank's view of a call. Exponents are biased; 0 where no group is finite and above zero.
struct HealthRecord {
  std::uint32_t groups;
  std::uint32_t not_finite;
  std::uint32_t largest;
  std::uint32_t median;
};
static_assert(sizeof(HealthRecord) == 16);

/// Garbage is a few groups that are not numbers, or a group that is 2^40 times the usual one. Where most
/// groups are not finite the gradients have overflowed: that is no garbage.
SDP4BIT_HOST_DEVICE bool is_unhealthy(const HealthRecord& record) {
  constexpr std::uint32_t kLargestRatio = 40;
  return (record.not_finite != 0 && record.not_finite < record.groups / 2) ||
         record.largest > record.median + kLargestRatio;
}

/// What all ranks said, in pinned memory. The host zeroes it before.
struct HealthWords {
  std::uint64_t number;  // written last; of the publication
  std::uint32_t unhealthy_ranks;
  std::uint32_t first_rank;  // of them
  HealthRecord first;
};

/// Adds the scales of messages to a histogram.
struct CountScalesArgs {
  Messages messages;
  std::uint32_t message_count = 0;
  std::uint32_t segments_per_message = 1;
  std::size_t count = 0;  // elements of a segment
  Codec codec;
  ScaleHistogram* histogram = nullptr;
};
cudaError_t count_scales(const CountScalesArgs& args, cudaStream_t stream);

/// Makes the record of a histogram, and empties the histogram.
cudaError_t write_health(ScaleHistogram* histogram, HealthRecord* record, cudaStream_t stream);

/// Tells the host what the records of all ranks say.
struct PublishHealthArgs {
  const std::byte* records = nullptr;
  std::size_t stride = sizeof(HealthRecord);  // bytes from one rank's record to the next one's
  std::uint32_t ranks = 0;
  std::uint64_t number = 0;
  HealthWords* words = nullptr;
};
cudaError_t publish_health(const PublishHealthArgs& args, cudaStream_t stream);

}  // namespace sdp4bit
