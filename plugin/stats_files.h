// When the counters are printed and written: every few seconds and when the process ends.
#pragma once

#include <string>

namespace sdp4bit {

/// A path with %h (host), %p (process), %r (rank in the job) and %% replaced.
[[nodiscard]] std::string expand_path(const std::string& path);

/// Writes what SDP4BIT_STATS and SDP4BIT_METRICS name: whole or not at all, so that readers may look at any
/// time. Does nothing in a forked child of the process that registered.
void write_stats_files();

/// Prints and writes what the options ask for when the process ends, and keeps the files fresh until then;
/// the first call registers, later ones do nothing.
void report_at_exit();

}  // namespace sdp4bit
