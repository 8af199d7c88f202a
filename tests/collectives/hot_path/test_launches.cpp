// What a call launches: kernels, NCCL's launches and messages, events; and that a group of calls launches
// what one does.
//
// The numbers are pinned: docs/performance.md shows this table, and a change of it is to be seen.
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <numeric>
#include <vector>

#include "catch.h"
#include "cluster.h"
#include "kernels/element.h"
#include "sandbox/cudart/extension.h"
#include "sandbox/nccl/extension.h"

namespace {

std::atomic<std::uint64_t> records{0}, waits{0}, copies{0};

/// Whether the caller is the library under test.
bool is_ours(const void* caller) {
  Dl_info found{};
  return ::dladdr(caller, &found) != 0 && found.dli_fname && std::strstr(found.dli_fname, "libsdp4bit");
}

template <typename Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// In place of CUDA's, for the whole process.
extern "C" {
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  static auto* const next = real<decltype(cudaEventRecordWithFlags)>("cudaEventRecordWithFlags");
  records += is_ours(__builtin_return_address(0));
  return next(event, stream, flags);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  static auto* const next = real<cudaError_t(cudaStream_t, cudaEvent_t, unsigned)>("cudaStreamWaitEvent");
  waits += is_ours(__builtin_return_address(0));
  return next(stream, event, flags);
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  static auto* const next =
      real<cudaError_t(void*, const void*, std::size_t, cudaMemcpyKind, cudaStream_t)>("cudaMemcpyAsync");
  copies += is_ours(__builtin_return_address(0));
  return next(to, from, bytes, kind, stream);
}
}

