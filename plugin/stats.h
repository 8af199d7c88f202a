// Counters of communicators: what came, what became of it and why, what was sent, what memory is held.
//
// Calls write relaxed atomics of their own communicator; whoever prints takes a snapshot. What a communicator
// is, and memory that it may take away, change under the registry's lock only.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "kernels/device_counters.h"
#include "kernels/launch_checksum.h"
#include "plugin/policy.h"

namespace sdp4bit {

/// Bytes that one rank puts on the links.
struct LinkBytes {
  std::uint64_t in_node = 0;
  std::uint64_t between_nodes = 0;
};

/// What is counted for each function of a communicator; names for files: counter_name().
enum class Counter : std::uint8_t {
  elements,                    // of the larger buffer, in all calls
  bytes_given,                 // likewise
  compressed_bytes_given,      // of compressed calls
  native_bytes_in_node,        // what the best NCCL would have sent for those ...
  native_bytes_between_nodes,  // ... between nodes
  sent_bytes_in_node,          // what this rank sent instead, headers and scales included
  sent_bytes_between_nodes,
  sends,           // point-to-point operations of NCCL that carried it
  gathers,         // AllGathers of NCCL that carried it
  captured_calls,  // compressed calls that became part of a graph
  // read from the device
  executed_calls,             // compressed calls that ran, replays of graphs included; gradients only
  nonfinite_groups_sent,      // groups with a NaN or an infinity that were coded
  nonfinite_groups_received,  // groups that a received scale made NaN
  checksums_verified,         // messages and records that fit their checksum
  checksums_failed,           // ... and that did not
  count_
};
inline constexpr std::size_t kCounterCount = static_cast<std::size_t>(Counter::count_);
[[nodiscard]] const char* counter_name(Counter counter);
[[nodiscard]] const char* counter_help(Counter counter);

inline constexpr std::array kCollectives{Collective::reduce_scatter, Collective::all_gather};

/// By the one thread that uses the communicator (NCCL's rule), so no locked instruction is needed.
inline void add_to(std::atomic<std::uint64_t>& counter, std::uint64_t by) {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}

struct FunctionStats {
  std::array<std::atomic<std::uint64_t>, kReasonCount> calls{};
  std::array<std::atomic<std::uint64_t>, kCounterCount> counters{};
  std::atomic<Reason> last_reason{Reason::count_};

  void add(Counter counter, std::uint64_t by) { add_to(counters[static_cast<std::size_t>(counter)], by); }
};

/// A class of weight gathers, for people.
struct ClassStats {
  ClassStats(std::size_t class_count, ElementType class_type) : count(class_count), type(class_type) {}
  const std::size_t count;
  const ElementType type;
  std::atomic<const char*> stage{"learning"};  // or "difference", "native"
  std::atomic<const char*> last_event{"none"};
  std::atomic<const char*> own_shard{"asking"};  // or "replica", "exact"
  std::atomic<std::uint32_t> slots{0};
  std::atomic<std::uint64_t> calls{0}, differences{0}, jumps{0}, refreshes{0}, relearned{0}, resets{0};
  std::atomic<std::uint64_t> ledger_bytes{0}, sample_bytes{0};
};

struct FunctionChecksums {
  ChecksumCounts gradients, weights;
};

struct CommStats {
  std::array<FunctionStats, kCollectives.size()> functions;
  std::atomic<std::uint64_t> workspace_bytes{0};
  std::atomic<std::uint64_t> record_bytes{0};  // pinned words of records
  FunctionStats& of(Collective collective) { return functions[static_cast<std::size_t>(collective)]; }

  // Under the registry's lock; `classes` grows, and its elements stay where they are.
  struct Identity {
    std::uint64_t id = 0;  // by order of first use in the process
    std::string name;
    std::uint32_t ranks = 0, rank = 0, nodes = 0;
    int device = -1;
    Agreement agreement = Agreement::pending;
    std::string why;  // off
  } identity;
  std::deque<ClassStats> classes;
  const DeviceCounters* mirror = nullptr;        // pinned; written by kernels
  const FunctionChecksums* checksums = nullptr;  // likewise
  DeviceCounters last_mirror{};                  // of a communicator that gave its memory back
  FunctionChecksums last_checksums{};
  bool closed = false;
};

/// Holds a communicator's counters open; what it counted stays in the process's totals.
class OpenStats {
 public:
  OpenStats();
  ~OpenStats();
  OpenStats(const OpenStats&) = delete;
  OpenStats& operator=(const OpenStats&) = delete;
  CommStats& operator*() const { return *stats_; }
  CommStats* operator->() const { return stats_; }

  /// Who the communicator is, once NCCL has said it.
  void identify(std::string name, std::uint32_t ranks, std::uint32_t rank, int device);
  void agreed(Agreement agreement, std::uint32_t nodes, const std::string& why);
  /// Memory that kernels write to; nullptr before it goes.
  void set_mirror(const DeviceCounters* mirror, const FunctionChecksums* checksums = nullptr);
  [[nodiscard]] ClassStats& add_class(std::size_t count, ElementType type);

 private:
  CommStats* stats_;
};

/// `bytes`: of the larger buffer.
void count_call(CommStats& stats, Collective collective, Reason reason, std::uint64_t elements,
                std::uint64_t bytes);
void count_sent(CommStats& stats, Collective collective, LinkBytes native, LinkBytes sent);

}  // namespace sdp4bit
