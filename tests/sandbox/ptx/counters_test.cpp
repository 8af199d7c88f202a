// The counters of a kernel are exact: launches, bytes, requests and sectors of known access patterns.
#include "program.h"
#include "support/catch.h"

using namespace ptx_test;

namespace {

KernelCounters counters_of(const std::string& kernel) {
  for (const auto& counters : sandbox::ptx::counters())
    if (counters.kernel == kernel) return counters;
  return {};
}

}  // namespace

TEST_CASE("Counters.AlignedCopies") {
  Program program = Program::from_file("memory.ptx");
  const DeviceArray<float> from(4096, 1.0f), to(4096, 0.0f);
  sandbox::ptx::reset_counters();
  program.launch("copy_words", threads(4, 256), from.data(), to.data(), 1024);
  auto counters = counters_of("copy_words");
  CHECK(counters.launches == 1);
  CHECK(counters.global_bytes_loaded == 4096);
  CHECK(counters.global_bytes_stored == 4096);
  CHECK(counters.global_requests == 2 * 32);
  CHECK(counters.global_sectors == 2 * 32 * 4);
  CHECK(counters.lane_instructions > 1024 * 5);
  CHECK(counters.lane_instructions % 1024 == 0);
  const auto first = counters.lane_instructions;
  program.launch("copy_words", threads(4, 256), from.data(), to.data(), 1024);
  counters = counters_of("copy_words");
  CHECK(counters.launches == 2);
  CHECK(counters.lane_instructions == 2 * first);
  CHECK(counters.global_sectors == 2 * 2 * 32 * 4);

  program.launch("copy_quads", threads(4, 256), from.data(), to.data(), 1024);
  counters = counters_of("copy_quads");
  CHECK(counters.global_bytes_loaded == 16384);
  CHECK(counters.global_requests == 2 * 32);
  CHECK(counters.global_sectors == 2 * 32 * 16);
}

TEST_CASE("Counters.MisalignedAndPartialCopies") {
  Program program = Program::from_file("memory.ptx");
  const DeviceArray<float> from(4096, 1.0f), to(4096, 0.0f);
  sandbox::ptx::reset_counters();
  // One word off: each request of 128 bytes touches five sectors instead of four.
  program.launch("copy_words", threads(4, 256), from.data() + 1, to.data(), 1024);
  auto counters = counters_of("copy_words");
  CHECK(counters.global_sectors == 32 * 5 + 32 * 4);
  sandbox::ptx::reset_counters();
  program.launch("copy_words", threads(1, 32), from.data(), to.data(), 3);
  counters = counters_of("copy_words");
  CHECK(counters.global_bytes_loaded == 12);
  CHECK(counters.global_requests == 2);
  CHECK(counters.global_sectors == 2);
  // Lanes that read the same bytes share the sector.
  sandbox::ptx::reset_counters();
  CHECK(counters_of("copy_words").launches == 0);
}
