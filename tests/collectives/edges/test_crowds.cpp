// Many communicators, many threads, many calls, and aborts at any moment.
#include <malloc.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "catch.h"
#include "life_case.h"
#include "tests/collectives/statistics/statistics.h"

namespace sdp4bit::test {
namespace {

using Clock = std::chrono::steady_clock;
const GradientCase kGradient{.count = 300};

ncclComm_t split(const RankContext& rank) {
  ncclComm_t child = nullptr;
  check(ncclCommSplit(rank.comm, 0, rank.rank, &child, nullptr));
  return child;
}

/// Programs ask NCCL between their calls, also inside groups.
void ask(ncclComm_t comm) {
  ncclResult_t state = ncclInternalError;
  check(ncclCommGetAsyncError(comm, &state));
  check(state);
  expect(ncclGetLastError(comm) != nullptr, "the last error");
}

TEST_CASE("Crowd.SixtyFourCommunicatorsInGroupsOfAllSizes") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = everything_and("SDP4BIT_WORKSPACE", "64K")},
                  [](RankContext& rank) {
                    constexpr std::size_t kComms = 64;
                    std::vector<ncclComm_t> comms;
                    std::vector<cudaStream_t> streams;
                    for (std::size_t i = 0; i < kComms; ++i) {
                      comms.push_back(split(rank));
                      if (i % 8 == 0) streams.push_back(new_stream());
                    }
                    std::vector<std::unique_ptr<Reduction>> calls;
                    for (std::size_t i = 0; i < kComms; ++i)
                      calls.push_back(std::make_unique<Reduction>(kGradient, rank.rank, rank.ranks));
                    std::mt19937 random(7);  // the same on both ranks
                    std::vector<std::uint64_t> made(kComms);
                    for (int round = 0; round < 30; ++round) {
                      const std::size_t size = 1 + random() % kComms;
                      check(ncclGroupStart());
                      for (std::size_t i = 0; i < size; ++i) {
                        const std::size_t which = random() % kComms;
                        calls[which]->issue(comms[which], streams[which % streams.size()]);
                        ask(comms[which]);
                        ++made[which];
                      }
                      check(ncclGroupEnd());
                    }
                    for (const cudaStream_t stream : streams) check(cudaStreamSynchronize(stream));
                    std::uint64_t all = 0;
                    for (std::size_t i = 0; i < kComms; ++i) {
                      const auto read = statistics(comms[i], "reduce_scatter");
                      expect_equal(read.calls, made[i], "calls");
                      expect(read.compressed_calls + 12 >= made[i] || made[i] < 12, "most are compressed");
                      all += made[i];
                      check(ncclCommDestroy(comms[i]));
                    }
                    expect_equal(calls_of("reduce_scatter").all, all, "all calls");
                    for (const cudaStream_t stream : streams) check(cudaStreamDestroy(stream));
                  });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("Crowd.EightThreadsWithCommunicatorsOfTheirOwn") {
  const auto outcomes = run_cluster(
      {.node_of = even_nodes(2, 1), .environment = everything_and("SDP4BIT_WORKSPACE", "64K")},
      [](RankContext& rank) {
        constexpr int kThreads = 8, kRounds = 20;
        std::vector<ncclComm_t> comms;
        for (int i = 0; i < kThreads; ++i) comms.push_back(split(rank));
        std::vector<std::string> troubles(kThreads);
        std::vector<std::thread> threads;
        for (std::size_t i = 0; i < kThreads; ++i) {
          threads.emplace_back([&, i] {
            try {
              check(cudaSetDevice(0));
              const cudaStream_t stream = new_stream();
              const Reduction call(kGradient, rank.rank, rank.ranks);
              const DeviceBytes weights(Bytes(2 * 500 * 2));
              for (int round = 0; round < kRounds; ++round) {
                if (round % 3 == 0) check(ncclGroupStart());
                call.issue(comms[i], stream);
                check(ncclAllGather(weights.data() + static_cast<std::size_t>(rank.rank) * 1000,
                                    weights.data(), 500, ncclBfloat16, comms[i], stream));
                if (round % 3 == 0) check(ncclGroupEnd());
                ask(comms[i]);
              }
              check(cudaStreamSynchronize(stream));
              expect_equal(statistics(comms[i], "reduce_scatter").compressed_calls, kRounds - 2, "gradients");
              check(cudaStreamDestroy(stream));
            } catch (const std::exception& error) {
              troubles[i] = error.what();
            }
          });
        }
        for (std::thread& thread : threads) thread.join();
        for (const std::string& trouble : troubles) expect(trouble.empty(), trouble);
        for (const ncclComm_t comm : comms) check(ncclCommDestroy(comm));
      });
  CHECK(failures(outcomes) == "");
}

