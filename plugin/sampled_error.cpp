// Counting calls up to the next sample; see sampled_error.h.
#include "plugin/sampled_error.h"

namespace sdp4bit {

void ErrorSampling::allocate(std::uint64_t period) {
  period_ = period;
  if (period != 0) partials_ = DeviceBuffer::try_allocate(kSampleBlocks * sizeof(SamplePartial));
}

bool ErrorSampling::takes(Collective collective, std::uint64_t epoch) {
  if (!partials_) return false;
  Function& function = functions_[static_cast<std::size_t>(collective)];
  ++function.calls;
  if (function.calls < period_ || function.epoch == epoch) return false;
  function = {.calls = 0, .epoch = epoch};
  return true;
}

SampleTarget ErrorSampling::target(SampleKind kind, const CounterMirror& counters, bool first_chunk,
                                   bool last_chunk) const {
  const auto number = static_cast<std::size_t>(kind);
  return {.partials = partials_.as<SamplePartial>(),
          .sums = &counters.device->samples[number],
          .mirror = &counters.host->samples[number],
          .first_chunk = first_chunk,
          .last_chunk = last_chunk};
}

}  // namespace sdp4bit
