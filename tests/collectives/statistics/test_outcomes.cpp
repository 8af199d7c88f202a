// Why calls went native, and what is counted of graphs and of communicators that are gone.
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "catch.h"
#include "gradient_case.h"
#include "statistics.h"

namespace sdp4bit::test {
namespace {

const Environment kAll{{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}};
const GradientCase kGradient{.count = 1500};

std::uint64_t outcome(ncclComm_t comm, const char* collective, const std::string& wanted) {
  const char* name = nullptr;
  std::uint64_t calls = 0;
  for (std::size_t i = 0; library().get_outcome(comm, collective, i, &name, &calls) == 0; ++i) {
    if (wanted == name) return calls;
  }
  expect(false, "no outcome is called " + wanted);
  return 0;
}

void reduce(RankContext& rank, ncclDataType_t type, ncclRedOp_t op, std::size_t count) {
  const DeviceBytes send(Bytes(8 * count * static_cast<std::size_t>(rank.ranks))), receive(8 * count);
  check(ncclReduceScatter(send.data(), receive.data(), count, type, op, rank.comm, rank.stream));
  check(cudaStreamSynchronize(rank.stream));
}

}  // namespace

TEST_CASE("Statistics.EachReasonIsCountedAndTold") {
  Environment environment{{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "1K"}};
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = environment}, [](RankContext& rank) {
        expect(library().get_outcome(rank.comm, "reduce_scatter", 0, nullptr, nullptr) == -1,
               "nothing is known of a communicator before its first call");
        engage(rank);
        expect(why(rank.comm, "reduce_scatter") == "not_agreed_yet", why(rank.comm, "reduce_scatter"));
        expect(why(rank.comm, "all_gather") == "no call yet", why(rank.comm, "all_gather"));
        reduce(rank, ncclFloat32, ncclSum, 10);
        expect(why(rank.comm, "reduce_scatter") == "too_small", why(rank.comm, "reduce_scatter"));
        reduce(rank, ncclInt32, ncclSum, 1000);
        expect(why(rank.comm, "reduce_scatter") == "type_not_taken", why(rank.comm, "reduce_scatter"));
        reduce(rank, ncclFloat32, ncclMax, 1000);
        reduce(rank, ncclFloat32, ncclMax, 1000);
        expect(why(rank.comm, "reduce_scatter") == "op_not_taken", why(rank.comm, "reduce_scatter"));
        reduce(rank, ncclFloat32, ncclSum, 1000);
        expect(why(rank.comm, "reduce_scatter") == "compressed", why(rank.comm, "reduce_scatter"));
        for (ncclComm_t comm : {rank.comm, ncclComm_t{}}) {  // the process has one communicator
          expect_equal(outcome(comm, "reduce_scatter", "not_agreed_yet"), 3, "not agreed yet");
          expect_equal(outcome(comm, "reduce_scatter", "too_small"), 1, "too small");
          expect_equal(outcome(comm, "reduce_scatter", "type_not_taken"), 1, "type");
          expect_equal(outcome(comm, "reduce_scatter", "op_not_taken"), 2, "op");
          expect_equal(outcome(comm, "reduce_scatter", "compressed"), 1, "compressed");
          const sdp4bitStatistics read = statistics(comm, "reduce_scatter");
          expect_equal(read.calls, 8, "calls");
          expect_equal(read.workspace_bytes, 64 << 20, "workspace");
        }
      });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("Statistics.ACommunicatorThatStaysNativeSaysWhy") {
  const auto outcomes = run_cluster(
      {.node_of = even_nodes(2, 1), .environment = {{"SDP4BIT_COMMS", "name:other"}}}, [](RankContext& rank) {
        engage(rank);
        (void)run_gradient(rank, kGradient);
        const std::string text = why(rank.comm, "reduce_scatter");
        expect(
            text.starts_with("agreement_off: ") && text.find("SDP4BIT_COMMS=name:other") != std::string::npos,
            text);
        expect_equal(statistics(rank.comm, "reduce_scatter").workspace_bytes, 0, "workspace");
      });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("Statistics.WrongQuestionsAreRefused") {
  const auto outcomes = run_cluster({.node_of = {0}, .environment = kAll}, [](RankContext& rank) {
    (void)run_gradient(rank, kGradient);
    sdp4bitStatistics read{};
    read.size = sizeof read;
    expect(library().get_statistics(rank.comm, "all_reduce", &read) == -1, "a function that is not counted");
    expect(library().get_statistics(&read, "all_gather", &read) == -1, "an unknown communicator");
    expect(library().why_native(rank.comm, nullptr, nullptr, 0) == 0, "no function");
    expect(library().why_native(nullptr, "all_gather", nullptr, 0) == 0, "no communicator");
    read.size = 0;
    expect(library().get_statistics(rank.comm, "all_gather", &read) == -1, "a structure without a size");
    // An older program knows fewer fields: nothing behind them may be written.
    read.captured_calls = 4711;
    read.size = offsetof(sdp4bitStatistics, captured_calls);
    expect(library().get_statistics(rank.comm, "reduce_scatter", &read) == 0, "an older program");
    expect_equal(read.size, offsetof(sdp4bitStatistics, captured_calls), "size");
    expect_equal(read.calls, 1, "calls");
    expect_equal(read.captured_calls, 4711, "a field behind the size");
    // A newer program knows more: the size says what was filled.
    struct {
      sdp4bitStatistics known;
      std::uint64_t newer = 4711;
    } larger;
    larger.known.size = sizeof larger;
    expect(library().get_statistics(rank.comm, "reduce_scatter", &larger.known) == 0, "a newer program");
    expect_equal(larger.known.size, sizeof larger.known, "size");
    expect_equal(larger.newer, 4711, "a field that the library does not know");
  });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("Statistics.ReplaysAreCountedOnTheDevice") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 2), .environment = kAll}, [](RankContext& rank) {
        engage(rank);
        (void)run_gradient(rank, kGradient);
        const DeviceBytes send(input_of(kGradient, rank.rank, rank.ranks)),
            receive(kGradient.count * sizeof(float));
        check(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeGlobal));
        check(ncclReduceScatter(send.data(), receive.data(), kGradient.count, ncclFloat32, ncclSum, rank.comm,
                                rank.stream));
        cudaGraph_t graph = nullptr;
        cudaGraphExec_t executable = nullptr;
        check(cudaStreamEndCapture(rank.stream, &graph));
        check(cudaGraphInstantiate(&executable, graph, 0));
        expect_equal(statistics(rank.comm, "reduce_scatter").executed_calls, 1, "before a replay");
        for (int i = 0; i < 4; ++i) check(cudaGraphLaunch(executable, rank.stream));
        check(cudaStreamSynchronize(rank.stream));
        const sdp4bitStatistics read = statistics(rank.comm, "reduce_scatter");
        expect_equal(read.captured_calls, 1, "captured");
        expect_equal(read.compressed_calls, 2, "compressed");
        expect_equal(read.executed_calls, 1 + 4, "executed");
        check(cudaGraphExecDestroy(executable));
        check(cudaGraphDestroy(graph));
      });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("Statistics.WhatAGoneCommunicatorCountedStays") {
  constexpr int kLives = 70;  // more than are kept one by one
  const auto outcomes =
      run_cluster({.node_of = {0}, .environment = kAll, .connect = false}, [](RankContext&) {
        for (int life = 0; life < kLives; ++life) {
          ncclComm_t comm = nullptr;
          check(ncclCommInitAll(&comm, 1, nullptr));
          const DeviceBytes memory(Bytes(sizeof(float)));
          check(ncclReduceScatter(memory.data(), memory.data(), 1, ncclFloat32, ncclSum, comm, nullptr));
          check(cudaDeviceSynchronize());
          check(ncclCommDestroy(comm));
          expect(library().get_outcome(comm, "reduce_scatter", 0, nullptr, nullptr) == -1, "it is gone");
        }
        expect_equal(statistics(nullptr, "reduce_scatter").calls, kLives, "calls of all");
        expect_equal(outcome(nullptr, "reduce_scatter", "one_rank"), kLives, "their reason");
      });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("Statistics.AForkedChildWritesNothingOfItsParents") {
  char folder[] = "/tmp/sdp4bit_fork_XXXXXX";
  REQUIRE(::mkdtemp(folder) != nullptr);
  const std::string pattern = std::string(folder) + "/%p.json";
  const auto outcomes =
      run_cluster({.node_of = {0}, .environment = {{"SDP4BIT_STATS", pattern}, {"SDP4BIT_LOG", "info"}}},
                  [&](RankContext& rank) {
                    (void)run_gradient(rank, kGradient);
                    int code = 0;
                    const pid_t child = ::fork();
                    if (child == 0) std::exit(0);  // runs the exit handlers that it has from its parent
                    const pid_t ended = ::waitpid(child, &code, 0);
                    expect(ended == child && code == 0, "the child ended well");
                    const std::string name = std::string(folder) + "/" + std::to_string(child) + ".json";
                    expect(!std::ifstream(name), "the child wrote " + name);
                  });
  CHECK(failures(outcomes) == "");
  const std::string& log = outcomes[0].log;
  const std::string line = "reduce_scatter: one_rank 1";
  const std::size_t first = log.find(line);
  CHECK(first != std::string::npos);  // by the parent, once
  CHECK(log.find(line, first + 1) == std::string::npos);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    ++files;
    std::ifstream file(entry.path());
    CHECK(file.good());
  }
  CHECK(files == 1);
  std::filesystem::remove_all(folder);
}

}  // namespace sdp4bit::test
