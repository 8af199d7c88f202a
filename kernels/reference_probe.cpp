// The probe's kernels as plain loops; see launch_probe.h.
#include <array>
#include <cmath>

#include "kernels/element.h"
#include "kernels/probe_answer.h"
#include "kernels/reference_codec.h"
#include "kernels/reference_weight.h"
#include "kernels/weight_header.h"

namespace sdp4bit::reference {
namespace {

/// Adds up in the order of the kernel: thread t those at t, t + kSumThreads, ...; then a tree of halves.
template <typename Sums, typename Add>
Sums sum_samples(std::size_t count, Add&& add) {
  std::array<Sums, kSumThreads> partial{};
  for (std::size_t i = 0; i < count; ++i) add(partial[i % kSumThreads], i);
  for (std::size_t half = kSumThreads / 2; half != 0; half /= 2) {
    for (std::size_t t = 0; t < half; ++t) partial[t].add(partial[t + half]);
  }
  return partial[0];
}

}  // namespace

void answer_probe(const ProbeArgs& args) {
  Probe& probe = *args.probe;
  const std::size_t count = probe_sample_count(args.shard_count);
  if (count == 0) return;
  const auto shard_at = [&](std::size_t i) {
    return load_element(args.type, args.shard, probe_sample_index(i, args.shard_count));
  };
  if (args.answer && probe.armed != 0) {
    const auto sums = sum_samples<ProbeSums>(
        count, [&](ProbeSums& part, std::size_t i) { part.add(probe.samples[i], shard_at(i)); });
    const ProbeAnswer answer = judge_probe(sums, count);
    if (args.moved && answer != ProbeAnswer::kept && answer != ProbeAnswer::unmoved) return;
    note_answer(probe, answer);
    if (answer == ProbeAnswer::unmoved && args.start) return;
    for (std::size_t i = 0; i < count; ++i) {
      const float now = shard_at(i);
      if (!has_step(probe.samples[i], now, answer)) continue;
      store_element(args.type, args.shard, probe_sample_index(i, args.shard_count),
                    without_step(probe.samples[i], now, answer));
    }
  }
  probe.armed = args.start && probe.flags == 0 ? 1 : 0;
  if (!probe.armed) return;

  const auto sums = sum_samples<StepSums>(count, [&](StepSums& part, std::size_t i) {
    const float entry =
        finite_or_zero(load_element(args.type, args.entry, probe_sample_index(i, args.shard_count)));
    part.add(shard_at(i), entry);
  });
  const float step = probe_step(sums, count);
  for (std::size_t i = 0; i < count; ++i) {
    const float before = shard_at(i);
    float after = 0.0f;
    std::array<std::byte, 4> rounded{};
    store_element(args.type, rounded.data(), 0, before + probe_sign(args.seed, i) * step);
    after = load_element(args.type, rounded.data(), 0);
    probe.samples[i] = {before, magnitude_bits(after) < 0x7f800000u ? after : before};
  }
}

void apply_probe(const ProbeArgs& args) {
  if (args.probe->armed == 0) return;
  for (std::size_t i = 0; i < probe_sample_count(args.shard_count); ++i) {
    store_element(args.type, args.shard, probe_sample_index(i, args.shard_count),
                  args.probe->samples[i].after);
  }
}

}  // namespace sdp4bit::reference
