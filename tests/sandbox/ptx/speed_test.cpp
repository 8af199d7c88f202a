// How fast the machine runs, as lane-instructions per second of CPU time and as a ratio to a plain loop of
// the same work; and what a launch costs that does nothing.
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>

#include "program.h"
#include "support/catch.h"

using namespace ptx_test;
using u32 = std::uint32_t;

namespace {

double cpu_seconds() {
  timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// CPU time of one call, the best of ten.
template <class Function>
double best_time(const Function& function) {
  double best = 1e9;
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double start = cpu_seconds();
    function();
    best = std::min(best, cpu_seconds() - start);
  }
  return best;
}

void report(const char* kernel, std::size_t elements, double machine, double plain) {
  double instructions = 0;
  for (const auto& counters : sandbox::ptx::counters())
    if (counters.kernel == kernel)
      instructions = static_cast<double>(counters.lane_instructions) / static_cast<double>(counters.launches);
  std::printf(
      "%-13s %8.2f G lane-instructions/s  %8.2f ns/element  %6.1f instructions/element  %7.1f times a plain "
      "loop  (%s)\n",
      kernel, instructions / machine * 1e-9, machine / static_cast<double>(elements) * 1e9,
      instructions / static_cast<double>(elements), machine / plain, sandbox::ptx::simd_name());
}

// The loops get the processor's vector units too, where the compiler can use them.
#define PLAIN_LOOP [[gnu::target_clones("arch=x86-64-v3", "default")]]

constexpr unsigned kBlocks = 512, kThreads = 256;
constexpr std::size_t kCount = kBlocks * kThreads;
constexpr int kRounds = 100;

PLAIN_LOOP void plain_multiply_add(const std::vector<float>& input, std::vector<float>& expected) {
  for (std::size_t at = 0; at < kCount; ++at) {
    float a = input[at], b = a + 1, c = a - 1, d = a * 0.5f;
    for (int round = 0; round < kRounds; ++round) {
      a = __builtin_fmaf(a, 0.99f, 0.25f);
      b = __builtin_fmaf(b, 0.98f, 0.5f);
      c = __builtin_fmaf(c, 0.97f, 0.125f);
      d = __builtin_fmaf(d, 0.96f, 0.75f);
    }
    expected[at] = a + b + c + d;
  }
}

PLAIN_LOOP void plain_hash(const std::vector<u32>& input, std::vector<u32>& expected) {
  for (std::size_t at = 0; at < kCount; ++at) {
    u32 a = input[at], b = a ^ 0x9e3779b9u;
    for (u32 round = 0; round < kRounds; ++round) {
      const u32 high = static_cast<u32>((static_cast<std::uint64_t>(a) * 0xd2511f53u) >> 32),
                low = a * 0xd2511f53u;
      a = high ^ b ^ round;
      b = low + (b << 7 | b >> 25);
    }
    expected[at] = a ^ b;
  }
}

PLAIN_LOOP void plain_quantize(const std::vector<float>& input, std::vector<u32>& expected,
                               std::vector<float>& expected_scales) {
  for (std::size_t group = 0; group < input.size() / 128; ++group) {
    float largest = 0;
    for (std::size_t at = group * 128; at < group * 128 + 128; ++at)
      largest = std::max(largest, std::fabs(input[at]));
    const float scale = largest / 7;
    expected_scales[group] = scale;
    for (std::size_t word = group * 16; word < group * 16 + 16; ++word) {
      u32 packed = 0;
      for (std::size_t at = 0; at < 8; ++at) {
        const float ratio = std::clamp(input[word * 8 + at] / scale, -7.0f, 7.0f);
        packed |= (static_cast<u32>(static_cast<int>(std::nearbyint(ratio))) & 0xf) << (4 * at);
      }
      expected[word] = packed;
    }
  }
}

}  // namespace

TEST_CASE("Speed.MultiplyAdd") {
  Program program = Program::from_file("speed.ptx");
  std::vector<float> input(kCount), expected(kCount);
  for (std::size_t at = 0; at < kCount; ++at) input[at] = static_cast<float>(at % 1000) * 0.01f;
  const DeviceArray<float> from(input), to(kCount);
  sandbox::ptx::reset_counters();
  const double machine = best_time(
      [&] { program.launch("multiply_add", threads(kBlocks, kThreads), from.data(), to.data(), kRounds); });
  const double plain = best_time([&] { plain_multiply_add(input, expected); });
  CHECK(to.values() == expected);
  report("multiply_add", kCount, machine, plain);
}

TEST_CASE("Speed.Hash") {
  Program program = Program::from_file("speed.ptx");
  std::vector<u32> input(kCount), expected(kCount);
  for (std::size_t at = 0; at < kCount; ++at) input[at] = static_cast<u32>(at * 2654435761u);
  const DeviceArray<u32> from(input), to(kCount);
  sandbox::ptx::reset_counters();
  const double machine =
      best_time([&] { program.launch("hash", threads(kBlocks, kThreads), from.data(), to.data(), kRounds); });
  const double plain = best_time([&] { plain_hash(input, expected); });
  CHECK(to.values() == expected);
  report("hash", kCount, machine, plain);
}

TEST_CASE("Speed.Copy") {
  Program program = Program::from_file("speed.ptx");
  const std::size_t count = kCount * 4 * 4;
  std::vector<u32> input(count, 7u), expected(count);
  const DeviceArray<u32> from(input), to(count);
  sandbox::ptx::reset_counters();
  const double machine =
      best_time([&] { program.launch("copy", threads(kBlocks * 4, kThreads), from.data(), to.data()); });
  const double plain = best_time([&] { std::copy(input.begin(), input.end(), expected.begin()); });
  CHECK(to.values() == expected);
  report("copy", count, machine, plain);
}

TEST_CASE("Speed.Quantize") {
  Program program = Program::from_file("speed.ptx");
  const std::size_t count = kCount * 8;
  std::vector<float> input(count), expected_scales(count / 128);
  for (std::size_t at = 0; at < count; ++at)
    input[at] = std::sin(static_cast<float>(at)) * static_cast<float>(at % 77);
  std::vector<u32> expected(count / 8);
  const DeviceArray<float> from(input), scales(count / 128);
  const DeviceArray<u32> to(count / 8);
  sandbox::ptx::reset_counters();
  const double machine = best_time(
      [&] { program.launch("quantize", threads(kBlocks, kThreads), from.data(), to.data(), scales.data()); });
  const double plain = best_time([&] { plain_quantize(input, expected, expected_scales); });
  CHECK(to.values() == expected);
  CHECK(scales.values() == expected_scales);
  report("quantize", count, machine, plain);
}

TEST_CASE("Speed.Launch") {
  Program program = Program::from_file("speed.ptx");
  constexpr unsigned kLaunches = 2000;
  for (const unsigned blocks : {1u, 64u}) {
    program.launch("nothing", threads(blocks, kThreads));
    sandbox::ptx::reset_counters();
    const double seconds = best_time([&] {
      for (unsigned launch = 0; launch < kLaunches; ++launch)
        program.launch("nothing", threads(blocks, kThreads));
    });
    const auto counters = sandbox::ptx::counters();
    REQUIRE(counters.size() == 1);
    CHECK(counters[0].launches == 10 * kLaunches);
    CHECK(counters[0].lane_instructions == 10 * kLaunches * std::uint64_t{blocks} * kThreads);
    std::printf("launch        %8.2f us of CPU time for %u blocks of %u threads that do nothing  (%s)\n",
                seconds / kLaunches * 1e6, blocks, kThreads, sandbox::ptx::simd_name());
  }
}
