// Files of counters, refreshed by a thread of their own; see stats_files.h.
#include "plugin/stats_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <utility>

#include "plugin/background_thread.h"
#include "plugin/log.h"
#include "plugin/options.h"
#include "plugin/stats_text.h"
#include "plugin/topology.h"
#include "plugin/wait_flag.h"

namespace sdp4bit {
namespace {

constexpr int kFirstWriteSeconds = 1, kRefreshSeconds = 10, kLongestEndSeconds = 3;

std::atomic<unsigned long long> files_not_written{0};
std::atomic<pid_t> owner{0};
std::atomic<std::int64_t> first_call{0};
std::mutex writing;

/// A file of this call's own making: where something lies at `path` already, nothing is followed or written.
bool write_new(const std::string& path, const std::string& text) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
  if (file < 0) return false;
  std::size_t written = 0;
  while (written < text.size()) {
    const ssize_t bytes = ::write(file, text.data() + written, text.size() - written);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    written += static_cast<std::size_t>(bytes);
  }
  const int reason = errno;
  const bool closed = ::close(file) == 0;  // NFS tells here that a disk is full
  if (written < text.size()) errno = reason;
  return written == text.size() && closed;
}

/// What may lie where a file is to be: nothing, or a file. As root, a rename onto /dev/stdout would take that
/// link from everyone.
bool may_be_replaced(const std::string& path) {
  struct stat found {};
  // The system call itself: lstat() asks for glibc 2.33.
  if (::syscall(SYS_newfstatat, AT_FDCWD, path.c_str(), &found, AT_SYMLINK_NOFOLLOW) != 0)
    return errno == ENOENT;
  if (S_ISREG(found.st_mode)) return true;
  errno = S_ISLNK(found.st_mode) ? ELOOP : EINVAL;
  return false;
}

/// Whole or not at all.
bool replace_file(const std::string& path, const std::string& text) {
  if (!may_be_replaced(path)) return false;
  // A name of this process alone: others may write the same path.
  const std::string draft = path + "." + host_name() + "." + std::to_string(::getpid()) + ".new";
  (void)::unlink(draft.c_str());  // of an earlier process with this number that was killed
  if (write_new(draft, text) && std::rename(draft.c_str(), path.c_str()) == 0) return true;
  const int reason = errno;
  (void)::unlink(draft.c_str());
  errno = reason;
  return false;
}

const char* why_not_written(int reason) {
  if (reason == ELOOP) return "it is a link; name the file itself";
  if (reason == EINVAL) return "it is no regular file; name a file";
  return std::strerror(reason);
}

void write_file(const char* variable, Once& once, const std::string& path, const std::string& text) {
  const std::string target = expand_path(path);
  if (replace_file(target, text)) return;
  const int reason = errno;
  files_not_written.fetch_add(1);
  if (once.first()) {
    log_error("cannot write %s (%s): correct %s (said once)", target.c_str(), why_not_written(reason),
              variable);
  }
}

/// The child of a fork has copies of its parent's counters: they are not its own to tell.
bool is_owner() {
  return owner.load() == ::getpid();
}

/// Between the thread that writes and the end of the process.
struct Writer {
  WaitFlag end_asked, end_written;
};
std::atomic<Writer*> writer{nullptr};

void report_last() {
  write_stats_files();
  try {
    if (!log_enabled(LogLevel::info)) return;
    for (const std::string& line : stats_summary()) log_info("%s", line.c_str());
  } catch (...) {
    log_error("no memory for the summary");
  }
}

void start_writing() {
  static Writer shared;  // without a destructor: the thread outlives static objects
  const bool started = start_background_thread("statistics", [] {
    // It holds nothing but the lock while it writes.
    for (int seconds = kFirstWriteSeconds; !shared.end_asked.wait(seconds); seconds = kRefreshSeconds)
      write_stats_files();
    report_last();
    shared.end_written.raise();
  });
  if (started) writer.store(&shared);
}

/// Programs call exit() in handlers of signals, and so in the middle of anything: what is left to do needs
/// locks and memory, so the other thread does it, and this one does not wait for ever.
void end_writing() {
  Writer* const shared = writer.load();
  if (!shared || !is_owner()) return;
  shared->end_asked.raise();
  if (!shared->end_written.wait(kLongestEndSeconds)) {
    log_error("the last statistics were not written within %d seconds of the process's end",
              kLongestEndSeconds);
  }
}

/// Once a job: who cannot see a variable here did not get it to the program.
void say_options() {
  constexpr std::size_t kLongestLine = 800;
  const Config usual;
  for (const bool defaults : {false, true}) {
    const char* const head = defaults ? "options at their defaults" : "options set";
    std::string line;
    for (const Option& option : option_table()) {
      const std::string value = option.print(config());
      if ((value == option.print(usual)) != defaults) continue;
      line += std::string(" ") + option.name + "=" + (value.empty() ? "-" : value);
      if (line.size() < kLongestLine) continue;
      log_info("%s:%s", head, std::exchange(line, {}).c_str());
    }
    if (!line.empty()) log_info("%s:%s", head, line.c_str());
  }
}

}  // namespace

std::int64_t seconds_since_1970() {
  return static_cast<std::int64_t>(std::time(nullptr));
}

std::int64_t counting_since() {
  const std::int64_t since = first_call.load();
  return since != 0 ? since : seconds_since_1970();
}

unsigned long long dropped_files() {
  return files_not_written.load();
}

std::string expand_path(const std::string& path) {
  std::string text;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const char next = path[i] == '%' && i + 1 < path.size() ? path[i + 1] : '\0';
    const bool known = next == 'h' || next == 'p' || next == 'r' || next == '%';
    if (!known) {
      text += path[i];
      continue;
    }
    text += next == 'h'   ? host_name()
            : next == 'p' ? std::to_string(::getpid())
            : next == 'r' ? std::to_string(job_rank())
                          : std::string("%");
    ++i;
  }
  return text;
}

void write_stats_files() {
  if (!is_owner()) return;
  try {
    const std::lock_guard lock(writing);
    static Once said_stats, said_metrics;
    if (!config().stats.empty()) write_file("SDP4BIT_STATS", said_stats, config().stats, stats_json());
    if (!config().metrics.empty())
      write_file("SDP4BIT_METRICS", said_metrics, config().metrics, stats_prometheus());
  } catch (...) {
    log_error("no memory for the statistics");
  }
}

void report_at_exit() {
  static std::once_flag once;
  std::call_once(once, [] {
    owner.store(::getpid());
    first_call.store(seconds_since_1970());
    const bool files = !config().stats.empty() || !config().metrics.empty();
    if (job_rank() <= 0) say_options();
    if (!files && !log_enabled(LogLevel::info)) return;
    start_writing();
    std::atexit(end_writing);
  });
}

}  // namespace sdp4bit
