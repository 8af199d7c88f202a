// Atomics of every type from many blocks; spinning warps and lanes make progress.
#include <algorithm>
#include <limits>
#include <random>

#include "binary_format.h"
#include "program.h"
#include "support/catch.h"

using namespace ptx_test;
using u32 = std::uint32_t;

namespace {

struct Totals {
  int sum = 0, minimum = std::numeric_limits<int>::max(), maximum = std::numeric_limits<int>::min(),
      exchanged = 0;
  u32 all = ~0u, any = 0, parity = 0, wrapped_up = 0, wrapped_down = 0, minimum_unsigned = ~0u,
      maximum_unsigned = 0;
  float float_sum = 0;
  double double_sum = 0;
  unsigned long long long_sum = 0, long_maximum = 0;
  long long long_minimum = std::numeric_limits<long long>::max();
  unsigned long long long_any = 0;
  u32 swaps = 0;
};

const char* const kImages[] = {"atomics.ptx", "atomics_90.ptx", "atomics_debug.ptx"};

}  // namespace

TEST_CASE("Atomics.EveryKindFromManyBlocks") {
  std::mt19937 random(5);
  std::vector<int> values(40 * 96);
  for (auto& value : values) value = static_cast<int>(random() & 0xffff) - 30000;
  Totals expected;
  for (const int value : values) {
    const u32 word = static_cast<u32>(value);
    expected.sum += value;
    expected.minimum = std::min(expected.minimum, value);
    expected.maximum = std::max(expected.maximum, value);
    expected.all &= word | 0xff000000u;
    expected.any |= word;
    expected.parity ^= word;
    expected.wrapped_up = expected.wrapped_up >= 6 ? 0 : expected.wrapped_up + 1;
    expected.wrapped_down =
        expected.wrapped_down == 0 || expected.wrapped_down > 9 ? 9 : expected.wrapped_down - 1;
    expected.minimum_unsigned = std::min(expected.minimum_unsigned, word);
    expected.maximum_unsigned = std::max(expected.maximum_unsigned, word);
    expected.float_sum += static_cast<float>(value & 1023);
    expected.double_sum += value;
    const auto wide = static_cast<unsigned long long>(value & 0x7fffffff) << 20;
    expected.long_sum += wide;
    expected.long_maximum = std::max(expected.long_maximum, wide);
    expected.long_minimum = std::min(expected.long_minimum, static_cast<long long>(value) * (1 << 20));
    expected.long_any |= 1ull << (value & 63);
    expected.swaps += 3;
  }
  for (const char* image : kImages) {
    INFO(image);
    Program program = Program::from_file(image);
    const DeviceArray<int> input(values);
    const DeviceArray<Totals> totals(1, Totals{});
    program.launch("all_kinds", threads(40, 96), totals.data(), input.data());
    const Totals& actual = totals[0];
    CHECK(actual.sum == expected.sum);
    CHECK(actual.minimum == expected.minimum);
    CHECK(actual.maximum == expected.maximum);
    CHECK(std::find(values.begin(), values.end(), actual.exchanged) != values.end());
    CHECK(actual.all == expected.all);
    CHECK(actual.any == expected.any);
    CHECK(actual.parity == expected.parity);
    CHECK(actual.wrapped_up == expected.wrapped_up);
    CHECK(actual.wrapped_down == expected.wrapped_down);
    CHECK(actual.minimum_unsigned == expected.minimum_unsigned);
    CHECK(actual.maximum_unsigned == expected.maximum_unsigned);
    CHECK(actual.float_sum == expected.float_sum);
    CHECK(actual.double_sum == expected.double_sum);
    CHECK(actual.long_sum == expected.long_sum);
    CHECK(actual.long_maximum == expected.long_maximum);
    CHECK(actual.long_minimum == expected.long_minimum);
    CHECK(actual.long_any == expected.long_any);
    CHECK(actual.swaps == expected.swaps);
  }
}

