// Every memory space, access width, cache hint and initialized variable works.
#include <algorithm>
#include <numeric>
#include <random>

#include "program.h"
#include "support/catch.h"

using namespace ptx_test;
using u32 = std::uint32_t;

namespace {

template <class T>
std::vector<T> ramp(std::size_t count, T first = T{1}) {
  std::vector<T> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

std::vector<u32> random_words(std::size_t count) {
  std::mt19937 random(11);
  std::vector<u32> values(count);
  for (auto& value : values) value = static_cast<u32>(random());
  return values;
}

/// The same source at two architectures and unoptimized.
Program memory_program(const std::string& image) {
  return Program::from_file(image);
}
const char* const kImages[] = {"memory.ptx", "memory_90.ptx", "memory_debug.ptx"};

}  // namespace

TEST_CASE("Memory.CopiesOfEveryWidthKeepTheirBits") {
  for (const char* image : kImages) {
    INFO(image);
    Program program = memory_program(image);
    const auto words = random_words(1000 * 4);
    const DeviceArray<u32> from(words);
    DeviceArray<u32> to(words.size(), 0u);
    program.launch("copy_words", threads(16, 256), from.data(), to.data(), 4000);
    CHECK(to.values() == words);
    DeviceArray<u32> quads(words.size(), 0u);
    program.launch("copy_quads", threads(8, 128), from.data(), quads.data(), 999);
    CHECK(std::equal(words.begin(), words.begin() + 999 * 4, quads.data()));
    CHECK(quads[999 * 4] == 0);
    program.launch("copy_pairs_of_doubles", threads(8, 128), from.data(), to.data(), 1000);
    bool swapped = true;
    for (std::size_t at = 0; at < words.size(); ++at) swapped &= to[at] == words[at ^ 2];
    CHECK(swapped);
    program.launch("copy_bytes", threads(16, 256), from.data(), to.data(), 4000);
    bool reversed = true;
    for (std::size_t at = 0; at < words.size(); ++at) reversed &= to[at] == __builtin_bswap32(words[at]);
    CHECK(reversed);
  }
}

TEST_CASE("Memory.CacheHintsChangeNothing") {
  for (const char* image : kImages) {
    Program program = memory_program(image);
    const auto words = random_words(64 * 4);
    const DeviceArray<u32> from(words);
    DeviceArray<u32> to(words.size());
    program.launch("copy_hinted", threads(1, 64), from.data(), to.data(), 64);
    for (std::size_t at = 0; at < 64; ++at) {
      const u32 *in = &words[at * 4], *out = &to[at * 4];
      REQUIRE(out[0] == 6 * in[0]);
      REQUIRE(out[1] == 2 * in[1]);
      REQUIRE(out[2] == in[2] + in[0] + 5);
      REQUIRE(out[3] == in[3] + 2);
    }
  }
}

TEST_CASE("Memory.NarrowLoadsExtendBySign") {
  Program program = memory_program("memory.ptx");
  const auto words = random_words(32);
  const DeviceArray<u32> from(words);
  DeviceArray<long long> to(32 * 4);
  program.launch("narrow_accesses", threads(1, 32), from.data(), to.data());
  const auto* bytes = reinterpret_cast<const unsigned char*>(words.data());
  for (std::size_t at = 0; at < 32; ++at) {
    std::int16_t half;
    std::memcpy(&half, bytes + at * 2, 2);
    REQUIRE(to[at * 4] == static_cast<signed char>(bytes[at]));
    REQUIRE(to[at * 4 + 1] == bytes[at]);
    REQUIRE(to[at * 4 + 2] == half);
    REQUIRE(to[at * 4 + 3] == static_cast<std::uint16_t>(half));
  }
}

TEST_CASE("Memory.SharedMemoryIsPerBlock") {
  for (const char* image : kImages) {
    Program program = memory_program(image);
    const auto values = ramp<int>(256 * 20);
    const DeviceArray<int> from(values);
    DeviceArray<int> to(values.size());
    program.launch("reverse_in_shared", threads(20, 256), from.data(), to.data());
    bool reversed = true;
    for (std::size_t at = 0; at < values.size(); ++at)
      reversed &= to[at] == values[at / 256 * 256 + 255 - at % 256];
    CHECK(reversed);

    const auto square = ramp<float>(32 * 32);
    const DeviceArray<float> matrix(square);
    DeviceArray<float> transposed(square.size());
    program.launch("transpose_in_dynamic_shared", {Dim3{1, 1, 1}, Dim3{32, 32, 1}, 32 * 33 * sizeof(float)},
                   matrix.data(), transposed.data(), 32);
    bool right = true;
    for (std::size_t at = 0; at < square.size(); ++at)
      right &= transposed[at] == square[at % 32 * 32 + at / 32];
    CHECK(right);

    DeviceArray<u32> addressed(64);
    program.launch("shared_addresses", threads(1, 64), addressed.data());
    for (u32 at = 0; at < 64; ++at) REQUIRE(addressed[at] == (at & ~1u) * 3000 + ((at & ~1u) + 1) * 3);

    const auto words = random_words(256);
    const DeviceArray<u32> quads(words);
    DeviceArray<u32> copied(words.size());
    program.launch("copy_asynchronously", threads(1, 64), quads.data(), copied.data());
    for (std::size_t at = 0; at < 256; ++at) REQUIRE(copied[at] == words[(63 - at / 4) * 4 + at % 4]);
    for (const bool counted : {false, true}) {
      DeviceArray<u32> behind(256);
      program.launch("copy_behind_barrier", threads(1, 64), quads.data(), behind.data(), counted);
      REQUIRE(behind.values() == copied.values());
    }
  }
}

TEST_CASE("Memory.LocalArraysAreIndexedByData") {
  for (const char* image : kImages) {
    Program program = memory_program(image);
    auto words = random_words(16 * 64 * 3);
    const DeviceArray<u32> from(words);
    DeviceArray<int> to(words.size());
    program.launch("sort_in_local", threads(3, 64), from.data(), to.data());
    std::vector<int> expected(words.begin(), words.end());
    for (auto at = expected.begin(); at != expected.end(); at += 16) std::sort(at, at + 16);
    CHECK(to.values() == expected);
  }
}

TEST_CASE("Memory.VariablesStartWithTheirInitializers") {
  for (const char* image : kImages) {
    INFO(image);
    Program program = memory_program(image);
    const DeviceArray<int> where(ramp<int>(8, 0));
    DeviceArray<double> to(8);
    program.launch("read_variables", threads(1, 8), to.data(), where.data());
    const int bytes[] = {1, 2, 3, 4, 255};
    for (int at = 0; at < 8; ++at) {
      const double expected = at * at + 41 + bytes[at % 5] + 30 + (at == 0 ? 3.14159265358979312 : 0);
      REQUIRE(to[static_cast<std::size_t>(at)] == expected);
    }
    DeviceArray<int> text(64, 0);
    program.launch("follow_list", threads(1, 1), text.data());
    const std::vector<int> expected{'f', 'i', 'r', 's', 't', 5, 'l', 'a', 's', 't', 7, -1};
    CHECK(std::equal(expected.begin(), expected.end(), text.data()));
  }
}

TEST_CASE("Memory.VariablesArePerDeviceAndReachableByName") {
  Program program = memory_program("memory.ptx");
  const auto view = program.module().variable("device_counter", 0);
  REQUIRE(view);
  CHECK(view->bytes == 4);
  CHECK(*static_cast<int*>(view->address) == 41);
  program.launch("count_up", threads(3, 100));
  CHECK(*static_cast<int*>(view->address) == 341);
  const auto other = program.module().variable("device_counter", 1);
  REQUIRE(other);
  CHECK(other->address != view->address);
  CHECK(*static_cast<int*>(other->address) == 41);
  CHECK(program.module().variable("constant_squares", 0)->bytes == 32);
  CHECK_FALSE(program.module().variable("no_such_variable", 0));
}

/// As in programs/memory.cu.
struct Table {
  int values[24];
  float scale;
  short tail[3];
};

TEST_CASE("Memory.ParametersAreIndexedByData") {
  Table table{};
  for (int at = 0; at < 24; ++at) table.values[at] = at * 7;
  table.scale = 0.25f;
  for (int at = 0; at < 3; ++at) table.tail[at] = static_cast<short>(-100 * at);
  for (const char* image : kImages) {
    Program program = memory_program(image);
    DeviceArray<int> to(100);
    DeviceArray<float> scaled(100);
    program.launch("index_parameter", threads(1, 100), table, to.data(), scaled.data());
    for (int at = 0; at < 100; ++at) {
      REQUIRE(to[static_cast<std::size_t>(at)] == at % 24 * 7 - 100 * (at % 3));
      REQUIRE(scaled[static_cast<std::size_t>(at)] == 0.25f * static_cast<float>(at));
    }
  }
}

TEST_CASE("Memory.GenericPointersReachEverySpace") {
  for (const char* image : kImages) {
    Program program = memory_program(image);
    const auto values = ramp<int>(32, 500);
    const DeviceArray<int> global(values);
    DeviceArray<int> to(32);
    program.launch("generic_pointers", threads(1, 32), global.data(), to.data());
    for (int at = 0; at < 32; ++at) {
      const int squares[] = {0, 1, 4, 9, 16, 25, 36, 49};
      const int value = at % 4 == 0   ? 500 + at
                        : at % 4 == 1 ? 1000 + (at ^ 1)
                        : at % 4 == 2 ? 2000 + at + ((500 + at) & 3)
                                      : squares[at % 8];
      const int kind = at % 4 == 0 ? 1 : at % 4 == 1 ? 2 : at % 4 == 2 ? 4 : 0;
      const int actual = to[static_cast<std::size_t>(at)];
      REQUIRE(actual / 8 == value);
      // A generic pointer to constant memory may look global: it is device memory too.
      if (at % 4 != 3) REQUIRE(actual % 8 == kind);
    }
  }
}

TEST_CASE("Memory.ParametersHaveGenericAddresses") {
  for (const char* image : kImages) {
    Program program = memory_program(image);
    Table table{};
    for (int i = 0; i < 24; ++i) table.values[i] = 7 * i;
    DeviceArray<int> to(32);
    program.launch("generic_parameter", threads(1, 32), table, to.data());
    for (int at = 0; at < 32; ++at) REQUIRE(to[static_cast<std::size_t>(at)] == 7 * (at * 5 % 24));
  }
}

TEST_CASE("Memory.SixteenByteAccessesAreIndivisible") {
  Program program = memory_program("memory.ptx");
  DeviceArray<u32> cells(32 * 4, 0u), torn(1, 0u);
  program.launch("write_or_check_quads", threads(4, 32), cells.data(), torn.data(), 2000);
  CHECK(torn[0] == 0);
}

TEST_CASE("Memory.ThreeDimensionalGridsNumberBlocksAndThreads") {
  Program program = memory_program("memory.ptx");
  const u32 blocks = 3 * 2 * 4, width = 5 * 3 * 6;
  DeviceArray<u32> to(blocks * width);
  program.launch("large_grid", {Dim3{3, 2, 4}, Dim3{5, 3, 6}, 0}, to.data(), width);
  for (u32 block = 0; block < blocks; ++block)
    for (u32 thread = 0; thread < width; ++thread)
      REQUIRE(to[block * width + thread] == block * 100000 + thread * 100 + 3);
}
