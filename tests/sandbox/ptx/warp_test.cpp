// Shuffles, votes, matches, reductions and masks of a warp equal their definition.
#include <algorithm>
#include <random>

#include "program.h"
#include "support/catch.h"

using namespace ptx_test;
using u32 = std::uint32_t;

namespace {

const char* const kImages[] = {"warp.ptx", "warp_90.ptx", "warp_debug.ptx"};

std::vector<int> random_values(std::size_t count, int below) {
  std::mt19937 random(9);
  std::vector<int> values(count);
  for (auto& value : values) value = static_cast<int>(random() % static_cast<u32>(below));
  return values;
}

}  // namespace

TEST_CASE("Warp.ShufflesOfEveryKindWidthAndDistance") {
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    const auto values = random_values(64, 1000);
    const DeviceArray<int> from(values), to(64 * 4);
    for (const int width : {32, 16, 8, 4, 2, 1})
      for (const int amount : {0, 1, 3, 7, 16, 31}) {
        program.launch("shuffles", threads(1, 64), from.data(), to.data(), width, amount);
        for (int thread = 0; thread < 64; ++thread) {
          const int lane = thread % 32, base = lane / width * width, offset = lane % width;
          const auto at = [&](int source) {
            return values[static_cast<std::size_t>(thread - lane + source)];
          };
          const int* out = to.data() + thread * 4;
          REQUIRE(out[0] == at(base + (amount & (width - 1))));
          REQUIRE(out[1] == at(offset >= amount ? lane - amount : lane));
          REQUIRE(out[2] == at(offset + amount < width ? lane + amount : lane));
          // The butterfly reads backwards out of its segment but never forwards.
          REQUIRE(out[3] == at((lane ^ amount) < base + width ? lane ^ amount : lane));
        }
      }
  }
}

TEST_CASE("Warp.ShufflesSayWhetherTheSourceWasInRange") {
  Program program = Program::from_file("warp.ptx");
  const DeviceArray<int> to(32 * 4);
  for (const int amount : {0, 1, 5, 31}) {
    program.launch("shuffle_predicates", threads(1, 32), to.data(), 31, amount);
    for (int lane = 0; lane < 32; ++lane) {
      const int* out = to.data() + lane * 4;
      REQUIRE(out[1] == (lane >= amount ? 1 : 0));
      REQUIRE(out[0] == (lane >= amount ? lane - amount : lane));
      REQUIRE(out[3] == (lane + amount < 32 ? 1 : 0));
      REQUIRE(out[2] == (lane + amount < 32 ? lane + amount : lane));
    }
  }
}

TEST_CASE("Warp.WideShufflesTakeAnyLane") {
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    const auto lanes = random_values(32, 32);
    std::vector<double> values(32);
    for (std::size_t at = 0; at < 32; ++at) values[at] = 1.0 / static_cast<double>(at + 1);
    const DeviceArray<double> from(values), to(32);
    const DeviceArray<int> sources(lanes);
    program.launch("shuffle_wide", threads(1, 32), from.data(), to.data(), sources.data());
    for (std::size_t at = 0; at < 32; ++at) REQUIRE(to[at] == values[static_cast<std::size_t>(lanes[at])]);
  }
}

TEST_CASE("Warp.VotesAndMatches") {
  for (const char* image : kImages) {
    INFO(image);
    Program program = Program::from_file(image);
    auto values = random_values(128, 400);
    values[40] = 1000;
    std::fill(values.begin() + 64, values.begin() + 96, 10);
    std::fill(values.begin() + 96, values.end(), 600);  // all lanes say no
    const DeviceArray<int> from(values);
    const DeviceArray<u32> to(128 * 8);
    program.launch("votes", threads(1, 128), from.data(), to.data());
    for (u32 thread = 0; thread < 128; ++thread) {
      const u32 warp = thread / 32 * 32;
      u32 odd = 0, same_mod5 = 0, same_mod3 = 0;
      bool any = false, all = true, equal = true;
      for (u32 lane = 0; lane < 32; ++lane) {
        const int value = values[warp + lane];
        odd |= (value & 1 ? 1u : 0u) << lane;
        any |= value == 1000;
        all &= value < 500;
        same_mod5 |= (value % 5 == values[thread] % 5 ? 1u : 0u) << lane;
        same_mod3 |= (value % 3 == values[thread] % 3 ? 1u : 0u) << lane;
        equal &= value % 5 == values[warp] % 5;
      }
      const u32* out = to.data() + thread * 8;
      REQUIRE(out[0] == odd);
      REQUIRE(out[1] == u32{any});
      REQUIRE(out[2] == u32{all});
      REQUIRE(out[3] == same_mod5);
      REQUIRE(out[4] == (equal ? 0xffffffffu + 1u : 0u));
      REQUIRE(out[5] == 0xffffffffu + 1u);
      REQUIRE(out[6] == same_mod3);
      REQUIRE(out[7] == u32{all || warp == 96});
    }
  }
}

