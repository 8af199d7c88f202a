// Loads and stores move the right bytes and are checked to the byte, however the lanes' addresses lie.
#include <algorithm>
#include <numeric>
#include <random>

#include "program.h"
#include "support/catch.h"

using namespace ptx_test;

namespace {

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

struct Pattern {
  std::string name;
  std::vector<int> index;
};

/// Index arrays of `count` lanes into `range` elements; distinct ones only, if a store must be foreseeable.
std::vector<Pattern> patterns(int count, int range, bool distinct) {
  std::vector<Pattern> result;
  const auto add = [&](const std::string& name, auto function) {
    Pattern pattern{name, {}};
    for (int at = 0; at < count; ++at) {
      const int index = function(at);
      if (index < 0 || index >= range) return;
      pattern.index.push_back(index);
    }
    result.push_back(std::move(pattern));
  };
  for (const int step : {1, 2, 3, 4, 7})
    add("step " + std::to_string(step), [&](int at) { return at * step + 1; });
  add("descending", [&](int at) { return count - 1 - at; });
  add("one lane elsewhere", [&](int at) { return at % 32 == 17 ? range - 1 - at / 32 : at; });
  add("two halves", [&](int at) { return at % 32 < 16 ? at : at + count; });
  std::vector<int> order(static_cast<std::size_t>(range));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), std::mt19937(3));
  add("shuffled", [&](int at) { return order[static_cast<std::size_t>(at)]; });
  if (!distinct) {
    add("all the same", [](int) { return 5; });
    add("pairs", [](int at) { return at / 2; });
    add("random", [&](int at) { return order[static_cast<std::size_t>(at)] / 3; });
  }
  return result;
}

template <class T>
std::vector<T> numbers(std::size_t count) {
  std::vector<T> values(count);
  auto* words = reinterpret_cast<unsigned char*>(values.data());
  for (std::size_t at = 0; at < count * sizeof(T); ++at)
    words[at] = static_cast<unsigned char>(at * 2654435761u >> 13);
  return values;
}

struct Quad {
  std::uint32_t x, y, z, w;
  bool operator==(const Quad&) const = default;
};

template <class T>
void check_patterns(const std::string& type) {
  Program program = Program::from_file("access.ptx");
  for (const unsigned block : {32u, 33u, 96u, 7u}) {
    const int count = static_cast<int>(block) * 2, range = 1000;
    const auto size = static_cast<std::size_t>(count);
    const std::vector<T> values = numbers<T>(static_cast<std::size_t>(range));
    const DeviceArray<T> from(values);
    for (const Pattern& pattern : patterns(count, range, false)) {
      INFO(type << " " << pattern.name << " block " << block);
      const DeviceArray<int> index(pattern.index);
      std::vector<T> expected(size, T{});
      DeviceArray<T> to(expected);
      for (std::size_t at = 1; at < size; at += 2)
        expected[at] = values[static_cast<std::size_t>(pattern.index[at])];
      program.launch("gather_odd_" + type, threads(2, block), from.data(), to.data(), index.data());
      CHECK(to.values() == expected);
      for (std::size_t at = 0; at < size; ++at)
        expected[at] = values[static_cast<std::size_t>(pattern.index[at])];
      program.launch("gather_" + type, threads(2, block), from.data(), to.data(), index.data());
      CHECK(to.values() == expected);
    }
    for (const Pattern& pattern : patterns(count, range, true)) {
      INFO(type << " " << pattern.name << " block " << block);
      const DeviceArray<int> index(pattern.index);
      std::vector<T> expected(values.size(), T{});
      DeviceArray<T> to(expected);
      for (std::size_t at = 0; at < size; ++at)
        expected[static_cast<std::size_t>(pattern.index[at])] = values[at];
      program.launch("scatter_" + type, threads(2, block), from.data(), to.data(), index.data());
      CHECK(to.values() == expected);
    }
    const int cells = static_cast<int>(4096 / sizeof(T));
    for (const Pattern& pattern : patterns(static_cast<int>(block), cells, true)) {
      INFO(type << " shared " << pattern.name << " block " << block);
      const DeviceArray<int> index(pattern.index);
      DeviceArray<T> to(std::vector<T>(block, T{}));
      program.launch("through_shared_" + type, threads(1, block), from.data(), to.data(), index.data());
      CHECK(to.values() == std::vector<T>(values.begin(), values.begin() + block));
    }
  }
}

}  // namespace

