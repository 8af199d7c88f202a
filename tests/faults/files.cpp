// Every call that the library makes of the system, for statistics, lines of the log, names of hosts and
// threads: it fails once, or from then on, as on a disk that is full or may not be written. The job never
// notices; one line of the log and a counter tell.
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "catch.h"
#include "disturbed_run.h"

namespace sdp4bit::faults {
namespace {

namespace fs = std::filesystem;

/// Gone with its content.
class Folder {
 public:
  Folder() {
    std::string name = (fs::temp_directory_path() / "sdp4bit_files_XXXXXX").string();
    if (!::mkdtemp(name.data())) throw std::runtime_error("no temporary folder");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// The ways in which a function fails; the first is that of calls.def.
std::vector<int> errors_of(std::string_view function) {
  if (function == "open") return {EACCES, EROFS, ENOSPC, EMFILE};
  if (function == "write") return {ENOSPC, EDQUOT, EIO, EINTR};
  if (function == "close") return {EIO, ENOSPC};
  if (function == "rename") return {EACCES, ENOSPC, EROFS};
  if (function == "syscall") return {EACCES, EINTR};
  if (function == "read") return {EIO, EINTR};
  return {0};
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

std::string content_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// They are written a second after the job's first call.
void outlast_the_first_files() {
  std::this_thread::sleep_for(std::chrono::milliseconds(1300));
}

/// The job with statistics in files and all lines of the log, which goes on until the first files are
/// written.
class JobWithFiles {
 public:
  JobWithFiles()
      : settings_{{.name = "statistics",
                   .environment = {{"SDP4BIT_STATS", (folder_.path() / "%r.json").string()},
                                   {"SDP4BIT_METRICS", (folder_.path() / "%r.prom").string()},
                                   {"SDP4BIT_LOG", "info"}},
                   .steps = 12}} {}

  [[nodiscard]] std::vector<MetSite> sites() const {
    return meet_sites(settings_, false, nullptr, outlast_the_first_files);
  }

  [[nodiscard]] std::size_t settings() const { return settings_.size(); }

  void disturb(const MetSite& met, Action action, int error, Outcomes& outcomes) {
    const std::string_view function = injector().function_name(met.site.function);
    CAPTURE(function, met.site.offset, met.rank, error, action == Action::break_for_good);
    for (const auto& old : fs::directory_iterator(folder_.path())) fs::remove_all(old.path());
    const auto ends = run(
        *met.setting, met.rank, [&] { injector().arm(action, met.site.offset, 1, error); }, nullptr,
        outlast_the_first_files);
    CHECK(outcomes.add("file", met.rank, ends) == "");
    for (const RankEnd& end : ends) CHECK(end.died + end.error == "");

    const std::string& log = ends[met.rank].log;
    CAPTURE(log);
    CHECK(occurrences(log, "cannot write ") <= 2);  // a line for each of the two files
    const std::string rank = std::to_string(met.rank);
    const std::string json = content_of(folder_.path() / (rank + ".json"));
    if (json.empty() || !fs::exists(folder_.path() / (rank + ".prom"))) {
      CHECK((occurrences(log, "cannot write ") > 0 || occurrences(log, "there will be no statistics") == 1 ||
             occurrences(log, "last statistics were not written") == 1));
    } else {
      CHECK((occurrences(log, "cannot write ") == 0) == (occurrences(json, "\"files_not_written\": 0") == 1));
    }
    if (function == "unlink") return;
    for (const auto& left : fs::directory_iterator(folder_.path())) CHECK(left.path().extension() != ".new");
  }

 private:
  Folder folder_;
  std::vector<Setting> settings_;
};

void disturb_all(unsigned stride, const char* name, int least) {
  JobWithFiles job;
  Outcomes outcomes;
  unsigned number = 0;
  std::set<std::string_view> functions;
  for (const MetSite& met : job.sites()) {
    const std::string_view function = injector().function_name(met.site.function);
    functions.insert(function);
    for (const int error : errors_of(function)) {
      if (number++ % stride == 0) job.disturb(met, Action::fail, -error, outcomes);
      // A call is not interrupted for ever.
      if (error != EINTR && number++ % stride == 0)
        job.disturb(met, Action::break_for_good, -error, outcomes);
    }
  }
  for (const char* const expected : {"open", "write", "close", "rename", "syscall"})
    CHECK(functions.count(expected) == 1);
  CHECK(outcomes.injected() >= least);
  outcomes.print(name, job.settings());
}

TEST_CASE("Files.SampledCallsOfTheSystem") {
  disturb_all(11, "files, sampled", 3);
}

TEST_CASE("Files.EveryCallOfTheSystem", "[.slow]") {
  disturb_all(1, "files", 30);
}

}  // namespace
}  // namespace sdp4bit::faults
