// CUB's warp and block algorithms give what the standard library gives.
#include <algorithm>
#include <numeric>
#include <random>

#include "program.h"
#include "support/catch.h"

using namespace ptx_test;
using u32 = std::uint32_t;

namespace {

const char* const kImages[] = {"cub.ptx", "cub_90.ptx"};
constexpr std::size_t kThreads = 128, kItems = 4, kTile = kThreads * kItems, kBlocks = 3;

std::vector<int> random_values(std::size_t count, int below = 2000001) {
  std::mt19937 random(21);
  std::vector<int> values(count);
  for (auto& value : values) value = static_cast<int>(random() % static_cast<u32>(below)) - below / 2;
  return values;
}

}  // namespace

TEST_CASE("Cub.BlockReduceByEveryAlgorithm") {
  const auto values = random_values(kTile * kBlocks);
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    const DeviceArray<int> from(values);
    for (const char* kernel :
         {"block_reduce_raking", "block_reduce_raking_commutative", "block_reduce_warps"}) {
      INFO(image << " " << kernel);
      const DeviceArray<int> to(kBlocks * 3);
      program.launch(kernel, threads(kBlocks, kThreads), from.data(), to.data());
      for (std::size_t block = 0; block < kBlocks; ++block) {
        const auto at = [&](std::size_t thread, std::size_t item) {
          return values[block * kTile + thread * kItems + item];
        };
        int sum = 0, largest = at(0, 0), partial = 0;
        for (std::size_t thread = 0; thread < kThreads; ++thread) {
          for (std::size_t item = 0; item < kItems; ++item) sum += at(thread, item);
          largest = std::max(largest, at(thread, 0));
          if (thread < 77) partial += at(thread, 1);
        }
        CHECK(to[block * 3] == sum);
        CHECK(to[block * 3 + 1] == largest);
        CHECK(to[block * 3 + 2] == partial);
      }
    }
  }
}

TEST_CASE("Cub.BlockScanByEveryAlgorithm") {
  const auto values = random_values(kTile * kBlocks);
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    const DeviceArray<int> from(values);
    for (const char* kernel : {"block_scan_raking", "block_scan_memoize", "block_scan_warps"}) {
      INFO(image << " " << kernel);
      const DeviceArray<int> to(kTile * kBlocks * 2);
      program.launch(kernel, threads(kBlocks, kThreads), from.data(), to.data());
      for (std::size_t block = 0; block < kBlocks; ++block) {
        int sum = 0, largest = -1000000;
        bool right = true;
        for (std::size_t at = block * kTile; at < (block + 1) * kTile; ++at) {
          right &= to[at] == (sum += values[at]);
          right &= to[kTile * kBlocks + at] == largest;
          largest = std::max(largest, values[at]);
        }
        CHECK(right);
      }
    }
  }
}

TEST_CASE("Cub.BlockSorts") {
  for (const char* image : kImages) {
    INFO(image);
    Program program = Program::from_file(image);
    std::mt19937 random(8);
    std::vector<u32> keys(kTile * kBlocks);
    std::vector<float> reals(keys.size());
    for (auto& key : keys) key = static_cast<u32>(random()) & 0xffff00ffu;
    for (auto& real : reals) real = static_cast<float>(static_cast<int>(random() % 20001) - 10000) / 16;
    const DeviceArray<u32> device_keys(keys);
    const DeviceArray<float> device_reals(reals);
    const DeviceArray<int> ranks(keys.size());
    program.launch("block_radix_sort", threads(kBlocks, kThreads), device_keys.data(), device_reals.data(),
                   ranks.data());
    for (std::size_t block = 0; block < kBlocks; ++block) {
      const auto begin = static_cast<std::ptrdiff_t>(block * kTile),
                 end = begin + static_cast<std::ptrdiff_t>(kTile);
      std::vector<int> order(kTile);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
        return keys[block * kTile + static_cast<std::size_t>(a)] <
               keys[block * kTile + static_cast<std::size_t>(b)];
      });
      CHECK(std::equal(order.begin(), order.end(), ranks.data() + begin));
      auto sorted = keys;
      std::sort(sorted.begin() + begin, sorted.begin() + end);
      CHECK(std::equal(sorted.begin() + begin, sorted.begin() + end, device_keys.data() + begin));
      auto descending = reals;
      std::sort(descending.begin() + begin, descending.begin() + end, std::greater<>());
      CHECK(std::equal(descending.begin() + begin, descending.begin() + end, device_reals.data() + begin));
    }
    auto values = random_values(kTile * kBlocks);
    const DeviceArray<int> merged(values);
    program.launch("block_merge_sort", threads(kBlocks, kThreads), merged.data());
    for (auto at = values.begin(); at != values.end(); at += kTile) std::sort(at, at + kTile);
    CHECK(merged.values() == values);
    auto warps = random_values(kTile);
    const DeviceArray<int> warp_sorted(warps);
    program.launch("warp_merge_sort", threads(1, kThreads), warp_sorted.data());
    for (auto at = warps.begin(); at != warps.end(); at += 32 * kItems) std::sort(at, at + 32 * kItems);
    CHECK(warp_sorted.values() == warps);
  }
}

