// No allocation on the hot path: once warm, calls of every kind leave the heap and the device's memory alone.
//
// The library brings its C++ runtime with it, so each of its allocations is a call of malloc from its own
// text.
#include <link.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "catch.h"
#include "cluster.h"

extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* old, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
}

namespace {

struct Text {
  std::uintptr_t begin = 0, end = 0;
};
/// Of the preloaded library. Plain data: malloc is called before any constructor.
Text library_text;
std::atomic<std::uint64_t> allocations{0};

void count(const void* caller) {
  const auto address = reinterpret_cast<std::uintptr_t>(caller);
  if (address >= library_text.begin && address < library_text.end) allocations.fetch_add(1);
}

}  // namespace

// In place of the C library's, for the whole process.
extern "C" {
void* malloc(std::size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_malloc(bytes);
}
void* calloc(std::size_t number, std::size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_calloc(number, bytes);
}
void* realloc(void* old, std::size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_realloc(old, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  count(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
}

namespace sdp4bit::test {
namespace {

Text find_text() {
  Text found;
  ::dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* result) {
        if (!std::strstr(info->dlpi_name, "libsdp4bit")) return 0;
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_LOAD || !(segment.p_flags & PF_X)) continue;
          *static_cast<Text*>(result) = {info->dlpi_addr + segment.p_vaddr,
                                         info->dlpi_addr + segment.p_vaddr + segment.p_memsz};
        }
        return 1;
      },
      &found);
  return found;
}

/// What a training step does: gradients of two sizes, single and grouped, then weights in buffers that stay.
class Step {
 public:
  explicit Step(RankContext& rank)
      : rank_(rank),
        input_(Bytes(kCount * ranks() * sizeof(float), std::byte{1})),
        output_(kCount * sizeof(float)),
        first_(Bytes(kCount * ranks() * 2, std::byte{1})),
        second_(Bytes(kCount * ranks() * 2, std::byte{2})) {}

  void run() {
    reduce(kCount, ncclAvg);
    check(ncclGroupStart());
    reduce(kCount / 3, ncclSum);
    reduce(kCount, ncclSum);
    reduce(100, ncclMax);  // stays native
    check(ncclGroupEnd());
    gather(first_);
    check(ncclGroupStart());
    gather(first_);
    gather(second_);
    check(ncclGroupEnd());
    check(cudaStreamSynchronize(rank_.stream));
  }

 private:
  static constexpr std::size_t kCount = 3000;
  [[nodiscard]] std::size_t ranks() const { return static_cast<std::size_t>(rank_.ranks); }
  void reduce(std::size_t count, ncclRedOp_t op) {
    check(ncclReduceScatter(input_.data(), output_.data(), count, ncclFloat32, op, rank_.comm, rank_.stream));
  }
  void gather(const DeviceBytes& buffer) {
    check(ncclAllGather(buffer.data() + static_cast<std::size_t>(rank_.rank) * kCount * 2, buffer.data(),
                        kCount, ncclBfloat16, rank_.comm, rank_.stream));
  }

  RankContext& rank_;
  DeviceBytes input_, output_, first_, second_;
};

TEST_CASE("HotPath.AllocatesNothingOnceWarm") {
  for (const char* extra : {"0", "3"}) {
    const Environment environment{{"SDP4BIT_COMMS", "all"},
                                  {"SDP4BIT_MIN_BYTES", "0"},
                                  {"SDP4BIT_WEIGHT_REFRESH", "9"},
                                  {"SDP4BIT_SAMPLE_ERROR", extra}};
    const auto outcomes =
        run_cluster({.node_of = even_nodes(2, 2), .environment = environment}, [](RankContext& rank) {
          Step step(rank);
          constexpr int kWarm = 80, kMeasured = 60;  // looks, exams, probes and refreshes come in both
          for (int i = 0; i < kWarm; ++i) step.run();
          std::size_t free_before = 0, free_after = 0, total = 0;
          check(cudaMemGetInfo(&free_before, &total));
          const CallCounts before = calls_of("all_gather");
          library_text = find_text();
          expect(library_text.begin != 0, "the library is preloaded");
          for (int i = 0; i < kMeasured; ++i) step.run();
          const std::uint64_t counted = allocations.load();
          library_text = {};
          check(cudaMemGetInfo(&free_after, &total));
          expect(counted == 0, std::to_string(counted) + " allocations");
          expect(free_before == free_after, "device memory was taken or given back");
          expect(calls_of("all_gather").compressed > before.compressed + kMeasured, "differences travelled");
        });
    CHECK(failures(outcomes) == "");
  }
}

TEST_CASE("HotPath.TheCountSeesAllocations") {
  const auto outcomes = run_cluster(
      {.node_of = even_nodes(2, 1), .environment = {{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}}},
      [](RankContext& rank) {
        library_text = find_text();
        Step(rank).run();
        expect(allocations.load() > 0, "a communicator's first calls allocate");
      });
  CHECK(failures(outcomes) == "");
}

}  // namespace
}  // namespace sdp4bit::test
