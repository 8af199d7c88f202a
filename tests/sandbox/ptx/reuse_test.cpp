// What blocks remember from one launch to the next, allocations and special registers, is never stale.
#include <array>
#include <atomic>
#include <thread>

#include "program.h"
#include "sandbox/ptx/memory_range.h"
#include "support/catch.h"

using namespace ptx_test;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const DeviceArray<int>& ascending() {
  static const DeviceArray<int> index([] {
    std::vector<int> values(64);
    for (int at = 0; at < 64; ++at) values[static_cast<std::size_t>(at)] = at;
    return values;
  }());
  return index;
}

}  // namespace

TEST_CASE("Reuse.MemoryFreedBetweenLaunchesIsNotRead") {
  Program program = Program::from_file("access.ptx");
  DeviceArray<std::uint32_t> to(64, 0u);
  for (const char* kernel : {"gather_b32", "gather_odd_b32", "gather_volatile"})
    for (const unsigned block : {32u, 20u}) {  // whole warps, and parts of them
      INFO(kernel << " " << block);
      auto from = std::make_unique<DeviceArray<std::uint32_t>>(64, 1u);
      const auto launch = [&, address = from->data()] {
        return program.try_launch(kernel, threads(2, block), address, to.data(), ascending().data());
      };
      for (int repeat = 0; repeat < 3; ++repeat) CHECK_FALSE(launch());
      from.reset();
      const auto fault = launch();
      REQUIRE(fault);
      CHECK(contains(fault->message, "use after free"));
    }
}

TEST_CASE("Reuse.MemoryFreedBetweenLaunchesIsNotWritten") {
  Program program = Program::from_file("access.ptx");
  const DeviceArray<std::uint32_t> from(64, 1u);
  auto to = std::make_unique<DeviceArray<std::uint32_t>>(64, 0u);
  const auto launch = [&, address = to->data()] {
    return program.try_launch("scatter_b32", threads(2, 32), from.data(), address, ascending().data());
  };
  for (int repeat = 0; repeat < 3; ++repeat) CHECK_FALSE(launch());
  to.reset();
  const auto fault = launch();
  REQUIRE(fault);
  CHECK(contains(fault->message, "use after free"));
}

TEST_CASE("Reuse.MemoryFreedWhileAKernelRunsIsNotRead") {
  Program program = Program::from_file("access.ptx");
  for (const unsigned block : {32u, 9u}) {
    for (const bool release : {false, true}) {
      auto from = std::make_unique<DeviceArray<std::uint32_t>>(64, 21u);
      DeviceArray<std::uint32_t> to(64, 0u), told(1, 0u), go(1, 0u);
      std::thread host([&, flag = told.data(), answer = go.data(), &from = from] {
        while (std::atomic_ref(*flag).load() == 0) std::this_thread::yield();
        if (release) AddressSpace::instance().release(from->data());
        std::atomic_ref(*answer).store(1);
      });
      const auto fault = program.try_launch("read_around_a_pause", threads(1, block), from->data(), to.data(),
                                            told.data(), go.data());
      host.join();
      CHECK(fault.has_value() == release);
      if (fault) CHECK(contains(fault->message, "use after free"));
      if (!fault) CHECK(to[block - 1] == 42);
    }
  }
}

TEST_CASE("Reuse.ARecordUsedAgainIsAnotherAllocation") {
  Program program = Program::from_file("access.ptx");
  AddressSpace& space = AddressSpace::instance();
  constexpr std::size_t kBytes = 1 << 17;
  DeviceArray<std::uint32_t> to(64, 0u);
  auto* stale = static_cast<std::uint32_t*>(space.allocate(kBytes, 0, MemoryKind::device));
  space.mark_written(stale, kBytes);
  const auto launch = [&] {
    return program.try_launch("gather_b32", threads(2, 32), stale, to.data(), ascending().data());
  };
  CHECK_FALSE(launch());
  const auto* record = space.range(reinterpret_cast<std::uintptr_t>(stale));
  space.release(stale);
  // Until the record is in use again: for more memory than fits where the old memory was.
  void* other = nullptr;
  bool reused = false;
  for (int attempt = 0; attempt < 20000 && !reused; ++attempt) {
    other = space.allocate(4 * kBytes, 0, MemoryKind::device);
    REQUIRE(other != nullptr);
    space.mark_written(other, 4 * kBytes);
    reused = space.range(reinterpret_cast<std::uintptr_t>(other)) == record;
    if (!reused) space.release(other);
  }
  REQUIRE(reused);
  // Where the system has put it over the old memory, the read is allowed: that is rare.
  const bool alive = space.find(stale) && space.find(stale)->alive;
  CHECK(launch().has_value() == !alive);
  space.release(other);
}

TEST_CASE("Reuse.WhatIsUnwrittenAgainIsNotRead") {
  Program program = Program::from_file("access.ptx");
  DeviceArray<std::uint32_t> to(64, 0u);
  const DeviceArray<std::uint32_t> from(64, 1u);
  const auto launch = [&] {
    return program.try_launch("gather_b32", threads(2, 32), from.data(), to.data(), ascending().data());
  };
  CHECK_FALSE(launch());
  AddressSpace::instance().mark_unwritten(from.data() + 40, 4);
  const auto fault = launch();
  REQUIRE(fault);
  CHECK(contains(fault->message, "block (1,0,0), thread (8,0,0)"));
  AddressSpace::instance().mark_written(from.data() + 40, 4);
  CHECK_FALSE(launch());
}

TEST_CASE("Reuse.ThreadsAreToldTheTruthInEveryBlockOfEveryLaunch") {
  Program program = Program::from_file("access.ptx");
  struct Case {
    Dim3 grid, block;
    unsigned shared_bytes;
  };
  // The same number of threads, so that the same blocks are used again.
  const Case cases[] = {{{8, 1, 1}, {96, 1, 1}, 0},  {{2, 3, 4}, {96, 1, 1}, 64}, {{2, 3, 4}, {32, 3, 1}, 64},
                        {{1, 1, 1}, {4, 6, 4}, 128}, {{5, 1, 2}, {4, 6, 4}, 0},   {{8, 1, 1}, {96, 1, 1}, 4},
                        {{70, 1, 1}, {96, 1, 1}, 0}, {{1, 70, 1}, {1, 96, 1}, 0}};
  for (int repeat = 0; repeat < 2; ++repeat)
    for (const Case& each : cases) {
      const Dim3 g = each.grid, b = each.block;
      const std::size_t count = std::size_t{g.x} * g.y * g.z * b.x * b.y * b.z;
      DeviceArray<std::uint32_t> to(count * 16, 0u);
      program.launch("describe_thread", {g, b, each.shared_bytes}, to.data());
      std::size_t at = 0;
      bool same = true;
      for (unsigned gz = 0; gz < g.z; ++gz)
        for (unsigned gy = 0; gy < g.y; ++gy)
          for (unsigned gx = 0; gx < g.x; ++gx)
            for (unsigned thread = 0; thread < 96; ++thread, ++at) {
              const std::array<std::uint32_t, 16> expected = {thread % b.x,
                                                              thread / b.x % b.y,
                                                              thread / b.x / b.y,
                                                              b.x,
                                                              b.y,
                                                              b.z,
                                                              gx,
                                                              gy,
                                                              gz,
                                                              g.x,
                                                              g.y,
                                                              g.z,
                                                              each.shared_bytes,
                                                              3,
                                                              thread % 32,
                                                              thread / 32};
              same = same && std::equal(expected.begin(), expected.end(), to.data() + at * 16);
            }
      CHECK(same);
    }
}