/// Rank 1 stops calling after some calls, so rank 0's thread gets stuck in one of the next ones, wherever
/// that is; then both abort, and the next communicator works.
TEST_CASE("Crowd.AbortsAtRandomMoments") {
  const auto outcomes = run_cluster(
      {.node_of = even_nodes(2, 1), .environment = everything_and("SANDBOX_NCCL_TIMEOUT", "60")},
      [](RankContext& rank) {
        std::mt19937 random(3);  // the same on both ranks
        const Reduction call(kGradient, rank.rank, rank.ranks);
        const DeviceBytes weights(Bytes(2 * 500 * 2)), word(Bytes(4));
        const auto meet = [&] {
          check(ncclAllReduce(word.data(), word.data(), 1, ncclInt32, ncclSum, rank.comm, rank.stream));
          check(cudaStreamSynchronize(rank.stream));
        };
        for (unsigned round = 0; round < 30; ++round) {
          const ncclComm_t comm = split(rank);
          const cudaStream_t stream = new_stream();
          const auto shared_calls = random() % 20, late = random() % 20000;
          const auto step = [&](unsigned i) {
            const bool grouped = (i + round) % 3 == 0;
            ncclResult_t result = grouped ? ncclGroupStart() : ncclSuccess;
            const auto add = [&](ncclResult_t next) {
              if (result == ncclSuccess) result = next;
            };
            add(call.try_on(comm, stream));
            add(ncclAllGather(weights.data() + static_cast<std::size_t>(rank.rank) * 1000, weights.data(),
                              500, ncclBfloat16, comm, stream));
            if (grouped) add(ncclGroupEnd());
            return result;
          };
          const auto start = Clock::now();
          if (rank.rank == 1) {
            for (unsigned i = 0; i < shared_calls; ++i) check(step(i));
            check(cudaStreamSynchronize(stream));
            meet();
            check(ncclCommAbort(comm));
          } else {
            std::thread caller([&] {
              check(cudaSetDevice(0));
              for (unsigned i = 0; step(i) == ncclSuccess; ++i) {
              }
            });
            meet();
            std::this_thread::sleep_for(std::chrono::microseconds(late));
            check(ncclCommAbort(comm));
            caller.join();
          }
          (void)cudaStreamSynchronize(stream);
          check(cudaStreamDestroy(stream));
          expect(Clock::now() - start < std::chrono::seconds(10), "all ended soon");
        }
        for (int i = 0; i < 4; ++i) call.issue(rank.comm, rank.stream);
        check(cudaStreamSynchronize(rank.stream));
        expect_equal(statistics(rank.comm, "reduce_scatter").compressed_calls, 1, "the next one");
      });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("Crowd.BuffersOfNcclAndScalableCommunicators") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1),
                   .environment = everything_and("SDP4BIT_COMMS", "name:DATA*"),
                   .connect = false},
                  [](RankContext& rank) {
                    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
                    config.commName = "DATA_PARALLEL_GROUP";
                    ncclUniqueId ids[1] = {rank.id};
                    ncclComm_t comm = nullptr;
                    check(ncclCommInitRankScalable(&comm, rank.ranks, rank.rank, 1, ids, &config));
                    void *send = nullptr, *receive = nullptr, *first = nullptr, *second = nullptr;
                    check(ncclMemAlloc(&send, 2 * 300 * 4));
                    check(ncclMemAlloc(&receive, 2 * 300 * 4));
                    check(ncclCommRegister(comm, send, 2 * 300 * 4, &first));
                    check(ncclCommRegister(comm, receive, 2 * 300 * 4, &second));
                    for (int i = 0; i < 12; ++i) {
                      check(ncclReduceScatter(send, receive, 300, ncclFloat32, ncclSum, comm, rank.stream));
                      check(ncclAllGather(receive, send, 300, ncclBfloat16, comm, rank.stream));
                    }
                    check(cudaStreamSynchronize(rank.stream));
                    expect_equal(statistics(comm, "reduce_scatter").compressed_calls, 10, "gradients");
                    expect(statistics(comm, "all_gather").compressed_calls > 0, "weights");
                    check(ncclCommDeregister(comm, first));
                    check(ncclCommDeregister(comm, second));
                    check(ncclMemFree(send));
                    check(ncclMemFree(receive));
                    check(ncclCommDestroy(comm));
                  });
  CHECK(failures(outcomes) == "");
}

std::size_t host_bytes() {
  return ::mallinfo2().uordblks;
}

TEST_CASE("Crowd.TenThousandCallsHoldWhatAThousandDid", "[.slow]") {
  const auto outcomes = run_cluster(
      {.node_of = even_nodes(2, 1),
       .environment = everything_and("SDP4BIT_SAMPLE_ERROR", "16"),
       .timeout_seconds = 800},
      [](RankContext& rank) {
        const Reduction call(kGradient, rank.rank, rank.ranks);
        const DeviceBytes weights(Bytes(2 * 500 * 2));
        std::size_t host_then = 0, free_then = 0, total = 0;
        for (int i = 1; i <= 10'000; ++i) {
          call.issue(rank.comm, rank.stream);
          check(ncclAllGather(weights.data() + static_cast<std::size_t>(rank.rank) * 1000, weights.data(),
                              500, ncclBfloat16, rank.comm, rank.stream));
          if (i % 1000 == 0) check(cudaStreamSynchronize(rank.stream));
          if (i == 1000) {
            host_then = host_bytes();
            check(cudaMemGetInfo(&free_then, &total));
          }
        }
        std::size_t free = 0;
        check(cudaMemGetInfo(&free, &total));
        expect(free == free_then, "device memory is flat");
        expect(host_bytes() < host_then + 256 * 1024, "host memory is flat: " + std::to_string(host_then) +
                                                          ", then " + std::to_string(host_bytes()));
      });
  CHECK(failures(outcomes) == "");
}

}  // namespace
}  // namespace sdp4bit::test
