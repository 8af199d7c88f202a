// What the plugin calls to learn whose the own shard is: the program's master copy, or written from masters
// elsewhere.
//
// In place, storing what the others hold over the own shard is right where the optimizer writes it from
// masters of its own, and loses updates where it is the master. So a small random step is added to some of
// its elements behind a gather, and at the next gather of the same buffer it is seen whether the program kept
// it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/launch.h"
#include "kernels/wire_format.h"

namespace sdp4bit {

inline constexpr std::size_t kProbeSamples = 4096;

/// A sampled element: what the program gave, and what was left there.
struct ProbeSample {
  float before;
  float after;
};

/// One class's probe on one rank, in device memory; begins as zeros.
struct Probe {
  std::uint32_t flags;        // kOwnReplica or kOwnMaster once it is known; both are kept
  std::uint32_t overwritten;  // answers in a row that said so
  std::uint32_t armed;        // the samples speak of the present contents
  std::uint32_t padding;
  ProbeSample samples[kProbeSamples];
};

/// The sampled elements of a shard: kProbeSamples of them, evenly spread, or all.
constexpr std::size_t probe_sample_count(std::size_t shard) {
  return shard < kProbeSamples ? shard : kProbeSamples;
}
constexpr std::size_t probe_sample_index(std::size_t sample, std::size_t shard) {
  return sample * shard / probe_sample_count(shard);
}

struct ProbeArgs {
  ElementType type = ElementType::bfloat16;
  std::size_t shard_count = 0;
  void* shard = nullptr;        // own slice of the receive buffer, from element 0
  const void* entry = nullptr;  // own ledger entry, before the new weights are encoded; for `start`
  bool answer = false;          // the samples are of this buffer: see what became of the step, and take back
                                // what is left of it
  bool moved = false;      // with `answer`: the samples are of another buffer, whose contents may be here
                           // now; where they are not, nothing happens
  bool start = false;      // choose new steps: +-rms of new weights - entry, 0 where that is a jump
  std::uint64_t seed = 0;  // of the steps' signs
  Probe* probe = nullptr;
};
/// Before the new weights are encoded.
cudaError_t answer_probe(const ProbeArgs& args, cudaStream_t stream);
/// When nobody reads the new weights any more: adds the steps that answer_probe chose.
cudaError_t apply_probe(const ProbeArgs& args, cudaStream_t stream);

}  // namespace sdp4bit
