// What a launch costs a program: kernels that do nothing, one after the other, and each waited for.
#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <vector>

#include "support.h"

using namespace sandbox::test;

namespace {

__global__ void nothing() {}

__global__ void count(int* launches) {
  ++*launches;
}

/// User and system time of all threads of the process.
double cpu_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

template <class Function>
void report(const char* what, int launches, const Function& function) {
  std::vector<double> wall, cpu;
  for (int attempt = 0; attempt < 7; ++attempt) {
    const auto start = std::chrono::steady_clock::now();
    const double cpu_start = cpu_seconds();
    function();
    cpu.push_back(cpu_seconds() - cpu_start);
    wall.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::sort(wall.begin(), wall.end());
  std::sort(cpu.begin(), cpu.end());
  std::printf("%-34s %9.0f launches/s  %7.2f us of CPU time a launch (medians of 7)\n", what,
              launches / wall[3], cpu[3] / launches * 1e6);
}

}  // namespace

TEST_CASE("LaunchSpeed.EveryLaunchRunsOnce") {
  constexpr int kLaunches = 1000;
  DeviceArray<int> launches(1);
  expect(cudaMemset(launches, 0, sizeof(int)));
  report("one stream", kLaunches, [&] {
    for (int launch = 0; launch < kLaunches; ++launch) nothing<<<1, 32>>>();
    expect(cudaDeviceSynchronize());
  });
  report("one stream, each synchronized", kLaunches, [&] {
    for (int launch = 0; launch < kLaunches; ++launch) {
      nothing<<<1, 32>>>();
      (void)cudaDeviceSynchronize();
    }
  });
  report("one stream, that count themselves", kLaunches, [&] {
    for (int launch = 0; launch < kLaunches; ++launch) count<<<1, 1>>>(launches);
    expect(cudaDeviceSynchronize());
  });
  int got = 0;
  expect(cudaMemcpy(&got, launches, sizeof(int), cudaMemcpyDeviceToHost));
  CHECK(got == 7 * kLaunches);
}
