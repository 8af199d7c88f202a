// The only place that writes to stderr.
#include "plugin/log.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <ctime>

namespace sdp4bit {
namespace {

std::atomic<std::uint64_t> errors{0}, warnings{0};

/// What one of the functions below says: from which level on, under which name, and who counts it.
struct Kind {
  LogLevel level;
  const char* name;
  std::atomic<std::uint64_t>* counter = nullptr;
};
constexpr Kind kError{LogLevel::error, "error", &errors}, kWarning{LogLevel::warn, "warn", &warnings},
    kNotice{LogLevel::warn, "info"}, kInfo{LogLevel::info, "info"}, kTrace{LogLevel::trace, "trace"};

/// Who reads stderr may be gone, and a file may be as long as it is allowed to be: that must not end a
/// program which has written nothing itself. While it lives, such signals of this thread wait, and those that
/// came meanwhile are taken back; errno stays the program's.
class QuietWrite {
 public:
  QuietWrite() noexcept : errno_(errno) {
    ::sigemptyset(&signals_);
    ::sigaddset(&signals_, SIGPIPE);
    ::sigaddset(&signals_, SIGXFSZ);
    sigset_t pending;
    ::sigpending(&pending);
    // The program's own stay: one that is pending now is pending afterwards.
    for (const int signal : {SIGPIPE, SIGXFSZ})
      if (::sigismember(&pending, signal) == 1) ::sigdelset(&signals_, signal);
    ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~QuietWrite() {
    const timespec at_once{};
    while (::sigtimedwait(&signals_, nullptr, &at_once) > 0) {
    }
    ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
    errno = errno_;
  }
  QuietWrite(const QuietWrite&) = delete;
  QuietWrite& operator=(const QuietWrite&) = delete;

 private:
  int errno_;  // of the program's last call
  sigset_t signals_{}, before_{};
};

void say(const Kind& kind, const char* format, std::va_list arguments) noexcept {
  if (kind.counter) kind.counter->fetch_add(1, std::memory_order_relaxed);
  if (!log_enabled(kind.level)) return;
  char line[1024];
  const LogSubject subject = log_subject;
  int length = std::snprintf(line, sizeof line, "sdp4bit %s", kind.name);
  const auto room = [&] { return sizeof line - static_cast<std::size_t>(length); };
  const auto tail = [&] { return line + length; };
  if (subject.rank >= 0) length += std::snprintf(tail(), room(), " r%d", subject.rank);
  if (subject.device >= 0) length += std::snprintf(tail(), room(), " d%d", subject.device);
  length += std::snprintf(tail(), room(), ": ");
  // NOLINTNEXTLINE(clang-analyzer-valist.Uninitialized): the callers started it
  length += std::vsnprintf(tail(), room(), format, arguments);
  constexpr int kLongest = static_cast<int>(sizeof line) - 1;
  if (length > kLongest) length = kLongest;
  // Values of variables and names of files may hold anything, and must not look like lines of their own.
  std::replace_if(
      line, line + length, [](unsigned char each) { return each < ' ' || each == 0x7f; }, '?');
  line[length++] = '\n';
  const QuietWrite quiet;
  // A line that cannot be written is lost: there is nowhere to say so.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line, static_cast<std::size_t>(length));
}

}  // namespace

void set_log_level(LogLevel level) noexcept {
  log_level_in_force.store(level, std::memory_order_relaxed);
}

LoggedLines logged_lines() noexcept {
  return {.errors = errors.load(std::memory_order_relaxed),
          .warnings = warnings.load(std::memory_order_relaxed)};
}

// A template cannot pass C's variable arguments on.
#define SDP4BIT_LOG_FUNCTION(function, kind)        \
  void function(const char* format, ...) noexcept { \
    std::va_list arguments;                         \
    va_start(arguments, format);                    \
    say(kind, format, arguments);                   \
    va_end(arguments);                              \
  }
SDP4BIT_LOG_FUNCTION(log_error, kError)
SDP4BIT_LOG_FUNCTION(log_warn, kWarning)
SDP4BIT_LOG_FUNCTION(log_notice, kNotice)
SDP4BIT_LOG_FUNCTION(log_info, kInfo)
SDP4BIT_LOG_FUNCTION(log_trace, kTrace)
#undef SDP4BIT_LOG_FUNCTION

}  // namespace sdp4bit