TEST_CASE("Access.EveryPatternMovesTheRightElements") {
  check_patterns<std::uint8_t>("b8");
  check_patterns<std::uint16_t>("b16");
  check_patterns<std::uint32_t>("b32");
  check_patterns<std::uint64_t>("b64");
  check_patterns<std::uint64_t>("pairs");
  check_patterns<Quad>("b128");
}

TEST_CASE("Access.LanesOfOneStoreEndInTheirOrder") {
  Program program = Program::from_file("access.ptx");
  const std::vector<Quad> values = numbers<Quad>(32);
  const DeviceArray<Quad> from(values);
  DeviceArray<Quad> to(std::vector<Quad>(40, Quad{}));
  program.launch("scatter_b128", threads(1, 32), from.data(), to.data(),
                 DeviceArray<int>(std::vector<int>(32, 9)).data());
  CHECK(to.values()[9] == values[31]);
}

TEST_CASE("Access.SectorsOfAPatternAreThoseItTouches") {
  Program program = Program::from_file("access.ptx");
  const DeviceArray<std::uint32_t> from(2000, 1u);
  for (const Pattern& pattern : patterns(32, 1000, false)) {
    INFO(pattern.name);
    const DeviceArray<int> index(pattern.index);
    DeviceArray<std::uint32_t> to(32, 0u);
    sandbox::ptx::reset_counters();
    program.launch("gather_b32", threads(1, 32), from.data(), to.data(), index.data());
    std::vector<int> sectors;
    for (const int at : pattern.index) sectors.push_back(at / 8);
    std::sort(sectors.begin(), sectors.end());
    const auto distinct = std::unique(sectors.begin(), sectors.end()) - sectors.begin();
    CHECK(sandbox::ptx::counters().at(0).global_sectors == static_cast<std::uint64_t>(distinct) + 4 + 4);
    CHECK(sandbox::ptx::counters().at(0).global_requests == 3);
  }
}

TEST_CASE("Access.EachLaneOfARowIsChecked") {
  Program program = Program::from_file("access.ptx");
  const DeviceArray<std::uint32_t> from(150, 1u);
  const DeviceArray<std::uint32_t> to(200);
  const auto fault_at = [&](const std::string& kernel, std::vector<int> index) {
    const DeviceArray<int> places(index);
    const auto fault = program.try_launch(kernel, threads(1, 32), from.data(), to.data(), places.data());
    return fault ? fault->message : std::string();
  };
  std::vector<int> row(32);
  for (const int step : {1, 2, 3, 4}) {
    for (int lane = 0; lane < 32; ++lane) row[static_cast<std::size_t>(lane)] = (lane - 31) * step + 149;
    CHECK(fault_at("gather_b32", row).empty());
    for (int& index : row) ++index;
    CHECK(contains(fault_at("gather_b32", row), "(31,0,0)"));
    const int below = row[0] + 1;
    for (int& index : row) index -= below;
    CHECK(contains(fault_at("gather_b32", row), "(0,0,0)"));
    CHECK(contains(fault_at("scatter_b32", row), "(0,0,0)"));
  }
}

