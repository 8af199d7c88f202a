// Counters as plain numbers: read from atomics and from what kernels write, and added up.
#include "plugin/stats_snapshot.h"

#include <algorithm>
#include <cmath>

namespace sdp4bit {
namespace {

template <typename Value>
Value load(const std::atomic<Value>& value) {
  return value.load(std::memory_order_relaxed);
}

ClassCounts counts_of(const ClassStats& stats) {
  return {.count = stats.count,
          .type = stats.type,
          .stage = load(stats.stage),
          .last_event = load(stats.last_event),
          .own_shard = load(stats.own_shard),
          .slots = load(stats.slots),
          .calls = load(stats.calls),
          .differences = load(stats.differences),
          .jumps = load(stats.jumps),
          .refreshes = load(stats.refreshes),
          .relearned = load(stats.relearned),
          .resets = load(stats.resets),
          .ledger_bytes = load(stats.ledger_bytes),
          .sample_bytes = load(stats.sample_bytes)};
}

template <typename Value>
Value volatile_load(const Value& value) {
  Value copy;
  __atomic_load(&value, &copy, __ATOMIC_ACQUIRE);
  return copy;
}

SampleSums read_sample(const SampleSums& mirror) {
  SampleSums sums;
  for (int attempt = 0; attempt < 1000; ++attempt) {  // kernels write rarely and shortly
    sums.samples = volatile_load(mirror.samples);
    sums.last_error = volatile_load(mirror.last_error);
    sums.last_input = volatile_load(mirror.last_input);
    sums.total_error = volatile_load(mirror.total_error);
    sums.total_input = volatile_load(mirror.total_input);
    for (unsigned i = 0; i < kSamplePoints; ++i) {
      sums.course[i] = {volatile_load(mirror.course[i].error), volatile_load(mirror.course[i].input)};
    }
    if (sums.samples % 2 == 0 && sums.samples == volatile_load(mirror.samples)) return sums;
  }
  return {};
}

ChecksumCounts read_mirror(const ChecksumCounts& mirror) {
  return {volatile_load(mirror.verified), volatile_load(mirror.failed)};
}

SampledError error_of(const SampleSums& sums) {
  const auto ratio = [](double error, double input) { return input > 0.0 ? std::sqrt(error / input) : 0.0; };
  SampledError sampled{.samples = sums.samples / 2,
                       .last = ratio(sums.last_error, sums.last_input),
                       .mean = ratio(sums.total_error, sums.total_input),
                       .total_error = sums.total_error,
                       .total_input = sums.total_input};
  const std::uint64_t each = samples_per_point(sampled.samples);
  for (std::uint64_t i = 0; i * each < sampled.samples; ++i) {
    sampled.course.push_back(ratio(sums.course[i].error, sums.course[i].input));
  }
  return sampled;
}

}  // namespace

FunctionCounts counts_of(const FunctionStats& stats) {
  FunctionCounts counts;
  std::transform(stats.calls.begin(), stats.calls.end(), counts.calls.begin(), load<std::uint64_t>);
  std::transform(stats.counters.begin(), stats.counters.end(), counts.counters.begin(), load<std::uint64_t>);
  counts.last_reason = load(stats.last_reason);
  return counts;
}

DeviceCounters read_mirror(const DeviceCounters& mirror) {
  DeviceCounters counters;
  counters.draws = volatile_load(mirror.draws);
  counters.gradients = {volatile_load(mirror.gradients.sent), volatile_load(mirror.gradients.received)};
  counters.weights = {volatile_load(mirror.weights.sent), volatile_load(mirror.weights.received)};
  for (unsigned kind = 0; kind < kSampleKinds; ++kind)
    counters.samples[kind] = read_sample(mirror.samples[kind]);
  return counters;
}

FunctionChecksums read_mirror(const FunctionChecksums& mirror) {
  return {read_mirror(mirror.gradients), read_mirror(mirror.weights)};
}

CommCounts counts_of(const CommStats& stats) {
  CommCounts counts;
  counts.identity = stats.identity;
  counts.closed = stats.closed;
  for (std::size_t i = 0; i < counts.functions.size(); ++i)
    counts.functions[i] = counts_of(stats.functions[i]);
  for (const ClassStats& gathers : stats.classes) counts.classes.push_back(counts_of(gathers));
  counts.workspace_bytes = load(stats.workspace_bytes);
  counts.record_bytes = load(stats.record_bytes);
  const DeviceCounters device = stats.mirror ? read_mirror(*stats.mirror) : stats.last_mirror;
  const FunctionChecksums checksums = stats.checksums ? read_mirror(*stats.checksums) : stats.last_checksums;
  const auto set = [&](Collective collective, Counter counter, std::uint64_t value) {
    counts.functions[static_cast<std::size_t>(collective)].counters[static_cast<std::size_t>(counter)] =
        value;
  };
  set(Collective::reduce_scatter, Counter::executed_calls, device.draws);
  set(Collective::reduce_scatter, Counter::nonfinite_groups_sent, device.gradients.sent);
  set(Collective::reduce_scatter, Counter::nonfinite_groups_received, device.gradients.received);
  set(Collective::all_gather, Counter::nonfinite_groups_sent, device.weights.sent);
  set(Collective::all_gather, Counter::nonfinite_groups_received, device.weights.received);
  set(Collective::reduce_scatter, Counter::checksums_verified, checksums.gradients.verified);
  set(Collective::reduce_scatter, Counter::checksums_failed, checksums.gradients.failed);
  set(Collective::all_gather, Counter::checksums_verified, checksums.weights.verified);
  set(Collective::all_gather, Counter::checksums_failed, checksums.weights.failed);
  for (unsigned kind = 0; kind < kSampleKinds; ++kind) counts.samples[kind] = error_of(device.samples[kind]);
  return counts;
}

std::uint64_t FunctionCounts::all_calls() const {
  std::uint64_t sum = 0;
  for (const std::uint64_t of_reason : calls) sum += of_reason;
  return sum;
}

void FunctionCounts::add(const FunctionCounts& other) {
  for (std::size_t i = 0; i < calls.size(); ++i) calls[i] += other.calls[i];
  for (std::size_t i = 0; i < counters.size(); ++i) counters[i] += other.counters[i];
  if (other.last_reason != Reason::count_) last_reason = other.last_reason;
}

void SampledError::add(const SampledError& other) {
  course.clear();
  samples += other.samples;
  total_error += other.total_error;
  total_input += other.total_input;
  mean = total_input > 0.0 ? std::sqrt(total_error / total_input) : 0.0;
  if (other.samples > 0) last = other.last;
}

std::uint64_t CommCounts::ledger_bytes() const {
  std::uint64_t sum = 0;
  for (const ClassCounts& gathers : classes) sum += gathers.ledger_bytes;
  return sum;
}

std::uint64_t CommCounts::sample_bytes() const {
  std::uint64_t sum = 0;
  for (const ClassCounts& gathers : classes) sum += gathers.sample_bytes;
  return sum;
}

void CommCounts::add(const CommCounts& other) {
  for (std::size_t i = 0; i < functions.size(); ++i) functions[i].add(other.functions[i]);
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i].add(other.samples[i]);
  workspace_bytes += other.workspace_bytes;
  record_bytes += other.record_bytes;
}

}  // namespace sdp4bit
