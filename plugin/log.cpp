// The only place that writes to stderr.
#include "plugin/log.h"

#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>

namespace sdp4bit {
namespace {

std::atomic<LogLevel> current_level{LogLevel::warn};
thread_local LogSubject subject_of_thread;
std::atomic<std::uint64_t> errors{0}, warnings{0};

void write_line(const char* level, const char* format, std::va_list arguments) noexcept {
  char line[1024];
  const LogSubject subject = subject_of_thread;
  int length = std::snprintf(line, sizeof line, "sdp4bit %s", level);
  const auto room = [&] { return sizeof line - static_cast<std::size_t>(length); };
  const auto tail = [&] { return line + length; };
  if (subject.rank >= 0) length += std::snprintf(tail(), room(), " r%d", subject.rank);
  if (subject.device >= 0) length += std::snprintf(tail(), room(), " d%d", subject.device);
  length += std::snprintf(tail(), room(), ": ");
  length += std::vsnprintf(tail(), room(), format, arguments);
  constexpr int kLongest = static_cast<int>(sizeof line) - 1;
  if (length > kLongest) length = kLongest;
  line[length++] = '\n';
  const int saved = errno;
  // A line that cannot be written is lost: there is nowhere to say so.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line, static_cast<std::size_t>(length));
  errno = saved;
}

}  // namespace

void set_log_level(LogLevel level) noexcept {
  current_level.store(level, std::memory_order_relaxed);
}
bool log_enabled(LogLevel level) noexcept {
  return level <= current_level.load(std::memory_order_relaxed);
}

LoggedLines logged_lines() noexcept {
  return {.errors = errors.load(std::memory_order_relaxed),
          .warnings = warnings.load(std::memory_order_relaxed)};
}

LogScope::LogScope(LogSubject subject) noexcept : before_(subject_of_thread) {
  subject_of_thread = subject;
}
LogScope::~LogScope() {
  subject_of_thread = before_;
}

#define SDP4BIT_LOG_FUNCTION(function, level, name, count) \
  void function(const char* format, ...) noexcept {        \
    count;                                                 \
    if (!log_enabled(level)) return;                       \
    std::va_list arguments;                                \
    va_start(arguments, format);                           \
    write_line(name, format, arguments);                   \
    va_end(arguments);                                     \
  }
SDP4BIT_LOG_FUNCTION(log_error, LogLevel::error, "error", errors.fetch_add(1, std::memory_order_relaxed))
SDP4BIT_LOG_FUNCTION(log_warn, LogLevel::warn, "warn", warnings.fetch_add(1, std::memory_order_relaxed))
SDP4BIT_LOG_FUNCTION(log_notice, LogLevel::warn, "info", )
SDP4BIT_LOG_FUNCTION(log_info, LogLevel::info, "info", )
SDP4BIT_LOG_FUNCTION(log_trace, LogLevel::trace, "trace", )
#undef SDP4BIT_LOG_FUNCTION

}  // namespace sdp4bit
