// Counters: calls by reason, bytes given and bytes sent; the summary and the files made of them.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>

#include "plugin/policy.h"

namespace sdp4bit {

/// Relaxed atomics: written by the thread of the call, read by whoever prints.
struct CollectiveStats {
  std::array<std::atomic<std::uint64_t>, kReasonCount> calls{};
  std::atomic<std::uint64_t> compressed_bytes{
      0};                                    // of compressed calls: what native NCCL would have sent ...
  std::atomic<std::uint64_t> sent_bytes{0};  // ... and what this rank sent
};

struct CommStats {
  CollectiveStats reduce_scatter;
  CollectiveStats all_gather;
  CollectiveStats& of(Collective collective) {
    return collective == Collective::reduce_scatter ? reduce_scatter : all_gather;
  }
};

/// Counts a call here and in the process's totals.
void count_call(CommStats& stats, Collective collective, Reason reason);
void count_bytes(CommStats& stats, Collective collective, std::uint64_t native_bytes,
                 std::uint64_t sent_bytes);

/// The process's totals, and as text.
[[nodiscard]] CommStats& process_stats();
[[nodiscard]] std::string stats_summary();
[[nodiscard]] std::string stats_json();
[[nodiscard]] std::string stats_prometheus();
/// Prints and writes what the options ask for when the process ends; the first call registers, later ones do
/// nothing.
void report_at_exit();

}  // namespace sdp4bit