TEST_CASE("Cub.WarpReduceAndScan") {
  const auto values = random_values(kThreads);
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    const DeviceArray<int> from(values), to(kThreads * 6);
    program.launch("warp_reduce_and_scan", threads(1, kThreads), from.data(), to.data());
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
      const std::size_t warp = thread / 32 * 32;
      int total = 0, before = 0;
      for (std::size_t at = warp; at < warp + 32; ++at) {
        total += values[at];
        if (at < thread) before += values[at];
      }
      const int* out = to.data() + thread * 6;
      REQUIRE(out[0] == (thread == warp ? total : 0));
      if (thread % 5 == 0) {
        int segment = values[thread];
        for (std::size_t at = thread + 1; at < warp + 32 && at % 5 != 0; ++at) segment += values[at];
        REQUIRE(out[1] == segment);
      }
      if (thread % 16 == 0) {
        const auto begin = values.begin() + static_cast<std::ptrdiff_t>(thread);
        REQUIRE(out[2] == static_cast<int>(static_cast<float>(*std::max_element(begin, begin + 16))));
      }
      REQUIRE(out[3] == before + values[thread]);
      REQUIRE(out[4] == before);
      REQUIRE(out[5] == total);
    }
  }
}

TEST_CASE("Cub.LoadsStoresAndExchanges") {
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    for (const char* kernel : {"move_direct", "move_striped", "move_vectorized", "move_transpose",
                               "move_warp_transpose", "move_warp_transpose_timesliced"})
      for (const std::size_t count :
           {kTile * kBlocks, kTile * (kBlocks - 1) + 101, kTile * (kBlocks - 1) + 1}) {
        INFO(image << " " << kernel << " " << count);
        const auto values = random_values(count);
        const DeviceArray<int> from(values), to(count, 0);
        program.launch(kernel, threads(kBlocks, kThreads), from.data(), to.data(), static_cast<int>(count));
        CHECK(to.values() == values);
      }
    auto values = random_values(kTile);
    const DeviceArray<int> from(values), to(kTile);
    program.launch("block_exchange", threads(1, kThreads), from.data(), to.data());
    for (std::size_t at = 0; at < kTile; ++at) values[at] += static_cast<int>(at % kItems);
    CHECK(to.values() == values);
  }
}

TEST_CASE("Cub.HistogramsDiscontinuitiesAndStructures") {
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    std::mt19937 random(31);
    std::vector<unsigned char> bytes(kTile);
    std::vector<u32> expected(256);
    for (auto& byte : bytes) ++expected[byte = static_cast<unsigned char>(random() & random())];
    const DeviceArray<unsigned char> from(bytes);
    for (const char* kernel : {"block_histogram_sort", "block_histogram_atomic"}) {
      INFO(image << " " << kernel);
      const DeviceArray<u32> bins(256);
      program.launch(kernel, threads(1, kThreads), from.data(), bins.data());
      CHECK(bins.values() == expected);
    }
    const auto few = random_values(kTile, 3);
    const DeviceArray<int> runs(few), heads(kTile);
    program.launch("block_discontinuity", threads(1, kThreads), runs.data(), heads.data());
    for (std::size_t at = 0; at < kTile; ++at)
      REQUIRE(heads[at] == (at == 0 || few[at] != few[at - 1] ? 1 : 0));

    struct Extremes {
      float low, high;
      int count;
    };
    std::vector<float> reals(kThreads * kBlocks);
    for (auto& real : reals) real = static_cast<float>(random() % 100000) - 50000;
    const DeviceArray<float> device_reals(reals);
    const DeviceArray<Extremes> extremes(kBlocks);
    program.launch("block_reduce_structures", threads(kBlocks, kThreads), device_reals.data(),
                   extremes.data());
    for (std::size_t block = 0; block < kBlocks; ++block) {
      const auto begin = reals.begin() + static_cast<std::ptrdiff_t>(block * kThreads),
                 end = begin + kThreads;
      CHECK(extremes[block].low == *std::min_element(begin, end));
      CHECK(extremes[block].high == *std::max_element(begin, end));
      CHECK(extremes[block].count == static_cast<int>(kThreads));
    }
  }
}
