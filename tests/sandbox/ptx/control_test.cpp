// Branches, loops, calls and barriers do per thread what the program says, and impossible waits are reported.
#include <atomic>
#include <chrono>
#include <numeric>
#include <thread>

#include "program.h"
#include "support/catch.h"

using namespace ptx_test;
using u32 = std::uint32_t;

namespace {

const char* const kImages[] = {"control.ptx", "control_90.ptx", "control_debug.ptx"};

int fibonacci(int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}
int ackermann(int m, int n) {
  if (m == 0) return n + 1;
  return n == 0 ? ackermann(m - 1, 1) : ackermann(m - 1, ackermann(m, n - 1));
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("Control.EveryLaneFollowsItsOwnPath") {
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    std::vector<int> values(3000);
    std::iota(values.begin(), values.end(), 1);
    const DeviceArray<int> from(values), to(values.size(), -7);
    program.launch("diverge", threads(24, 128), from.data(), to.data(), 3000);
    for (std::size_t at = 0; at < values.size(); ++at) {
      int value = values[at], steps = 0, expected = -7;
      for (;;) {
        if (value == 1) {
          expected = steps;
          break;
        }
        if (value % 2 == 0) {
          value /= 2;
        } else {
          if (value > 100000) {
            expected = steps;
            break;
          }
          value = 3 * value + 1;
        }
        ++steps;
        if (steps % 7 != 3 && steps > 500) break;
      }
      REQUIRE(to[at] == expected);
    }
    const DeviceArray<u32> votes(64);
    program.launch("reconverge", threads(1, 64), votes.data());
    for (u32 warp = 0; warp < 2; ++warp) {
      u32 expected = 0;
      for (u32 lane = 0; lane < 32; ++lane) {
        const u32 thread = warp * 32 + lane;
        u32 sum = 0;
        for (u32 at = 0; at <= thread % 5; ++at) sum += (thread + at) % 3 == 0 ? at * 2 : 1;
        if (sum % 2 == 0) expected |= 1u << lane;
      }
      for (u32 lane = 0; lane < 32; ++lane) REQUIRE(votes[warp * 32 + lane] == expected);
    }
  }
}

TEST_CASE("Control.RecursionHasAFrameForEachCall") {
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    const DeviceArray<int> to(64 * 2);
    program.launch("recurse", threads(1, 64), to.data());
    for (int at = 0; at < 64; ++at) {
      REQUIRE(to[static_cast<std::size_t>(at) * 2] == fibonacci(at % 12));
      REQUIRE(to[static_cast<std::size_t>(at) * 2 + 1] == ackermann(at % 3, at % 4));
    }
  }
}

TEST_CASE("Control.StructuresTravelThroughCalls") {
  struct Point {
    float x, y;
    int label[3];
  };
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    const DeviceArray<Point> points(40, Point{1, 2, {3, 4, 5}});
    const DeviceArray<int> pairs(80);
    program.launch("call_with_structures", threads(1, 40), points.data(), pairs.data());
    for (int at = 0; at < 40; ++at) {
      const auto place = static_cast<std::size_t>(at);
      Point expected{3.5f, -0.5f, {3, 4, 5}};
      expected.label[at % 3] += 100;
      expected.label[(at + 1) % 3] += 100;
      REQUIRE(std::memcmp(&points[place], &expected, sizeof expected) == 0);
      REQUIRE(pairs[place * 2] == (at % 2 == 0 ? 1000 + at : at));
      REQUIRE(pairs[place * 2 + 1] == (at % 2 == 0 ? at : 1000 + at));
    }
  }
}

TEST_CASE("Control.IndirectCallsDivergePerLane") {
  for (const char* image : kImages) {
    INFO(image);
    Program program = Program::from_file(image);
    std::vector<int> which(64);
    for (std::size_t at = 0; at < 64; ++at) which[at] = static_cast<int>(at * 7 % 3);
    const DeviceArray<int> choice(which), to(64);
    program.launch("call_by_pointer", threads(1, 64), choice.data(), to.data());
    for (int at = 0; at < 64; ++at) {
      int value = at;
      for (int step = 0; step < 4; ++step) {
        const int operation = (which[static_cast<std::size_t>(at)] + step) % 3;
        value = operation == 0 ? value + 1 : operation == 1 ? value * 2 : -value;
      }
      REQUIRE(to[static_cast<std::size_t>(at)] == value);
    }
    const DeviceArray<float> areas(64);
    const DeviceArray<int> sides(64);
    program.launch("call_virtual", threads(1, 64), choice.data(), areas.data(), sides.data());
    for (std::size_t at = 0; at < 64; ++at) {
      const float size = static_cast<float>(at);
      REQUIRE(areas[at] == (which[at] != 0 ? 3 * size * size : 2 * size));
      REQUIRE(sides[at] == (which[at] != 0 ? 0 : 4));
    }
  }
}