TEST_CASE("Access.OnlyTheBytesThatAStoreHasWrittenAreWritten") {
  Program program = Program::from_file("access.ptx");
  for (const int step : {1, 2, 5}) {
    const DeviceArray<std::uint32_t> source(32, 3u);
    const DeviceArray<std::uint32_t> memory(400);  // never written
    DeviceArray<std::uint32_t> to(32, 0u);
    std::vector<int> row(32);
    for (int lane = 0; lane < 32; ++lane) row[static_cast<std::size_t>(lane)] = 100 + lane * step;
    const DeviceArray<int> index(row);
    const auto read = [&](const std::vector<int>& places) {
      const DeviceArray<int> from(places);
      return program.try_launch("gather_b32", threads(1, 32), memory.data(), to.data(), from.data());
    };
    REQUIRE(read(row));
    program.launch("scatter_b32", threads(1, 32), source.data(), memory.data(), index.data());
    CHECK_FALSE(read(row));
    CHECK(to.values() == std::vector<std::uint32_t>(32, 3u));
    for (const int lane : {0, 13, 31}) {  // a neighbour of what was written
      auto other = row;
      other[static_cast<std::size_t>(lane)] = lane == 31  ? row[31] + 1
                                              : lane == 0 ? 99
                                                          : row[13] + (step == 1 ? 99 : 1);
      const auto fault = read(other);
      REQUIRE(fault);
      CHECK(contains(fault->message, "(" + std::to_string(lane) + ",0,0)"));
      CHECK(contains(fault->message, "uninitialized"));
    }
    if (step > 1) {  // a row between the written words
      auto between = row;
      for (int& place : between) ++place;
      CHECK(read(between));
    }
  }
}

TEST_CASE("Access.LanesInSeveralAllocationsAreEachChecked") {
  Program program = Program::from_file("access.ptx");
  DeviceArray<std::uint32_t> to(32, 0u);
  const DeviceArray<std::uint32_t> first(1000, 1u);
  auto second = std::make_unique<DeviceArray<std::uint32_t>>(1000, 2u);
  const auto distance = static_cast<int>(second->data() - first.data());
  std::vector<int> both(32);
  for (int lane = 0; lane < 32; ++lane)
    both[static_cast<std::size_t>(lane)] = lane < 20 ? lane : distance + lane;
  const DeviceArray<int> index(both);
  const auto read = [&] {
    return program.try_launch("gather_b32", threads(1, 32), first.data(), to.data(), index.data());
  };
  CHECK_FALSE(read());
  CHECK(to[19] == 1);
  CHECK(to[20] == 2);
  // A row from one allocation into the other passes through what belongs to nobody.
  std::vector<int> across(32);
  for (int lane = 0; lane < 32; ++lane) across[static_cast<std::size_t>(lane)] = lane * (distance / 31);
  const DeviceArray<int> crossing(across);
  CHECK(program.try_launch("gather_b32", threads(1, 32), first.data(), to.data(), crossing.data()));
  AddressSpace::instance().mark_unwritten(second->data() + 25, 4);
  auto fault = read();
  REQUIRE(fault);
  CHECK(contains(fault->message, "(25,0,0)"));
  CHECK(contains(fault->message, "uninitialized"));
  second.reset();
  fault = read();
  REQUIRE(fault);
  CHECK(contains(fault->message, "(20,0,0)"));
  CHECK(contains(fault->message, "free"));
}

TEST_CASE("Access.TheEndOfTheAddressSpaceIsOutOfBounds") {
  Program program = Program::from_file("access.ptx");
  const DeviceArray<std::uint32_t> valid(64, 1u);
  DeviceArray<std::uint32_t> to(32, 0u);
  const DeviceArray<int> zeros(32, 0);
  std::vector<int> ascending(32);
  std::iota(ascending.begin(), ascending.end(), 0);
  const DeviceArray<int> row(ascending);
  // Warm what is remembered with accesses that are allowed.
  program.launch("gather_b32", threads(1, 32), valid.data(), to.data(), row.data());
  for (const std::uintptr_t words : {1, 4, 31, 32}) {
    const auto* last = reinterpret_cast<const std::uint32_t*>(std::uintptr_t{0} - 4 * words);
    for (const auto* index : {zeros.data(), row.data()}) {
      const auto fault = program.try_launch("gather_b32", threads(1, 32), last, to.data(), index);
      REQUIRE(fault);
      CHECK(fault->kind == FaultKind::illegal_address);
    }
    CHECK(program.try_launch("gather_b32", threads(1, 1), last, to.data(), zeros.data()));
  }
}
