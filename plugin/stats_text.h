// The counters as texts: a summary for the log, JSON, and Prometheus' text format.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace sdp4bit {

/// Lines for the log.
[[nodiscard]] std::vector<std::string> stats_summary();
/// docs/statistics.md has the schema.
[[nodiscard]] std::string stats_json();
[[nodiscard]] std::string stats_prometheus();

/// When this process made its first call, and now.
[[nodiscard]] std::int64_t counting_since();
[[nodiscard]] std::int64_t seconds_since_1970();

/// Files of statistics that could not be written.
[[nodiscard]] unsigned long long dropped_files();

}  // namespace sdp4bit