TEST_CASE("Control.SwitchTables") {
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    std::vector<int> cases(64);
    for (std::size_t at = 0; at < 64; ++at) cases[at] = static_cast<int>(at * 5 % 11) - 1;
    const DeviceArray<int> from(cases), to(128, 0);
    program.launch("switch_table", threads(1, 64), from.data(), to.data());
    for (std::size_t at = 0; at < 64; ++at) {
      const int thread = static_cast<int>(at);
      const int results[] = {-1, 5, thread, 17, -3, 99, 99, 6, cases[0], 88, -1};
      REQUIRE(to[at] == results[cases[at] + 1]);
      REQUIRE(to[at + 64] == (cases[at] == 2 ? 1 : 0));
    }
  }
}

TEST_CASE("Control.HalvesOfAWarpSynchronizeAlone") {
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    const DeviceArray<int> to(32);
    program.launch("half_warps", threads(1, 32), to.data());
    for (int lane = 0; lane < 16; ++lane) REQUIRE(to[static_cast<std::size_t>(lane)] == 4 + (lane + 1) % 16);
    for (int lane = 16; lane < 32; ++lane)
      REQUIRE(to[static_cast<std::size_t>(lane)] == 8 + (lane == 31 ? 31 : lane + 1));
  }
}

TEST_CASE("Barriers.NamedCountedAndReducing") {
  for (const char* image : kImages) {
    INFO(image);
    Program program = Program::from_file(image);
    const DeviceArray<int> to(128);
    program.launch("named_barriers", threads(1, 128), to.data());
    for (int at = 0; at < 64; ++at) {
      REQUIRE(to[static_cast<std::size_t>(at)] == (63 - at) * 5);
      REQUIRE(to[static_cast<std::size_t>(at) + 64] == at * 5 + 1);
    }
    const DeviceArray<int> reduced(100 * 3);
    program.launch("reducing_barriers", threads(1, 100), reduced.data());
    for (std::size_t at = 0; at < 100; ++at) {
      REQUIRE(reduced[at * 3] == 50);
      REQUIRE(reduced[at * 3 + 1] == 0);  // true in some threads
      REQUIRE(reduced[at * 3 + 2] != 0);
    }
    program.launch("reducing_barriers", threads(1, 70), reduced.data());
    CHECK(reduced[0] == 35);
    CHECK(reduced[1] != 0);  // in all
    CHECK(reduced[2] == 0);
  }
}

TEST_CASE("Barriers.DoNotWaitForThreadsThatLeft") {
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    const DeviceArray<int> to(96, -1);
    program.launch("early_exit_before_barrier", threads(1, 96), to.data());
    for (std::size_t at = 0; at < 96; ++at) REQUIRE(to[at] == (at >= 40 && at < 64 ? -1 : 72));
  }
}

TEST_CASE("Barriers.InLoopsAndOnBothSidesOfABranch") {
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    const DeviceArray<int> to(96);
    program.launch("barrier_in_loop", threads(1, 96), to.data(), 50);
    for (int at = 0; at < 96; ++at) REQUIRE(to[static_cast<std::size_t>(at)] == (at + 50) % 96);
    const DeviceArray<int> both(64);
    program.launch("barrier_in_both_branches", threads(1, 64), both.data());
    for (std::size_t at = 0; at < 64; ++at) REQUIRE(both[at] == (at % 2 == 0 ? 2 : 1));
  }
}

TEST_CASE("Control.ExitEndsOneThread") {
  Program program = Program::from_file("control.ptx");
  const DeviceArray<int> to(64);
  program.launch("exit_in_callee", threads(1, 64), to.data());
  for (std::size_t at = 0; at < 64; ++at) REQUIRE(to[at] == (at % 3 == 0 ? 1 : 2));
}

TEST_CASE("Deadlock.IsReportedWithItsKernel") {
  Program program = Program::from_file("control.ptx");
  for (const char* kernel : {"missing_lane", "missing_warp"}) {
    const auto fault = program.try_launch(kernel, threads(2, 64));
    REQUIRE(fault);
    INFO(fault->message);
    CHECK(fault->kind == FaultKind::deadlock);
    CHECK(contains(fault->message, kernel));
  }
}

TEST_CASE("Deadlock.EndlessLoopsEndWhenCancelled") {
  Program program = Program::from_file("control.ptx");
  auto& kernel = program.kernel("endless");
  const auto packed = sandbox::ptx::pack_arguments(kernel, nullptr);
  std::atomic<bool> cancel = false;
  sandbox::ptx::Launch launch;
  launch.block = Dim3{64, 1, 1};
  launch.grid = Dim3{3, 1, 1};
  launch.arguments = packed;
  launch.cancel = &cancel;
  std::thread stopper([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    cancel = true;
  });
  const auto start = std::chrono::steady_clock::now();
  sandbox::ptx::run(kernel, launch);
  stopper.join();
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}

TEST_CASE("Launch.SizesBeyondTheDeviceAreRefused") {
  Program program = Program::from_file("control.ptx");
  const DeviceArray<int> to(2048);
  for (const auto& shape :
       {threads(1, 1025), threads(1, 65), threads(0, 32), threads(1, 0), threads(1, 32, 1 << 20)}) {
    const auto fault = program.try_launch("bounded", shape, to.data());
    REQUIRE(fault);
    CHECK(fault->kind == FaultKind::invalid_launch);
  }
  program.launch("bounded", threads(1, 64), to.data());
}
