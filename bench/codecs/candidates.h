// Codecs that were tried and that no kernel has, measured on plain numbers.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace sdp4bit::bench {

/// What a candidate loses; as rows of the other tables, but measured behind the inverse transform.
struct CandidateLoss {
  double error;      // squared error over squared values
  double of_a_mean;  // of the mean of 8 ranks that code the same numbers: an eighth of `error` at best
  double bias;       // as largest_bias(), of 512 Gaussian numbers; 0 where draws is
};

struct Candidate {
  const char* use;  // gradient or weight
  const char* name;
  double bits;  // an element, scales included
  /// Codes and decodes a whole segment, with noise of its own for each draw.
  std::vector<float> (*decoded)(std::span<const float> values, unsigned draw);
};
std::span<const Candidate> candidates();

CandidateLoss measure_candidate(const Candidate& candidate, std::span<const float> values, unsigned draws);

}  // namespace sdp4bit::bench
