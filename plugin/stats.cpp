// The registry of counters, and snapshots of it.
#include "plugin/stats.h"

#include <algorithm>
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
