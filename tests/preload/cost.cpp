// usage: cost EMPTY LIBRARY: starts /bin/true with one and with the other preloaded, in turn, and compares
// the medians of the processor time.
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace {

double milliseconds_of_true(const std::string& library) {
  std::string preload = "LD_PRELOAD=" + library, program = "/bin/true";
  char* arguments[] = {program.data(), nullptr};
  char* environment[] = {preload.data(), nullptr};
  pid_t process = 0;
  int status = 0;
  struct rusage used {};  // processor time: what else the machine does changes it less than the clock
  if (posix_spawn(&process, "/bin/true", nullptr, nullptr, arguments, environment) != 0 ||
      wait4(process, &status, 0, &used) != process || status != 0) {
    return -1;
  }
  const auto milliseconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) * 1e-3;
  };
  return milliseconds(used.ru_utime) + milliseconds(used.ru_stime);
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int, char** arguments) {
  constexpr int kPairs = 41;
  // Four small libraries that a bare /bin/true has not, relocations, fatbins to register: half a millisecond
  // was measured.
  constexpr double kAllowed = 1.0;
  std::vector<double> empty, ours, difference;
  for (int i = 0; i < kPairs; ++i) {
    empty.push_back(milliseconds_of_true(arguments[1]));
    ours.push_back(milliseconds_of_true(arguments[2]));
    if (empty.back() < 0 || ours.back() < 0) return 1;
    difference.push_back(ours.back() - empty.back());
  }
  std::printf("empty %.2f ms, ours %.2f ms, median of paired differences %.2f ms (allowed %.1f)\n",
              median(empty), median(ours), median(difference), kAllowed);
  return median(difference) <= kAllowed ? 0 : 1;
}
