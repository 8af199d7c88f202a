// usage: cost EMPTY LIBRARY: starts /bin/true with one and with the other preloaded, in turn, and compares
// the medians.
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

namespace {

double milliseconds_of_true(const std::string& library) {
  std::string preload = "LD_PRELOAD=" + library, program = "/bin/true";
  char* arguments[] = {program.data(), nullptr};
  char* environment[] = {preload.data(), nullptr};
  const auto start = std::chrono::steady_clock::now();
  pid_t process = 0;
  int status = 0;
  if (posix_spawn(&process, "/bin/true", nullptr, nullptr, arguments, environment) != 0 ||
      waitpid(process, &status, 0) != process || status != 0) {
    return -1;
  }
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2),
                   values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int, char** arguments) {
  constexpr int kPairs = 41;
  // Relocations, fatbins to register: a quarter of a millisecond was measured.
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