TEST_CASE("Atomics.TicketsAreHandedOutOnce") {
  Program program = Program::from_file("atomics.ptx");
  const u32 count = 50 * 128;
  const DeviceArray<u32> next(1, 0u), taken(count, 0u);
  program.launch("take_tickets", threads(50, 128), next.data(), taken.data());
  CHECK(next[0] == count);
  CHECK(taken.values() == std::vector<u32>(count, 1));
}

TEST_CASE("Atomics.SixteenBitFloatsAndWords") {
  for (const char* image : kImages) {
    INFO(image);
    Program program = Program::from_file(image);
    const DeviceArray<u32> halves(1, 0u), brains(1, 0u);
    const DeviceArray<std::uint16_t> alone(2, std::uint16_t{0}), swaps(2, std::uint16_t{0});
    program.launch("half_sums", threads(4, 32), halves.data(), brains.data(), alone.data() + 1,
                   swaps.data() + 1);
    CHECK(decode(halves[0] & 0xffff, kF16) == 128);
    CHECK(decode(halves[0] >> 16, kF16) == 256);
    CHECK(decode(brains[0] & 0xffff, kBf16) == 128);
    CHECK(decode(brains[0] >> 16, kBf16) == 64);
    CHECK(decode(alone[1], kF16) == 32);
    CHECK(alone[0] == 0);
    CHECK(swaps[1] == 128);
    CHECK(swaps[0] == 0);
  }
}

TEST_CASE("Atomics.SharedHistogramCountsEveryValue") {
  Program program = Program::from_file("atomics.ptx");
  std::mt19937 random(6);
  std::vector<unsigned char> values(20000);
  std::vector<u32> expected(256);
  for (auto& value : values) ++expected[value = static_cast<unsigned char>(random() & random())];
  const DeviceArray<unsigned char> input(values);
  const DeviceArray<u32> bins(256, 0u);
  program.launch("shared_histogram", threads(7, 256), input.data(), bins.data(),
                 static_cast<int>(values.size()));
  CHECK(bins.values() == expected);
}

TEST_CASE("Atomics.TheLastBlockSeesAllOthersSums") {
  Program program = Program::from_file("atomics.ptx");
  const DeviceArray<int> values(10000, 3), partial(30), total(1, 0);
  const DeviceArray<u32> arrived(1, 0u);
  program.launch("last_block_sums", threads(30, 128), values.data(), partial.data(), arrived.data(),
                 total.data(), 10000);
  CHECK(total[0] == 30000);
}

TEST_CASE("Progress.BlocksWaitForEachOtherByVolatileReads") {
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    const DeviceArray<u32> turn(1, 0u), order(16, 0u);
    program.launch("pass_token", threads(16, 32), turn.data(), order.data());
    for (u32 at = 0; at < 16; ++at) REQUIRE(order[at] == at + 1);
  }
}

TEST_CASE("Progress.EarlierBlocksWaitForLaterOnesByAcquire") {
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    const DeviceArray<u32> turn(1, 0u), payload(1, 1u), seen(16, 0u);
    program.launch("pass_token_back", threads(16, 32), turn.data(), payload.data(), seen.data());
    for (u32 at = 0; at < 16; ++at) REQUIRE(seen[at] == (at == 0 ? 1 : (at - 1) * 10 + 7));
  }
}

TEST_CASE("Progress.GridBarriersHoldEveryBlock") {
  Program program = Program::from_file("atomics.ptx");
  const DeviceArray<u32> arrived(1, 0u), cells(12, 0u), wrong(1, 0u);
  program.launch("grid_barrier", threads(12, 64), arrived.data(), cells.data(), 5, wrong.data());
  CHECK(wrong[0] == 0);
  CHECK(arrived[0] == 12 * 10);
}

TEST_CASE("Progress.LanesOfAWarpTakeALockInTurn") {
  for (const char* image : kImages) {
    Program program = Program::from_file(image);
    for (const char* kernel : {"lane_locks", "lane_locks_after_loop"}) {
      INFO(image << " " << kernel);
      const DeviceArray<int> lock(1, 0), guarded(1, 0);
      program.launch(kernel, threads(3, 64), lock.data(), guarded.data());
      CHECK(guarded[0] == 192);
      CHECK(lock[0] == 0);
    }
  }
}
