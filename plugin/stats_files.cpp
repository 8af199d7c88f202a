// Files of counters, refreshed by a thread of their own; see stats_files.h.
#include "plugin/stats_files.h"

#include <semaphore.h>
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

namespace sdp4bit {
namespace {

constexpr int kFirstWrite = 1, kRefresh = 10, kLongestEnd = 3;  // seconds

std::atomic<unsigned long long> files_not_written{0};
std::atomic<pid_t> owner{0};
std::atomic<std::int64_t> first_call{0};
std::mutex writing;

bool write_whole(const std::string& path, const std::string& text) {
  std::FILE* const file = std::fopen(path.c_str(), "we");
  if (!file) return false;
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  return std::fclose(file) == 0 && written;
}

void write_file(const char* variable, Once& once, const std::string& path, const std::string& text) {
  const std::string target = expand_path(path);
  // A name of this process alone: others may write the same target.
  const std::string draft = target + "." + host_name() + "." + std::to_string(::getpid()) + ".new";
  if (write_whole(draft, text) && std::rename(draft.c_str(), target.c_str()) == 0) return;
  const int reason = errno;
  (void)std::remove(draft.c_str());
  files_not_written.fetch_add(1);
  if (once.first()) {
    log_error("cannot write %s (%s): correct %s (said once)", target.c_str(), std::strerror(reason),
              variable);
  }
}

/// The child of a fork has copies of its parent's counters: they are not its own to tell.
bool is_owner() {
  return owner.load() == ::getpid();
}

/// Between the thread that writes and the end of the process. Its destructor does nothing: the thread
/// outlives it.
struct Writer {
  Writer() {
    ::sem_init(&end_asked, 0, 0);
    ::sem_init(&end_written, 0, 0);
  }
  sem_t end_asked, end_written;
};
std::atomic<Writer*> writer{nullptr};

bool wait_seconds(sem_t& semaphore, int seconds) {
  std::timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += seconds;
  int result = 0;
  do {
    result = ::sem_timedwait(&semaphore, &until);
  } while (result != 0 && errno == EINTR);
  return result == 0;
}

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
  static Writer shared;
  const bool started = start_background_thread("statistics", [] {
    // It holds nothing but the lock while it writes.
    for (int seconds = kFirstWrite; !wait_seconds(shared.end_asked, seconds); seconds = kRefresh)
      write_stats_files();
    report_last();
    ::sem_post(&shared.end_written);
  });
  if (started) writer.store(&shared);
}

/// Programs call exit() in handlers of signals, and so in the middle of anything: what is left to do needs
/// locks and memory, so the other thread does it, and this one does not wait for ever.
void end_writing() {
  Writer* const shared = writer.load();
  if (!shared || !is_owner()) return;
  ::sem_post(&shared->end_asked);
  if (!wait_seconds(shared->end_written, kLongestEnd))
    log_error("the last statistics were not written within %d seconds of the process's end", kLongestEnd);
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
