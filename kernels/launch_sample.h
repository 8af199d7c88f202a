// What the plugin calls to measure the error of what it sends: sums of squares over one chunk of a call.
//
// For samples only, every so many calls: these kernels read everything again that the call's own kernels
// read. They change nothing but the sums.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/device_counters.h"
#include "kernels/launch.h"
#include "kernels/launch_weight.h"

namespace sdp4bit {

/// What one thread block found: squares of the errors and of what was to be sent. Groups that are NaN are
/// left out.
struct SamplePartial {
  double error;
  double input;
};
inline constexpr unsigned kSampleBlocks = 1024;  // most partial sums of a launch

/// Where the sums go. A sample is a call: its chunks are added up, the last one closes it.
struct SampleTarget {
  SamplePartial* partials = nullptr;  // device scratch, kSampleBlocks of them
  SampleSums* sums = nullptr;         // device
  SampleSums* mirror = nullptr;       // pinned: a copy at each end of a sample
  bool first_chunk = true;
  bool last_chunk = true;
};

/// After quantize(args): its messages, decoded, against its input; the transform keeps ratios of squares.
cudaError_t sample_quantize(const QuantizeArgs& args, const SampleTarget& target, cudaStream_t stream);
/// After reduce_requantize(args): its messages against the sums that they carry.
cudaError_t sample_requantize(const ReduceRequantizeArgs& args, const SampleTarget& target,
                              cudaStream_t stream);
/// Before encode_difference(args), which changes what it reads: the difference that it will code.
cudaError_t sample_difference(const EncodeDifferenceArgs& args, const SampleTarget& target,
                              cudaStream_t stream);

}  // namespace sdp4bit