namespace sdp4bit::test {
namespace {

struct Launches {
  std::uint64_t kernels = 0, copies = 0, nccl = 0, operations = 0, records = 0, waits = 0;
  friend bool operator==(const Launches&, const Launches&) = default;
};

std::string text_of(const Launches& launches) {
  char text[160];
  std::snprintf(
      text, sizeof text, "| %llu | %llu | %llu | %llu | %llu | %llu |",
      static_cast<unsigned long long>(launches.kernels), static_cast<unsigned long long>(launches.copies),
      static_cast<unsigned long long>(launches.nccl), static_cast<unsigned long long>(launches.operations),
      static_cast<unsigned long long>(launches.records), static_cast<unsigned long long>(launches.waits));
  return text;
}

std::uint64_t kernels_launched() {
  std::vector<sandboxKernelCounters> counters(sandboxGetKernelCounters(nullptr, 0));
  counters.resize(std::min(counters.size(), sandboxGetKernelCounters(counters.data(), counters.size())));
  return std::accumulate(
      counters.begin(), counters.end(), std::uint64_t{0},
      [](std::uint64_t sum, const sandboxKernelCounters& kernel) { return sum + kernel.launches; });
}

template <typename Body>
Launches count(cudaStream_t stream, const Body& body) {
  check(cudaStreamSynchronize(stream));
  sandboxNcclResetTraffic();
  const std::uint64_t before = kernels_launched();
  records = waits = copies = 0;
  body();
  check(cudaDeviceSynchronize());
  sandboxNcclTraffic traffic{};
  sandboxNcclGetTraffic(&traffic);
  return {kernels_launched() - before, copies.load(),  traffic.launches,
          traffic.operations,          records.load(), waits.load()};
}

/// What a rank does, over and over.
using Work = std::function<void(RankContext&)>;

struct Scenario {
  const char* name;
  std::vector<int> node_of;
  Environment environment;
  Work work;
  int warm = 40;  // calls before; learning has ended, or not
  Launches expected;
};

constexpr std::size_t kCount = 3000;
constexpr std::size_t kMost = 8;

/// Buffers of one rank, made once.
struct Buffers {
  explicit Buffers(const RankContext& rank) {
    for (std::size_t i = 0; i < kMost; ++i) {
      Bytes weights(static_cast<std::size_t>(rank.ranks) * (kCount + i) * 2);
      for (std::size_t j = 0; j < weights.size() / 2; ++j) {
        const BFloat16 value = from_float<BFloat16>(std::sin(static_cast<float>(i + j)));
        std::memcpy(weights.data() + 2 * j, &value, 2);
      }
      inputs.push_back(std::make_unique<DeviceBytes>(
          Bytes(static_cast<std::size_t>(rank.ranks) * (kCount + i) * 4, std::byte{1})));
      outputs.push_back(std::make_unique<DeviceBytes>(Bytes((kCount + i) * 4)));
      gathered.push_back(std::make_unique<DeviceBytes>(weights));
    }
  }
  static Buffers& of(const RankContext& rank) {
    static Buffers* const buffers = new Buffers(rank);
    return *buffers;
  }
  std::vector<std::unique_ptr<DeviceBytes>> inputs, outputs, gathered;
};

void reduce(RankContext& rank, std::size_t i, ncclDataType_t type = ncclFloat32) {
  Buffers& buffers = Buffers::of(rank);
  check(ncclReduceScatter(buffers.inputs[i]->data(), buffers.outputs[i]->data(), kCount + i, type,
                          i % 2 ? ncclAvg : ncclSum, rank.comm, rank.stream));
}

/// kCount + `more` elements of a rank: what makes a class.
void gather(RankContext& rank, std::size_t i, std::size_t more) {
  std::byte* const buffer = Buffers::of(rank).gathered[i]->data();
  const std::size_t count = kCount + more;
  check(ncclAllGather(buffer + static_cast<std::size_t>(rank.rank) * count * 2, buffer, count, ncclBfloat16,
                      rank.comm, rank.stream));
}

template <typename Call>
Work grouped(Call call) {
  return [call](RankContext& rank) {
    check(ncclGroupStart());
    for (std::size_t i = 0; i < kMost; ++i) call(rank, i);
    check(ncclGroupEnd());
  };
}

const std::vector<int> kTwoByTwo{0, 0, 1, 1}, kThreeByOne{0, 1, 2}, kOneNode{0, 0, 0};

Environment with(Environment extra) {
  Environment all{{"SDP4BIT_COMMS", "all"},
                  {"SDP4BIT_MIN_BYTES", "0"},
                  {"SDP4BIT_OWN_SHARD", "replica"},
                  {"SDP4BIT_WEIGHT_REFRESH", "0"}};
  all.insert(all.end(), extra.begin(), extra.end());
  return all;
}

std::vector<Scenario> scenarios() {
  const Work one_reduce = [](RankContext& rank) { reduce(rank, 0); };
  const Work one_gather = [](RankContext& rank) { gather(rank, 0, 0); };
  const Work mixed =
      grouped([](RankContext& rank, std::size_t i) { reduce(rank, i, i < 4 ? ncclFloat32 : ncclBfloat16); });
  const auto same = [](RankContext& rank, std::size_t i) { gather(rank, i, 0); };
  const auto other = [](RankContext& rank, std::size_t i) { gather(rank, i, i); };
  const auto gradients = [](RankContext& rank, std::size_t i) { reduce(rank, i); };
  const Environment full{{"SDP4BIT_WEIGHT_LEDGER", "full"}};
  return {
      // kernels, copies, NCCL launches, operations, event records, waits
      {"ReduceScatter, two levels", kTwoByTwo, with({}), one_reduce, 40, {3, 0, 2, 4, 1, 1}},
      {"... without the transform",
       kTwoByTwo,
       with({{"SDP4BIT_HADAMARD", "0"}}),
       one_reduce,
       40,
       {3, 0, 2, 4, 1, 1}},
      {"... a group of 8", kTwoByTwo, with({}), grouped(gradients), 40, {3, 0, 2, 4, 1, 1}},
      {"... a group of 8, of two types", kTwoByTwo, with({}), mixed, 40, {6, 0, 2, 4, 1, 1}},
      {"ReduceScatter, one level", kThreeByOne, with({}), one_reduce, 40, {2, 0, 1, 4, 1, 1}},
      {"... a group of 8", kThreeByOne, with({}), grouped(gradients), 40, {2, 0, 1, 4, 1, 1}},
      {"ReduceScatter, one node", kOneNode, with({}), one_reduce, 40, {2, 0, 1, 4, 1, 1}},
      {"AllGather, difference, `node`", kTwoByTwo, with({}), one_gather, 40, {3, 0, 2, 4, 1, 1}},
      {"... a group of 8", kTwoByTwo, with({}), grouped(other), 40, {3, 0, 2, 4, 1, 1}},
      {"... a group of 8 of one size", kTwoByTwo, with({}), grouped(same), 40, {3, 0, 2, 4, 1, 1}},
      {"AllGather, difference, one rank a node", kThreeByOne, with({}), one_gather, 40, {2, 0, 1, 4, 1, 1}},
      {"AllGather, difference, `full`", kTwoByTwo, with(full), one_gather, 40, {2, 0, 1, 1, 1, 1}},
      {"... a group of 8", kTwoByTwo, with(full), grouped(other), 40, {2, 0, 1, 1, 1, 1}},
      {"ReduceScatter, two levels, SDP4BIT_CHECK=1",
       kTwoByTwo,
       with({{"SDP4BIT_CHECK", "1"}}),
       one_reduce,
       40,
       {3, 2, 3, 5, 3, 2}},
      {"AllGather, learning", kTwoByTwo, with({}), one_gather, 6, {3, 0, 2, 2, 1, 1}},
      {"AllGather, native for good",
       kTwoByTwo,
       with({{"SDP4BIT_WEIGHT_LEDGER", "off"}}),
       one_gather,
       40,
       {0, 0, 1, 1, 0, 0}},
  };
}

TEST_CASE("Launches.EachKindOfCallLaunchesWhatThePageSays") {
  std::printf("| call | kernels | copies | NCCL launches | operations | event records | waits |\n");
  for (const Scenario& scenario : scenarios()) {
    const auto outcomes = run_cluster(
        {.node_of = scenario.node_of, .environment = scenario.environment}, [&](RankContext& rank) {
          for (int i = 0; i < scenario.warm; ++i) scenario.work(rank);
          const Launches launches = count(rank.stream, [&] { scenario.work(rank); });
          const std::string text = text_of(launches);
          rank.result.resize(text.size());
          std::memcpy(rank.result.data(), text.data(), text.size());
        });
    CAPTURE(scenario.name);
    REQUIRE(failures(outcomes) == "");
    const Bytes& result = outcomes[0].result;
    const std::string counted(reinterpret_cast<const char*>(result.data()), result.size());
    std::printf("| %s %s\n", scenario.name, counted.c_str());
    CHECK(counted == text_of(scenario.expected));
  }
}

/// NCCL's launches are counted where they are recorded, the rest where it runs. Events are nodes of the
/// graph.
TEST_CASE("Launches.ACapturedGroupReplaysWhatOneCallLaunches") {
  for (const bool group : {false, true}) {
    const auto outcomes =
        run_cluster({.node_of = kTwoByTwo, .environment = with({})}, [&](RankContext& rank) {
          for (int i = 0; i < 10; ++i) reduce(rank, 0);
          const std::uint64_t before = calls_of("reduce_scatter").compressed;
          cudaGraphExec_t executable = nullptr;
          const Launches captured = count(rank.stream, [&] {
            cudaGraph_t graph = nullptr;
            check(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeGlobal));
            if (group) check(ncclGroupStart());
            for (std::size_t i = 0; i < (group ? kMost : 1); ++i) reduce(rank, i);
            if (group) check(ncclGroupEnd());
            check(cudaStreamEndCapture(rank.stream, &graph));
            check(cudaGraphInstantiate(&executable, graph, 0));
            check(cudaGraphDestroy(graph));
          });
          expect(captured.nccl == 2 && captured.kernels == 0, text_of(captured));
          expect(calls_of("reduce_scatter").compressed == before + (group ? kMost : 1), "compressed");
          for (int replay = 0; replay < 2; ++replay) {
            const Launches replayed =
                count(rank.stream, [&] { check(cudaGraphLaunch(executable, rank.stream)); });
            expect(replayed == Launches{3, 0, 0, 4, 0, 0}, text_of(replayed));
          }
          check(cudaGraphExecDestroy(executable));
        });
    CAPTURE(group);
    CHECK(failures(outcomes) == "");
  }
}

constexpr int kWarm =
    12;  // groups until gathers travel as differences; when they begin to depends on the groups

/// One buffer three times, one twice, two of one class: a program may do that. Each class has as many buffers
/// as its round has calls, so no difference is ever a jump.
constexpr struct {
  std::size_t buffer, more;
} kGathers[kMost] = {{0, 0}, {3, 3}, {6, 6}, {0, 0}, {5, 5}, {7, 6}, {0, 0}, {5, 5}};

/// In place, of several types and operators, several times the same buffer, on streams that differ from rank
/// to rank: what one call after the other gives.
TEST_CASE("Launches.AGroupThatSharesThemGivesTheBitsOfSingleCalls") {
  const auto run = [](bool in_group, const char* workspace) {
    return run_cluster(
        {.node_of = kTwoByTwo, .environment = with({{"SDP4BIT_WORKSPACE", workspace}})},
        [&](RankContext& rank) {
          cudaStream_t second = nullptr;
          check(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
          Buffers& buffers = Buffers::of(rank);
          const auto ranks = static_cast<std::size_t>(rank.ranks), own = static_cast<std::size_t>(rank.rank);
          const auto step = [&](int round) {
            // The odd ranks' weights move by a small step.
            for (const auto& buffer : buffers.gathered) {
              Bytes content = buffer->read();
              const std::size_t at = own * content.size() / ranks;
              BFloat16 value;
              std::memcpy(&value, content.data() + at / 2 * 2, 2);
              value = from_float<BFloat16>(to_float(value) * 1.01f + 0.001f * static_cast<float>(round));
              std::memcpy(content.data() + at / 2 * 2, &value, 2);
              buffer->write(content);
            }
            const bool together = in_group || round < kWarm;
            if (together) check(ncclGroupStart());
            for (std::size_t i = 0; i < kMost; ++i) {
              const bool narrow = i % 3 == 1;
              const std::size_t bytes = narrow ? 2 : 4;
              // Every other call writes its own slice of the input.
              std::byte* const input = buffers.inputs[i]->data();
              std::byte* const output =
                  i % 2 ? input + own * (kCount + i) * bytes : buffers.outputs[i]->data();
              check(ncclReduceScatter(input, output, kCount + i, narrow ? ncclBfloat16 : ncclFloat32,
                                      i % 4 < 2 ? ncclSum : ncclAvg, rank.comm,
                                      (own + i) % 3 == 0 ? second : rank.stream));
              gather(rank, kGathers[i].buffer, kGathers[i].more);
              if (!together) check(cudaDeviceSynchronize());
            }
            if (together) check(ncclGroupEnd());
            check(cudaDeviceSynchronize());
          };
          for (int round = 0; round < kWarm + 3; ++round) step(round);
          for (std::size_t i = 0; i < kMost; ++i) {
            for (const Bytes& bytes :
                 {buffers.inputs[i]->read(), buffers.outputs[i]->read(), buffers.gathered[i]->read()})
              rank.result.insert(rank.result.end(), bytes.begin(), bytes.end());
          }
          expect(calls_of("all_gather").compressed >= 2 * kMost, "differences travelled");
          expect(calls_of("reduce_scatter").compressed >= 8 * kMost, "gradients were compressed");
        });
  };
  const auto single = run(false, "64M");
  REQUIRE(failures(single) == "");
  for (const char* workspace : {"64M", "64K"}) {  // the latter in rounds
    const auto together = run(true, workspace);
    REQUIRE(failures(together) == "");
    for (std::size_t rank = 0; rank < single.size(); ++rank) {
      const Bytes &left = together[rank].result, &right = single[rank].result;
      const auto difference = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
      INFO("rank " << rank << ", workspace " << workspace << ": first difference at byte "
                   << difference.first - left.begin() << " of " << left.size());
      CHECK((left == right));
    }
  }
}

}  // namespace
}  // namespace sdp4bit::test
