// What became of a probe's step: the same rules on host and device.
#pragma once

#include <cmath>
#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/launch_probe.h"

namespace sdp4bit {

enum class ProbeAnswer : std::uint32_t {
  unclear,      // nothing to see: no step, other weights, or a part of it was kept
  unmoved,      // nothing at all happened to the shard
  overwritten,  // the step is gone
  kept,         // the shard moved on from where the step had put it
};

/// Over the samples: the step, how far the shard is from where it was before, and their product.
struct ProbeSums {
  double step_squares = 0;
  double products = 0;
  double move_squares = 0;
  double moved = 0;  // samples that are not where the step had put them

  SDP4BIT_HOST_DEVICE void add(const ProbeSample& sample, float now) {
    const double step = static_cast<double>(sample.after) - static_cast<double>(sample.before);
    const double move = static_cast<double>(now) - static_cast<double>(sample.before);
    step_squares += step * step;
    products += move * step;
    move_squares += move * move;
    moved += now == sample.after ? 0.0 : 1.0;
  }
  SDP4BIT_HOST_DEVICE void add(const ProbeSums& other) {
    step_squares += other.step_squares;
    products += other.products;
    move_squares += other.move_squares;
    moved += other.moved;
  }
};

/// `kept` is the part of the step that is still there, by regression: 1 or 0, with a standard error that the
/// shard's other movement makes. Where that is large (weights were replaced), the answer is unclear.
SDP4BIT_HOST_DEVICE ProbeAnswer judge_probe(const ProbeSums& sums, std::size_t samples) {
  constexpr double kLargestError = 0.08;
  if (!(sums.step_squares > 0.0) || !(sums.move_squares < 1e300)) return ProbeAnswer::unclear;
  if (sums.moved == 0.0) return ProbeAnswer::unmoved;
  const double kept = sums.products / sums.step_squares;
  const double other_squares = sums.move_squares - kept * sums.products;
  const double allowed = kLargestError * kLargestError * static_cast<double>(samples) * sums.step_squares;
  if (!(other_squares <= allowed)) return ProbeAnswer::unclear;
  if (kept >= 0.75 && kept <= 1.25) return ProbeAnswer::kept;
  if (kept >= -0.25 && kept <= 0.25) return ProbeAnswer::overwritten;
  return ProbeAnswer::unclear;
}

/// One answer may be an accident (a checkpoint was loaded into the shard): twice overwritten in a row is
/// believed.
inline constexpr std::uint32_t kOverwrittenNeeded = 2;

SDP4BIT_HOST_DEVICE void note_answer(Probe& probe, ProbeAnswer answer) {
  if (answer == ProbeAnswer::unmoved) return;
  probe.overwritten = answer == ProbeAnswer::overwritten ? probe.overwritten + 1 : 0;
  if (answer == ProbeAnswer::kept) probe.flags |= kOwnMaster;
  if (probe.overwritten >= kOverwrittenNeeded) probe.flags |= kOwnReplica;
}

/// The sample's element without the step: where the program kept it, its own movement stays. In a shard that
/// was overwritten an element where the step had put it is there by chance.
SDP4BIT_HOST_DEVICE float without_step(const ProbeSample& sample, float now, ProbeAnswer answer) {
  if (answer == ProbeAnswer::overwritten) return now;
  if (now == sample.after) return sample.before;
  if (answer != ProbeAnswer::kept) return now;
  return static_cast<float>(static_cast<double>(now) -
                            (static_cast<double>(sample.after) - static_cast<double>(sample.before)));
}

/// Whether that is another value: what is no number was not put there by a step, and keeps its bits.
SDP4BIT_HOST_DEVICE bool has_step(const ProbeSample& sample, float now, ProbeAnswer answer) {
  return now == now && without_step(sample, now, answer) != now;
}

/// What the size of a step follows from, over the samples.
struct StepSums {
  double difference_squares = 0;
  double weight_squares = 0;

  SDP4BIT_HOST_DEVICE void add(float weight, float entry) {
    const double difference = static_cast<double>(weight) - static_cast<double>(entry);
    difference_squares += difference * difference;
    weight_squares += static_cast<double>(weight) * static_cast<double>(weight);
  }
  SDP4BIT_HOST_DEVICE void add(const StepSums& other) {
    difference_squares += other.difference_squares;
    weight_squares += other.weight_squares;
  }
};

/// Of the size of the differences. None behind a jump, which is above a quarter of the weights: that would
/// harm the weights, and in its noise any later contents look like those of before.
SDP4BIT_HOST_DEVICE float probe_step(const StepSums& sums, std::size_t samples) {
  if (!(16.0 * sums.difference_squares <= sums.weight_squares)) return 0.0f;
  return static_cast<float>(sqrt(sums.difference_squares / static_cast<double>(samples)));
}

/// +1 or -1 for a sample; any function without a pattern does.
SDP4BIT_HOST_DEVICE float probe_sign(std::uint64_t seed, std::size_t sample) {
  std::uint64_t mixed = seed + (sample + 1) * 0x9E3779B97F4A7C15u;  // SplitMix64
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9u;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBu;
  return (mixed ^ (mixed >> 31)) & 1u ? 1.0f : -1.0f;
}

}  // namespace sdp4bit
