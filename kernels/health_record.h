// From scales by exponent to a rank's record, and from records to what is published: the same on host and
// device.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/launch_health.h"

namespace sdp4bit {

SDP4BIT_HOST_DEVICE HealthRecord summarize(const ScaleHistogram& histogram) {
  constexpr unsigned kNotFinite = kExponents - 1;
  HealthRecord record{};
  std::uint32_t positive = 0;  // finite and above zero
  for (unsigned exponent = 0; exponent < kExponents; ++exponent) {
    const std::uint32_t groups = histogram.groups[exponent];
    record.groups += groups;
    if (exponent == kNotFinite) record.not_finite = groups;
    if (exponent == 0 || exponent == kNotFinite || groups == 0) continue;
    positive += groups;
    record.largest = exponent;
  }
  std::uint32_t below = 0;
  for (unsigned exponent = 1; exponent < kNotFinite && record.median == 0 && positive != 0; ++exponent) {
    below += histogram.groups[exponent];
    if (below >= positive - positive / 2) record.median = exponent;
  }
  return record;
}

SDP4BIT_HOST_DEVICE void add_health(HealthWords& words, const HealthRecord& record, std::uint32_t rank) {
  if (!is_unhealthy(record)) return;
  if (words.unhealthy_ranks++ != 0) return;
  words.first_rank = rank;
  words.first = record;
}

}  // namespace sdp4bit
