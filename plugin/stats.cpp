// The registry of counters, and snapshots of it.
#include "plugin/stats.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <mutex>
#include <utility>

#include "plugin/first_number.h"
#include "plugin/stats_snapshot.h"

namespace sdp4bit {
namespace {

constexpr std::size_t kClosedKept = 64;  // communicators that are gone; older ones are merged

struct Registry {
  std::mutex mutex;
  std::vector<std::unique_ptr<CommStats>> stats;  // in order of first use
  CommCounts merged;
  std::uint64_t next_id = 0;
};

/// Never destroyed: read at exit, when static objects are gone.
Registry& registry() {
  static auto* const instance = new Registry;
  return *instance;
}

template <typename Value>
Value load(const std::atomic<Value>& value) {
  return value.load(std::memory_order_relaxed);
}

FunctionCounts counts_of(const FunctionStats& stats) {
  FunctionCounts counts;
  std::transform(stats.calls.begin(), stats.calls.end(), counts.calls.begin(), load<std::uint64_t>);
  std::transform(stats.counters.begin(), stats.counters.end(), counts.counters.begin(), load<std::uint64_t>);
  counts.last_reason = load(stats.last_reason);
  return counts;
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

DeviceCounters read_mirror(const DeviceCounters& mirror) {
  DeviceCounters counters;
  counters.draws = volatile_load(mirror.draws);
  counters.gradients = {volatile_load(mirror.gradients.sent), volatile_load(mirror.gradients.received)};
  counters.weights = {volatile_load(mirror.weights.sent), volatile_load(mirror.weights.received)};
  for (unsigned kind = 0; kind < kSampleKinds; ++kind)
    counters.samples[kind] = read_sample(mirror.samples[kind]);
  return counters;
}

ChecksumCounts read_mirror(const ChecksumCounts& mirror) {
  return {volatile_load(mirror.verified), volatile_load(mirror.failed)};
}

FunctionChecksums read_mirror(const FunctionChecksums& mirror) {
  return {read_mirror(mirror.gradients), read_mirror(mirror.weights)};
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

/// Requires the registry's lock.
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

/// As if so many calls had been compressed.
void begin_counting(CommStats& stats, std::uint64_t first) {
  for (FunctionStats& function : stats.functions) {
    function.calls[static_cast<std::size_t>(Reason::compressed)].store(first);
    for (std::atomic<std::uint64_t>& counter : function.counters) counter.store(first);
  }
}

/// Requires the registry's lock. Before their memory goes.
void keep_mirrors(CommStats& stats) {
  if (stats.mirror) stats.last_mirror = read_mirror(*stats.mirror);
  if (stats.checksums) stats.last_checksums = read_mirror(*stats.checksums);
}

/// Requires the registry's lock. Bounds what programs that create communicators for ever make us keep.
void merge_oldest(Registry& all) {
  const auto is_closed = [](const std::unique_ptr<CommStats>& stats) { return stats->closed; };
  if (std::count_if(all.stats.begin(), all.stats.end(), is_closed) <=
      static_cast<std::ptrdiff_t>(kClosedKept)) {
    return;
  }
  const auto oldest = std::find_if(all.stats.begin(), all.stats.end(), is_closed);
  all.merged.add(counts_of(**oldest));
  ++all.merged.merged;
  all.merged.closed = true;
  all.stats.erase(oldest);
}

}  // namespace

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

OpenStats::OpenStats() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  stats_ = all.stats.emplace_back(std::make_unique<CommStats>()).get();
  if (const std::uint64_t first = first_number(); first != 0) begin_counting(*stats_, first);
}

OpenStats::~OpenStats() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  keep_mirrors(*stats_);
  stats_->mirror = nullptr;
  stats_->checksums = nullptr;
  stats_->closed = true;
  stats_->workspace_bytes.store(0);
  stats_->record_bytes.store(0);
  for (ClassStats& gathers : stats_->classes) {
    gathers.ledger_bytes.store(0);
    gathers.sample_bytes.store(0);
  }
  const bool used = std::any_of(stats_->functions.begin(), stats_->functions.end(),
                                [](const FunctionStats& f) { return counts_of(f).all_calls() > 0; });
  if (used) {
    merge_oldest(all);
  } else {
    std::erase_if(all.stats, [&](const auto& stats) { return stats.get() == stats_; });
  }
}

void OpenStats::identify(std::string name, std::uint32_t ranks, std::uint32_t rank, int device) {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  CommStats::Identity& identity = stats_->identity;
  identity.id = all.next_id++;
  identity.name = std::move(name);
  identity.ranks = ranks;
  identity.rank = rank;
  identity.device = device;
}

void OpenStats::agreed(Agreement agreement, std::uint32_t nodes, const std::string& why) {
  const std::lock_guard lock(registry().mutex);
  stats_->identity.agreement = agreement;
  stats_->identity.nodes = nodes;
  stats_->identity.why = why;
}

void OpenStats::set_mirror(const DeviceCounters* mirror, const FunctionChecksums* checksums) {
  const std::lock_guard lock(registry().mutex);
  if (!mirror) keep_mirrors(*stats_);
  stats_->mirror = mirror;
  stats_->checksums = checksums;
}

ClassStats& OpenStats::add_class(std::size_t count, ElementType type) {
  const std::lock_guard lock(registry().mutex);
  return stats_->classes.emplace_back(count, type);
}

void count_call(CommStats& stats, Collective collective, Reason reason, std::uint64_t elements,
                std::uint64_t bytes) {
  FunctionStats& function = stats.of(collective);
  add_to(function.calls[static_cast<std::size_t>(reason)], 1);
  function.last_reason.store(reason, std::memory_order_relaxed);
  function.add(Counter::elements, elements);
  function.add(Counter::bytes_given, bytes);
  if (reason == Reason::compressed) function.add(Counter::compressed_bytes_given, bytes);
}

void count_sent(CommStats& stats, Collective collective, LinkBytes native, LinkBytes sent) {
  FunctionStats& function = stats.of(collective);
  function.add(Counter::native_bytes_in_node, native.in_node);
  function.add(Counter::native_bytes_between_nodes, native.between_nodes);
  function.add(Counter::sent_bytes_in_node, sent.in_node);
  function.add(Counter::sent_bytes_between_nodes, sent.between_nodes);
}

Snapshot take_snapshot() {
  Registry& all = registry();
  const std::lock_guard lock(all.mutex);
  Snapshot snapshot;
  if (all.merged.merged > 0) snapshot.communicators.push_back(all.merged);
  for (const auto& stats : all.stats) {
    if (stats->identity.ranks > 0) snapshot.communicators.push_back(counts_of(*stats));
  }
  for (const CommCounts& counts : snapshot.communicators) {
    snapshot.total.add(counts);
    for (const ClassCounts& gathers : counts.classes) snapshot.total.classes.push_back(gathers);
  }
  return snapshot;
}

CommCounts snapshot_of(const OpenStats& stats) {
  const std::lock_guard lock(registry().mutex);
  return counts_of(*stats);
}

}  // namespace sdp4bit
