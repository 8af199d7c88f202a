// The table of memory knows owner, life and written bytes of every address.
#include <random>
#include <thread>

#include "program.h"
#include "sandbox/ptx/address_space.h"
#include "support/catch.h"

using namespace sandbox::ptx;

namespace {

AddressSpace& space() {
  return AddressSpace::instance();
}
char* allocate(std::size_t bytes, int device = 0, MemoryKind kind = MemoryKind::device) {
  return static_cast<char*>(space().allocate(bytes, device, kind));
}
bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("AddressSpace.BoundsAreExactToTheByte") {
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{255}, std::size_t{4096}, std::size_t{65536}, std::size_t{1000001}}) {
    char* base = allocate(bytes);
    REQUIRE(base != nullptr);
    CHECK(reinterpret_cast<std::uintptr_t>(base) % 256 == 0);
    CHECK(space().check_write(base, bytes) == AccessVerdict::ok);
    CHECK(space().check_write(base, bytes + 1) == AccessVerdict::out_of_bounds);
    CHECK(space().check_write(base + bytes - 1, 1) == AccessVerdict::ok);
    CHECK(space().check_write(base + bytes, 1) == AccessVerdict::out_of_bounds);
    CHECK(space().check_write(base - 1, 1) == AccessVerdict::out_of_bounds);
    CHECK(space().check_write(base - 1, 2) == AccessVerdict::out_of_bounds);
    CHECK(space().find(base + bytes - 1)->base == reinterpret_cast<std::uintptr_t>(base));
    CHECK_FALSE(space().find(base + bytes));
    CHECK(space().nearest(base + bytes)->base == reinterpret_cast<std::uintptr_t>(base));
    CHECK(contains(space().describe(base + bytes), "(" + std::to_string(bytes) + " bytes"));
    CHECK_FALSE(space().release(base + 1));
    CHECK(space().release(base));
    CHECK_FALSE(space().release(base));
    CHECK(space().check_write(base, 1) == AccessVerdict::use_after_free);
    CHECK(space().check_read(base, 1) == AccessVerdict::use_after_free);
    CHECK(contains(space().describe(base), "freed"));
  }
}

TEST_CASE("AddressSpace.WrittenBytesFollowAModel") {
  const std::size_t bytes = 5000;
  char* base = allocate(bytes);
  std::vector<bool> written(bytes);
  std::mt19937 random(2);
  for (int step = 0; step < 6000; ++step) {
    const std::size_t first = random() % bytes,
                      count = 1 + random() % (random() % 4 == 0 ? bytes - first
                                                                : std::min<std::size_t>(bytes - first, 40));
    switch (random() % 8) {
      case 0:
        space().mark_unwritten(base + first, count);
        for (std::size_t at = first; at < first + count; ++at) written[at] = false;
        break;
      case 1:
        if (random() % 50 != 0) break;
        space().mark_written(base, bytes);
        written.assign(bytes, true);
        break;
      case 2:
      case 3:
        space().mark_written(base + first, count);
        for (std::size_t at = first; at < first + count; ++at) written[at] = true;
        break;
      default: {
        bool all = true;
        for (std::size_t at = first; at < first + count; ++at) all = all && written[at];
        REQUIRE(space().check_read(base + first, count) ==
                (all ? AccessVerdict::ok : AccessVerdict::uninitialized));
      }
    }
  }
  CHECK(space().release(base));
}

TEST_CASE("AddressSpace.ConcurrentWritersMissNoByte") {
  const std::size_t bytes = 512 * 40 + 17;
  char* base = allocate(bytes);
  std::vector<std::thread> writers;
  for (std::size_t writer = 0; writer < 4; ++writer)
    writers.emplace_back([=] {
      for (std::size_t at = writer; at < bytes; at += 4) space().mark_written(base + at, 1);
    });
  for (auto& writer : writers) writer.join();
  CHECK(space().check_read(base, bytes) == AccessVerdict::ok);
  space().mark_unwritten(base + 100, 1);
  CHECK(space().check_read(base, bytes) == AccessVerdict::uninitialized);
  CHECK(space().check_read(base + 101, bytes - 101) == AccessVerdict::ok);
  CHECK(space().release(base));
}

TEST_CASE("AddressSpace.CapacityIsPerDevice") {
  space().set_capacity(5, 10000);
  char* first = allocate(6000, 5);
  REQUIRE(first != nullptr);
  CHECK(space().used(5) == 6000);
  CHECK(allocate(5000, 5) == nullptr);
  char* second = allocate(4000, 5);
  CHECK(second != nullptr);
  CHECK(allocate(1, 5) == nullptr);
  CHECK(space().release(first));
  CHECK(space().used(5) == 4000);
  char* third = allocate(6000, 5);
  CHECK(third != nullptr);
  CHECK(space().release(second));
  CHECK(space().release(third));
  CHECK(space().used(5) == 0);
}

TEST_CASE("AddressSpace.AdoptedMemoryCountsAsWritten") {
  std::vector<char> memory(300);
  space().adopt(memory.data(), memory.size(), -1, MemoryKind::pinned_host);
  CHECK(space().check_read(memory.data(), 300) == AccessVerdict::ok);
  CHECK(space().check_read(memory.data() + 299, 2) == AccessVerdict::out_of_bounds);
  CHECK_FALSE(space().release(memory.data()));
  CHECK(space().disown(memory.data()));
  CHECK_FALSE(space().disown(memory.data()));
  CHECK(space().check_read(memory.data(), 1) == AccessVerdict::use_after_free);
  // The same memory may be adopted again.
  space().adopt(memory.data() + 100, 50, -1, MemoryKind::pinned_host);
  CHECK(space().check_read(memory.data() + 149, 1) == AccessVerdict::ok);
  CHECK(space().disown(memory.data() + 100));
}

TEST_CASE("AddressSpace.ReusedMemoryStartsUnwritten") {
  // More allocations than are remembered: the oldest are given back and their space is used again.
  for (int round = 0; round < 6000; ++round) {
    char* base = allocate(200);
    REQUIRE(space().check_read(base, 1) == AccessVerdict::uninitialized);
    space().mark_written(base, 200);
    REQUIRE(space().check_read(base, 200) == AccessVerdict::ok);
    REQUIRE(space().release(base));
  }
}
