// The counters as plain numbers at one moment: of each communicator, and of the process.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "plugin/stats.h"

namespace sdp4bit {

struct FunctionCounts {
  std::array<std::uint64_t, kReasonCount> calls{};
  std::array<std::uint64_t, kCounterCount> counters{};
  Reason last_reason = Reason::count_;  // count_: no call yet

  [[nodiscard]] std::uint64_t of(Counter counter) const {
    return counters[static_cast<std::size_t>(counter)];
  }
  [[nodiscard]] std::uint64_t of(Reason reason) const { return calls[static_cast<std::size_t>(reason)]; }
  [[nodiscard]] std::uint64_t all_calls() const;
  void add(const FunctionCounts& other);
};

struct ClassCounts {
  std::size_t count = 0;
  ElementType type = ElementType::bfloat16;
  const char* stage = "";
  const char* last_event = "";
  const char* own_shard = "";
  std::uint32_t slots = 0;
  std::uint64_t calls = 0, differences = 0, jumps = 0, refreshes = 0, relearned = 0, resets = 0;
  std::uint64_t ledger_bytes = 0, sample_bytes = 0;
};

/// Sampled errors of one kind of message.
struct SampledError {
  std::uint64_t samples = 0;
  double last = 0.0;  // relative L2 error of the last sample
  double mean = 0.0;  // of all samples together: root of summed squares over summed squares
  double total_error = 0.0, total_input = 0.0;
  std::vector<double> course = {};  // of one communicator: the mean of each samples_per_point() in order
  /// The sum has no course: calls of different communicators have no common order.
  void add(const SampledError& other);
};
[[nodiscard]] const char* sample_kind_name(SampleKind kind);

struct CommCounts {
  CommStats::Identity identity;
  bool closed = false;
  std::uint64_t merged = 0;  // > 0: so many closed communicators together
  std::array<FunctionCounts, kCollectives.size()> functions;
  std::array<SampledError, kSampleKinds> samples;
  std::vector<ClassCounts> classes;
  std::uint64_t workspace_bytes = 0, record_bytes = 0;

  [[nodiscard]] std::uint64_t ledger_bytes() const;
  [[nodiscard]] std::uint64_t sample_bytes() const;
  [[nodiscard]] const FunctionCounts& of(Collective collective) const {
    return functions[static_cast<std::size_t>(collective)];
  }
  void add(const CommCounts& other);
};

struct Snapshot {
  std::vector<CommCounts> communicators;  // in order of first use; `merged` ones first
  CommCounts total;                       // without classes and identity
};

/// Counters now, and what kernels wrote, before its memory goes. Of a communicator: requires the registry's
/// lock.
[[nodiscard]] FunctionCounts counts_of(const FunctionStats& stats);
[[nodiscard]] CommCounts counts_of(const CommStats& stats);
[[nodiscard]] DeviceCounters read_mirror(const DeviceCounters& mirror);
[[nodiscard]] FunctionChecksums read_mirror(const FunctionChecksums& mirror);

[[nodiscard]] Snapshot take_snapshot();
[[nodiscard]] CommCounts snapshot_of(const OpenStats& stats);

}  // namespace sdp4bit
