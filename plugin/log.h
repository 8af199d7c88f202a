// Lines to stderr: one write(2) each, `sdp4bit warn r3 d3: text`.
#pragma once

#include <atomic>
#include <cstdint>

namespace sdp4bit {

enum class LogLevel : std::uint8_t { none, error, warn, info, trace };

/// Until options are read, and when they cannot be, warn. Written by set_log_level() alone.
inline std::atomic<LogLevel> log_level_in_force{LogLevel::warn};
void set_log_level(LogLevel level) noexcept;
[[nodiscard]] inline bool log_enabled(LogLevel level) noexcept {
  return level <= log_level_in_force.load(std::memory_order_relaxed);
}

/// Errors and warnings so far, those included that the level hides.
struct LoggedLines {
  std::uint64_t errors = 0;
  std::uint64_t warnings = 0;
};
[[nodiscard]] LoggedLines logged_lines() noexcept;

/// Whom lines are about; -1 leaves it out.
struct LogSubject {
  int rank = -1;
  int device = -1;
};
inline thread_local LogSubject log_subject;
/// This thread's lines are about `subject` while it lives.
class LogScope {
 public:
  explicit LogScope(LogSubject subject) noexcept : before_(log_subject) { log_subject = subject; }
  ~LogScope() { log_subject = before_; }
  LogScope(const LogScope&) = delete;
  LogScope& operator=(const LogScope&) = delete;

 private:
  LogSubject before_;
};

#define SDP4BIT_PRINTF __attribute__((format(printf, 1, 2)))
SDP4BIT_PRINTF void log_error(const char* format, ...) noexcept;
SDP4BIT_PRINTF void log_warn(const char* format, ...) noexcept;
SDP4BIT_PRINTF void log_info(const char* format, ...) noexcept;
SDP4BIT_PRINTF void log_trace(const char* format, ...) noexcept;
/// Shown at the default level, though nothing is wrong: the line that says that it works, and the mismatch
/// lines.
SDP4BIT_PRINTF void log_notice(const char* format, ...) noexcept;
#undef SDP4BIT_PRINTF

/// `if (once.first()) log_warn(...)`: one line for each cause and process.
class Once {
 public:
  [[nodiscard]] bool first() noexcept { return !done_.exchange(true, std::memory_order_relaxed); }

 private:
  std::atomic<bool> done_{false};
};

}  // namespace sdp4bit
