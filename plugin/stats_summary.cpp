// The summary at the end of a process, line by line, as SDP4BIT_LOG=info shows it.
#include <cstdio>

#include "plugin/stats_snapshot.h"
#include "plugin/stats_text.h"

namespace sdp4bit {
namespace {

std::string number(std::uint64_t value) {
  return std::to_string(value);
}

std::string percent(std::uint64_t part, std::uint64_t whole) {
  char text[32];
  (void)std::snprintf(text, sizeof text, "%.1f %%",
                      100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text;
}

/// "sent 10 of 40 bytes between nodes (25.0 %)": ours of NCCL's.
std::string share(std::uint64_t sent, std::uint64_t native, const char* where) {
  std::string text = ", sent " + number(sent) + " bytes " + where + ", NCCL at least " + number(native);
  if (native > 0) text += " (" + percent(sent, native) + ")";
  return text;
}

std::string line_of(Collective collective, const FunctionCounts& counts) {
  std::string text = std::string(collective_name(collective)) + ":";
  for (std::size_t i = 0; i < kReasonCount; ++i) {
    if (counts.calls[i] > 0)
      text += std::string(" ") + reason_name(static_cast<Reason>(i)) + " " + number(counts.calls[i]);
  }
  text += ", given " + number(counts.of(Counter::bytes_given)) + " bytes";
  if (counts.of(Reason::compressed) > 0) {
    text +=
        share(counts.of(Counter::sent_bytes_between_nodes), counts.of(Counter::native_bytes_between_nodes),
              "between nodes") +
        share(counts.of(Counter::sent_bytes_in_node), counts.of(Counter::native_bytes_in_node), "in nodes");
  }
  const std::uint64_t sent = counts.of(Counter::nonfinite_groups_sent),
                      received = counts.of(Counter::nonfinite_groups_received);
  if (sent + received > 0) {
    text += ", NaN or infinity in " + number(sent) + " groups sent and " + number(received) + " received";
  }
  const std::uint64_t verified = counts.of(Counter::checksums_verified),
                      failed = counts.of(Counter::checksums_failed);
  if (verified + failed > 0) {
    text += ", " + number(verified) + " checksums fit and " + number(failed) + " did not";
  }
  return text;
}

}  // namespace

std::vector<std::string> stats_summary() {
  const Snapshot snapshot = take_snapshot();
  std::vector<std::string> lines;
  for (const Collective collective : kCollectives) {
    const FunctionCounts& counts = snapshot.total.of(collective);
    if (counts.all_calls() > 0) lines.push_back(line_of(collective, counts));
  }
  std::size_t learning = 0, difference = 0, native = 0;
  std::uint64_t jumps = 0, refreshes = 0;
  for (const ClassCounts& gathers : snapshot.total.classes) {
    const std::string stage = gathers.stage;
    ++(stage == "difference" ? difference : stage == "native" ? native : learning);
    jumps += gathers.jumps;
    refreshes += gathers.refreshes;
  }
  if (learning + difference + native > 0) {
    lines.push_back("classes of weights: " + number(difference) + " in difference, " + number(learning) +
                    " learning, " + number(native) + " native; " + number(jumps) + " jumps, " +
                    number(refreshes) + " refreshes");
  }
  for (unsigned kind = 0; kind < kSampleKinds; ++kind) {
    const SampledError& error = snapshot.total.samples[kind];
    if (error.samples == 0) continue;
    char text[160];
    (void)std::snprintf(text, sizeof text, "sampled error of %s: %.4f in %llu samples",
                        sample_kind_name(static_cast<SampleKind>(kind)), error.mean,
                        static_cast<unsigned long long>(error.samples));
    lines.emplace_back(text);
  }
  if (dropped_files() > 0)
    lines.push_back("files of statistics that could not be written: " + number(dropped_files()));
  return lines;
}

}  // namespace sdp4bit
