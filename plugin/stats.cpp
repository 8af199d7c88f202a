// Counting, and the texts made of the counts.
#include "plugin/stats.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>

#include <unistd.h>

#include "plugin/log.h"
#include "plugin/options.h"
#include "plugin/topology.h"

namespace sdp4bit {
namespace {

constexpr std::array kCollectives{Collective::reduce_scatter, Collective::all_gather};

std::uint64_t load(const std::atomic<std::uint64_t>& counter) {
  return counter.load(std::memory_order_relaxed);
}

std::string quoted(const std::string& text) {
  return "\"" + text + "\"";
}

/// %p: process id, %r: rank in the job.
std::string expand(const std::string& path) {
  std::string text;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const bool escape = path[i] == '%' && i + 1 < path.size();
    if (escape && path[i + 1] == 'p') {
      text += std::to_string(::getpid());
      ++i;
    } else if (escape && path[i + 1] == 'r') {
      text += std::to_string(job_rank());
      ++i;
    } else {
      text += path[i];
    }
  }
  return text;
}

/// Whole or not at all: readers of metrics may look at any time.
void write_file(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  const std::string target = expand(path), draft = target + ".new";
  std::FILE* const file = std::fopen(draft.c_str(), "w");
  const bool written = file && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = file && std::fclose(file) == 0;
  if (!written || !closed || std::rename(draft.c_str(), target.c_str()) != 0) {
    log_error("cannot write %s", target.c_str());
  }
}

}  // namespace

CommStats& process_stats() {
  static auto* const instance = new CommStats;  // read at exit, when static objects are gone
  return *instance;
}

void count_call(CommStats& stats, Collective collective, Reason reason) {
  const auto index = static_cast<std::size_t>(reason);
  stats.of(collective).calls[index].fetch_add(1, std::memory_order_relaxed);
  process_stats().of(collective).calls[index].fetch_add(1, std::memory_order_relaxed);
}

void count_bytes(CommStats& stats, Collective collective, std::uint64_t native_bytes,
                 std::uint64_t sent_bytes) {
  for (CommStats* const counters : {&stats, &process_stats()}) {
    counters->of(collective).compressed_bytes.fetch_add(native_bytes, std::memory_order_relaxed);
    counters->of(collective).sent_bytes.fetch_add(sent_bytes, std::memory_order_relaxed);
  }
}

std::string stats_summary() {
  std::string text;
  for (const Collective collective : kCollectives) {
    const CollectiveStats& stats = process_stats().of(collective);
    text += std::string(text.empty() ? "" : "; ") + collective_name(collective) + ":";
    for (std::size_t i = 0; i < kReasonCount; ++i) {
      const std::uint64_t calls = load(stats.calls[i]);
      if (calls > 0)
        text += std::string(" ") + reason_name(static_cast<Reason>(i)) + " " + std::to_string(calls);
    }
    const std::uint64_t native = load(stats.compressed_bytes), sent = load(stats.sent_bytes);
    if (native > 0) text += ", sent " + std::to_string(sent) + " bytes instead of " + std::to_string(native);
  }
  return text;
}

std::string stats_json() {
  std::string text = "{\n  \"version\": " + quoted(SDP4BIT_VERSION) +
                     ",\n  \"process\": " + std::to_string(::getpid()) +
                     ",\n  \"job_rank\": " + std::to_string(job_rank());
  for (const Collective collective : kCollectives) {
    const CollectiveStats& stats = process_stats().of(collective);
    text += ",\n  " + quoted(collective_name(collective)) + ": {\n    \"calls\": {";
    for (std::size_t i = 0; i < kReasonCount; ++i) {
      text += std::string(i ? ", " : "") + quoted(reason_name(static_cast<Reason>(i))) + ": " +
              std::to_string(load(stats.calls[i]));
    }
    text += "},\n    \"native_bytes\": " + std::to_string(load(stats.compressed_bytes)) +
            ",\n    \"sent_bytes\": " + std::to_string(load(stats.sent_bytes)) + "\n  }";
  }
  return text + "\n}\n";
}

std::string stats_prometheus() {
  std::string calls =
      "# HELP sdp4bit_calls_total Calls, by function and by what became of them.\n# TYPE sdp4bit_calls_total "
      "counter\n";
  std::string bytes =
      "# HELP sdp4bit_bytes_total Bytes of compressed calls: sent, and what NCCL would have sent.\n"
      "# TYPE sdp4bit_bytes_total counter\n";
  for (const Collective collective : kCollectives) {
    const CollectiveStats& stats = process_stats().of(collective);
    const std::string label = std::string("{collective=") + quoted(collective_name(collective));
    for (std::size_t i = 0; i < kReasonCount; ++i) {
      calls += "sdp4bit_calls_total" + label + ",reason=" + quoted(reason_name(static_cast<Reason>(i))) +
               "} " + std::to_string(load(stats.calls[i])) + "\n";
    }
    bytes += "sdp4bit_bytes_total" + label + ",kind=\"native\"} " +
             std::to_string(load(stats.compressed_bytes)) + "\n";
    bytes +=
        "sdp4bit_bytes_total" + label + ",kind=\"sent\"} " + std::to_string(load(stats.sent_bytes)) + "\n";
  }
  return calls + bytes;
}

void report_at_exit() {
  static std::once_flag once;
  std::call_once(once, [] {
    (void)config();
    (void)process_stats();
    static const pid_t owner = getpid();
    std::atexit([] {
      if (getpid() != owner) return;  // a forked child has copies of its parent's counters
      try {
        log_info("%s", stats_summary().c_str());
        write_file(config().stats, stats_json());
        write_file(config().metrics, stats_prometheus());
      } catch (...) {
        log_error("no memory for the summary");
      }
    });
  });
}

}  // namespace sdp4bit