TEST_CASE("Warp.PartialMasksNameOnlyTheirLanes") {
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    const DeviceArray<u32> to(32);
    program.launch("partial_masks", threads(1, 32), to.data());
    for (u32 lane = 0; lane < 32; ++lane)
      REQUIRE(to[lane] == (lane % 4 == 0 ? 0x11111000u : 0x11111111u << (lane % 4)));
  }
}

TEST_CASE("Warp.Reductions") {
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    std::mt19937 random(12);
    std::vector<int> values(64);
    for (auto& value : values) value = static_cast<int>(random());
    const DeviceArray<int> from(values), to(64 * 8);
    program.launch("reductions", threads(1, 64), from.data(), to.data());
    for (std::size_t thread = 0; thread < 64; ++thread) {
      const auto begin = values.begin() + static_cast<std::ptrdiff_t>(thread / 32 * 32), end = begin + 32;
      u32 sum = 0, all = ~0u, any = 0, parity = 0, least = ~0u, most = 0;
      for (auto at = begin; at != end; ++at) {
        const u32 bits = static_cast<u32>(*at);
        sum += bits;
        all &= bits;
        any |= bits;
        parity ^= bits;
        least = std::min(least, bits);
        most = std::max(most, bits);
      }
      const int* out = to.data() + thread * 8;
      REQUIRE(static_cast<u32>(out[0]) == sum);
      REQUIRE(out[1] == *std::min_element(begin, end));
      REQUIRE(out[2] == *std::max_element(begin, end));
      REQUIRE(static_cast<u32>(out[3]) == least);
      REQUIRE(static_cast<u32>(out[4]) == most);
      REQUIRE(static_cast<u32>(out[5]) == all);
      REQUIRE(static_cast<u32>(out[6]) == any);
      REQUIRE(static_cast<u32>(out[7]) == parity);
    }
  }
}

TEST_CASE("Warp.LaneMasksAndActiveMask") {
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    const DeviceArray<u32> to(40 * 6);
    program.launch("masks", threads(1, 40), to.data());
    for (u32 thread = 0; thread < 40; ++thread) {
      const u32 lane = thread % 32, bit = 1u << lane;
      const u32* out = to.data() + thread * 6;
      REQUIRE(out[0] == bit);
      REQUIRE(out[1] == bit - 1);
      REQUIRE(out[2] == ((bit - 1) | bit));
      REQUIRE(out[3] == ~((bit - 1) | bit));
      REQUIRE(out[4] == ~(bit - 1));
      u32 active = 0;
      for (u32 other = thread / 32 * 32; other < std::min(40u, thread / 32 * 32 + 32); ++other)
        if (other % 3 == 1) active |= 1u << (other % 32);
      REQUIRE(out[5] == (thread % 3 == 1 ? active : 0));
    }
  }
}

TEST_CASE("Warp.CooperativeGroups") {
  for (const char* image : kImages) {
    INFO(image);
    Program program = Program::from_file(image);
    const auto values = random_values(64, 100);
    const DeviceArray<int> from(values), to(64 * 3);
    program.launch("tiles", threads(1, 64), from.data(), to.data());
    for (std::size_t thread = 0; thread < 64; ++thread) {
      int sum = 0, odd_before = 0, odd = 0;
      for (std::size_t at = thread / 8 * 8; at < thread / 8 * 8 + 8; ++at) sum += values[at];
      for (std::size_t at = thread / 32 * 32; at < thread / 32 * 32 + 32; ++at) {
        if (values[at] % 2 == 0) continue;
        ++odd;
        if (at < thread) ++odd_before;
      }
      REQUIRE(to[thread * 3] == sum);
      REQUIRE(to[thread * 3 + 1] == values[thread ^ 3]);
      REQUIRE(to[thread * 3 + 2] == 100000 + (values[thread] % 2 ? odd_before * 100 + odd : 0));
    }
  }
}

TEST_CASE("Warp.ClocksAdvance") {
  Program program = Program::from_file("warp.ptx");
  const DeviceArray<long long> to(64);
  program.launch("clocks", threads(1, 32), to.data());
  CHECK(to[0] > 0);
  CHECK(to[1] >= 1000);
}
