// Communicators that are split, shrunk, revoked, finalized, aborted and made anew: each starts with nothing
// and leaves nothing.
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <fstream>
#include <thread>

#include "catch.h"
#include "life_case.h"
#include "sandbox/nccl/newer.h"

namespace sdp4bit::test {
namespace {

using Clock = std::chrono::steady_clock;
const GradientCase kGradient{.count = 900};

std::uint64_t compressed() {
  return calls_of("reduce_scatter").compressed;
}

/// Calls on a communicator until the last is compressed; returns how many were.
std::uint64_t train(ncclComm_t comm, const Reduction& call, cudaStream_t stream, int calls = 5) {
  const std::uint64_t before = compressed();
  for (int i = 0; i < calls; ++i) call.issue(comm, stream);
  check(cudaStreamSynchronize(stream));
  return compressed() - before;
}

int rank_in(ncclComm_t comm) {
  int rank = 0;
  check(ncclCommUserRank(comm, &rank));
  return rank;
}

ncclComm_t split(const RankContext& rank, ncclComm_t parent, ncclConfig_t* config = nullptr) {
  ncclComm_t child = nullptr;
  check(ncclCommSplit(parent, 0, rank.rank, &child, config));
  return child;
}

TEST_CASE("CommLife.ASplitChildStartsWithNothing") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kEverything}, [](RankContext& rank) {
        const Reduction call(kGradient, rank.rank, rank.ranks);
        expect(train(rank.comm, call, rank.stream) == 2, "the parent agreed by its third call");
        const DeviceBytes weights(Bytes(kGradient.count * 2 * 2));
        const auto gather = [&](ncclComm_t comm) {
          check(ncclAllGather(weights.data() + static_cast<std::size_t>(rank_in(comm)) * kGradient.count * 2,
                              weights.data(), kGradient.count, ncclBfloat16, comm, rank.stream));
        };
        for (int i = 0; i < 14; ++i) gather(rank.comm);
        const std::uint64_t gathered = calls_of("all_gather").compressed;
        expect(gathered > 0, "the parent sends differences");
        const ncclComm_t child = split(rank, rank.comm);
        expect(train(child, call, rank.stream) == 2, "the child agrees by itself");
        for (int i = 0; i < 4; ++i) gather(child);
        expect(calls_of("all_gather").compressed == gathered, "and learns by itself");
        expect(train(rank.comm, call, rank.stream) == 5, "the parent goes on");
        check(ncclCommDestroy(child));
      });
  CHECK(failures(outcomes) == "");
}

void shrink_from_four_to_three(int flags) {
  const auto outcomes =
      run_cluster({.node_of = {0, 1, 2, 3}, .environment = kEverything}, [=](RankContext& rank) {
        const Reduction call(kGradient, rank.rank, rank.ranks);
        expect(train(rank.comm, call, rank.stream) == 2, "all four");
        if (rank.rank == 3) return;
        int excluded[] = {3};
        ncclComm_t survivors = nullptr;
        check(ncclCommShrink(rank.comm, excluded, 1, &survivors, nullptr, flags));
        const Reduction smaller(kGradient, rank_in(survivors), 3);
        expect(train(survivors, smaller, rank.stream) == 2, "the three agree anew");
        rank.result = smaller.output();
        if (flags & NCCL_SHRINK_ABORT) {
          expect(call.try_on(rank.comm, rank.stream) != ncclSuccess, "the parent is out of step");
        }
        check(ncclCommDestroy(survivors));
        if (flags & NCCL_SHRINK_ABORT) check(ncclCommAbort(std::exchange(rank.comm, nullptr)));
      });
  REQUIRE(failures(outcomes) == "");
  const std::vector<int> nodes{0, 1, 2};
  // Two draws: the library numbers them by communicator.
  for (int rank = 0; rank < 3; ++rank) {
    const std::vector<double> exact = exact_output(kGradient, rank, 3);
    const std::vector<float> got =
        to_floats(ElementType::float32, outcomes[static_cast<std::size_t>(rank)].result);
    double error = 0, norm = 0;
    for (std::size_t i = 0; i < exact.size(); ++i) {
      error += (double{got[i]} - exact[i]) * (double{got[i]} - exact[i]);
      norm += exact[i] * exact[i];
    }
    CHECK(std::sqrt(error / norm) < 0.2);
  }
}

TEST_CASE("CommLife.ShrinkingLeavesTheSurvivorsWithAFreshCommunicator") {
  SECTION("in order") {
    shrink_from_four_to_three(NCCL_SHRINK_DEFAULT);
  }
  SECTION("after an error") {
    shrink_from_four_to_three(NCCL_SHRINK_ABORT);
  }
}

void wait_until_ready(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) check(ncclCommGetAsyncError(comm, &state));
  check(state);
}

/// Ranks 0 and 1 have `parent`, which is null on rank 2, and make a communicator of all three.
ncclComm_t grow_to_three(const RankContext& rank, ncclComm_t parent, ncclConfig_t* config) {
  ncclUniqueId id{};
  if (rank.rank == 0) check(ncclCommGetUniqueId(parent, &id));
  const DeviceBytes carried(sizeof id);
  check(cudaMemcpy(carried.data(), &id, sizeof id, cudaMemcpyHostToDevice));
  check(ncclBroadcast(carried.data(), carried.data(), sizeof id, ncclUint8, 0, rank.comm, rank.stream));
  check(cudaStreamSynchronize(rank.stream));
  check(cudaMemcpy(&id, carried.data(), sizeof id, cudaMemcpyDeviceToHost));
  ncclComm_t grown = nullptr;
  const bool joins = rank.rank == 2, gives_id = rank.rank != 1;
  const ncclResult_t made =
      ncclCommGrow(parent, 3, gives_id ? &id : nullptr, joins ? rank.rank : -1, &grown, config);
  expect(made == ncclSuccess || made == ncclInProgress, "grown");
  wait_until_ready(grown);
  return grown;
}

TEST_CASE("CommLife.AGrownCommunicatorStartsWithNothing") {
  const auto outcomes = run_cluster(
      {.node_of = even_nodes(3, 1), .environment = everything_and("SDP4BIT_COMMS", "name:GROWN")},
      [](RankContext& rank) {
        ncclComm_t pair = nullptr;
        ncclConfig_t named = NCCL_CONFIG_INITIALIZER;
        named.commName = "GROWN";
        const int color = rank.rank == 2 ? NCCL_SPLIT_NOCOLOR : 0;
        check(ncclCommSplit(rank.comm, color, rank.rank, &pair, &named));
        const Reduction of_two(kGradient, rank.rank, 2), of_three(kGradient, rank.rank, 3);
        if (pair) expect(train(pair, of_two, rank.stream) == 2, "the parent agrees");
        const ncclComm_t grown = grow_to_three(rank, pair, &named);
        expect(train(grown, of_three, rank.stream) == 2, "the grown one agrees anew, by its name");
        check(ncclCommDestroy(grown));
        const ncclComm_t unnamed = grow_to_three(rank, pair, nullptr);
        expect(train(unnamed, of_three, rank.stream) == 0, "a name is not handed on");
        check(ncclCommDestroy(unnamed));
        named.blocking = 0;
        const ncclComm_t other = grow_to_three(rank, pair, &named);
        for (int i = 0; i < 5; ++i) {
          (void)of_three.try_on(other, rank.stream);
          wait_until_ready(other);
        }
        expect(calls_of("reduce_scatter").compressed == (pair ? 4u : 2u), "its mode is known");
        check(ncclCommDestroy(other));
        if (pair) {
          expect(train(pair, of_two, rank.stream) == 5, "the parent goes on");
          check(ncclCommDestroy(pair));
        }
      });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("CommLife.FinalizeAndDestroyWithWorkUnderWay") {
  for (const bool finalize : {false, true}) {
    const auto outcomes =
        run_cluster({.node_of = even_nodes(2, 1), .environment = kEverything}, [=](RankContext& rank) {
          const Reduction call(kGradient, rank.rank, rank.ranks);
          const ncclComm_t comm = split(rank, rank.comm);
          for (int i = 0; i < 12; ++i) call.issue(comm, rank.stream);
          if (finalize) {
            check(ncclCommFinalize(comm));
            expect(call.try_on(comm, rank.stream) != ncclSuccess, "NCCL refuses calls then");
          }
          check(ncclCommDestroy(comm));
          check(cudaStreamSynchronize(rank.stream));
          rank.result = call.output();
          expect(train(rank.comm, call, rank.stream) == 2, "others go on");
        });
    CHECK(failures(outcomes) == "");
  }
}

TEST_CASE("CommLife.ARevokedCommunicatorReturnsErrors") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kEverything}, [](RankContext& rank) {
        const Reduction call(kGradient, rank.rank, rank.ranks);
        const ncclComm_t comm = split(rank, rank.comm);
        train(comm, call, rank.stream);
        expect(ncclCommRevoke(comm, 77) == ncclInvalidArgument, "flags that are none");
        expect(train(comm, call, rank.stream, 2) == 2, "change nothing");
        for (int i = 0; i < 4; ++i) call.issue(comm, rank.stream);
        check(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT));
        for (int i = 0; i < 2; ++i) expect(call.try_on(comm, rank.stream) != ncclSuccess, "an error");
        check(ncclGroupStart());
        (void)call.try_on(comm, rank.stream);
        expect(ncclGroupEnd() != ncclSuccess, "in a group too");
        check(ncclCommDestroy(comm));
        expect(train(rank.comm, call, rank.stream) == 2, "others go on");
      });
  CHECK(failures(outcomes) == "");
}

// What a message never filled is read by the kernels behind it: no error of the device may come of it.
TEST_CASE("CommLife.AnAbortEndsACompressedCallUnderWay") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kEverything}, [](RankContext& rank) {
        const Reduction small({.count = 300}, rank.rank, rank.ranks),
            large({.count = 9000}, rank.rank, rank.ranks);
        const ncclComm_t comm = split(rank, rank.comm);
        expect(train(comm, small, rank.stream) == 2, "compressed, and connected");
        if (rank.rank == 0) large.issue(comm, rank.stream);  // the peer makes none
        check(ncclCommAbort(comm));
        check(cudaStreamSynchronize(rank.stream));
        expect(train(rank.comm, small, rank.stream) == 2, "others go on");
      });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("CommLife.TwentyLivesAtOneAddressAreTwentyCommunicators") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kEverything}, [](RankContext& rank) {
        const Reduction call(kGradient, rank.rank, rank.ranks);
        int again = 0;
        ncclComm_t last = nullptr;
        for (int life = 0; life < 20; ++life) {
          const ncclComm_t comm = split(rank, rank.comm);
          again += comm == last;
          last = comm;
          expect(train(comm, call, rank.stream, 4) == 1, "agreed anew by the fourth call");
          check(life % 3 == 2 ? ncclCommAbort(comm) : ncclCommDestroy(comm));
        }
        expect(again > 0, "some handle came again");
      });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("CommLife.RanksDestroyInOrdersOfTheirOwn") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 2), .environment = kEverything}, [](RankContext& rank) {
        const Reduction call(kGradient, rank.rank, rank.ranks);
        ncclComm_t comms[5];
        for (ncclComm_t& comm : comms) comm = split(rank, rank.comm);
        for (const ncclComm_t comm : comms) expect(train(comm, call, rank.stream) == 2, "compressed");
        for (int i = 0; i < 5; ++i) {
          const int place = (i * (1 + rank.rank) + rank.rank) % 5;
          if (i == 2) expect(train(rank.comm, call, rank.stream, 4) == 1, "between them");
          check(ncclCommDestroy(comms[place]));
        }
      });
  CHECK(failures(outcomes) == "");
}

/// A rank that stays away leaves the others inside a call; another thread aborts under them.
void abort_under_a_call(bool in_abort_group) {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = everything_and("SANDBOX_NCCL_TIMEOUT", "30")},
                  [=](RankContext& rank) {
                    const Reduction call(kGradient, rank.rank, rank.ranks);
                    const ncclComm_t first = split(rank, rank.comm), second = split(rank, rank.comm);
                    // Three calls each: the fourth reads the handshake and connects, which blocks until the
                    // peer comes.
                    for (const ncclComm_t comm : {first, second}) train(comm, call, rank.stream, 3);
                    const auto start = Clock::now();
                    if (rank.rank == 0) {
                      std::atomic<bool> inside{false};
                      ncclResult_t result = ncclSuccess;
                      std::thread caller([&] {
                        check(cudaSetDevice(0));
                        inside.store(true);
                        result = call.try_on(first, rank.stream);
                      });
                      while (!inside.load()) std::this_thread::yield();
                      std::this_thread::sleep_for(std::chrono::milliseconds(100));
                      if (in_abort_group) check(ncclGroupStart());
                      check(ncclCommAbort(first));
                      check(ncclCommAbort(second));
                      if (in_abort_group) check(ncclGroupEnd());
                      caller.join();
                      expect(result != ncclSuccess, "the call that was under way says so");
                    } else {
                      std::this_thread::sleep_for(std::chrono::milliseconds(300));
                      check(ncclCommAbort(first));
                      check(ncclCommAbort(second));
                    }
                    expect(Clock::now() - start < std::chrono::seconds(8), "all ended soon");
                    expect(train(rank.comm, call, rank.stream) == 2, "others go on");
                  });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("CommLife.AnAbortOfAnotherThreadEndsACallUnderWay") {
  SECTION("one by one") {
    abort_under_a_call(false);
  }
  SECTION("in a group") {
    abort_under_a_call(true);
  }
}

TEST_CASE("CommLife.AnAbortEndsTheWaitForTheHandshake") {
  Environment environment = everything_and("SANDBOX_NCCL_TIMEOUT", "30");
  environment.emplace_back("NCCL_DEBUG", "WARN");
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = environment}, [](RankContext& rank) {
        const Reduction call(kGradient, rank.rank, rank.ranks);
        const ncclComm_t comm = split(rank, rank.comm);
        // NCCL's own first call waits until all ranks have come to it.
        const DeviceBytes word(Bytes(4));
        check(ncclAllReduce(word.data(), word.data(), 1, ncclInt32, ncclSum, comm, rank.stream));
        check(cudaStreamSynchronize(rank.stream));
        const auto start = Clock::now();
        if (rank.rank == 0) {
          ncclResult_t result = ncclSuccess;
          std::thread caller([&] {
            check(cudaSetDevice(0));
            for (int i = 0; i < 4 && result == ncclSuccess; ++i) result = call.try_on(comm, rank.stream);
          });
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
          check(ncclCommAbort(comm));
          caller.join();
          expect(result != ncclSuccess, "the wait ended with an error");
        } else {
          std::this_thread::sleep_for(std::chrono::milliseconds(500));
          check(ncclCommAbort(comm));
        }
        expect(Clock::now() - start < std::chrono::seconds(8), "soon");
        check(cudaStreamSynchronize(rank.stream));
      });
  CHECK(failures(outcomes) == "");
  CHECK(outcomes[0].log.find("aborted or revoked while a call was under way") != std::string::npos);
  // The real NCCL frees what the handle points to.
  for (const Outcome& outcome : outcomes) CHECK(outcome.log.find("or was destroyed") == std::string::npos);
}

TEST_CASE("CommLife.NonBlockingCommunicatorsAreNativeForAll") {
  // One rank's program polls, the other's calls at once: ours wait where NCCL would refuse.
  const auto outcomes = run_cluster(
      {.node_of = even_nodes(2, 1), .environment = kEverything, .connect = false}, [](RankContext& rank) {
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        ncclComm_t comm = nullptr;
        const ncclResult_t created = ncclCommInitRankConfig(&comm, rank.ranks, rank.id, rank.rank, &config);
        expect(created == ncclSuccess || created == ncclInProgress, "created");
        wait_until_ready(comm);
        const Reduction call(kGradient, rank.rank, rank.ranks);
        for (int i = 0; i < 6; ++i) {
          const ncclResult_t result = call.try_on(comm, rank.stream);
          expect(result == ncclSuccess || result == ncclInProgress, "called");
          wait_until_ready(comm);
        }
        check(cudaStreamSynchronize(rank.stream));
        rank.result = call.output();
        expect(compressed() == 0 && calls_of("reduce_scatter").all == 6, "all native");
        const ncclResult_t finalized = ncclCommFinalize(comm);
        expect(finalized == ncclSuccess || finalized == ncclInProgress, "finalized");
        wait_until_ready(comm);
        check(ncclCommDestroy(comm));
      });
  REQUIRE(failures(outcomes) == "");
  for (int rank = 0; rank < 2; ++rank) {
    const std::vector<double> exact = exact_output(kGradient, rank, 2);
    const std::vector<float> got =
        to_floats(ElementType::float32, outcomes[static_cast<std::size_t>(rank)].result);
    for (std::size_t i = 0; i < exact.size(); ++i) CHECK(got[i] == static_cast<float>(exact[i]));
  }
}

TEST_CASE("CommLife.EightThreadsSplitANonBlockingParent") {
  const auto outcomes =
      run_cluster({.node_of = {0}, .environment = everything_and("SANDBOX_DEVICES", "8"), .connect = false},
                  [](RankContext&) {
                    constexpr int kRanks = 8;
                    ncclUniqueId id;
                    check(ncclGetUniqueId(&id));
                    std::vector<std::string> troubles(kRanks);
                    std::vector<std::thread> threads;
                    for (int rank = 0; rank < kRanks; ++rank) {
                      threads.emplace_back([&, rank] {
                        try {
                          check(cudaSetDevice(rank));
                          ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
                          config.blocking = 0;
                          ncclComm_t parent = nullptr;
                          (void)ncclCommInitRankConfig(&parent, kRanks, id, rank, &config);
                          wait_until_ready(parent);
                          const cudaStream_t stream = new_stream();
                          const Reduction call({.count = 50}, rank / 2, kRanks / 2);
                          for (int round = 0; round < 50; ++round) {
                            ncclComm_t child = nullptr;
                            const ncclResult_t made = ncclCommSplit(parent, rank % 2, rank, &child, nullptr);
                            expect(made == ncclSuccess || made == ncclInProgress, "split");
                            wait_until_ready(parent);
                            wait_until_ready(child);
                            for (int i = 0; i < 4; ++i) {
                              (void)call.try_on(child, stream);
                              wait_until_ready(child);
                            }
                            check(cudaStreamSynchronize(stream));
                            check(ncclCommDestroy(child));
                          }
                          check(ncclCommDestroy(parent));
                          check(cudaStreamDestroy(stream));
                        } catch (const std::exception& error) {
                          troubles[static_cast<std::size_t>(rank)] = error.what();
                        }
                      });
                    }
                    for (std::thread& thread : threads) thread.join();
                    for (const std::string& trouble : troubles) expect(trouble.empty(), trouble);
                    check(cudaSetDevice(0));
                  });
  CHECK(failures(outcomes) == "");
}

std::size_t resident_bytes() {
  std::size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// Memory after `first` lives is what it is after `more` further ones, with a graph in each.
void live_and_stay_flat(int first, int more) {
  const auto outcomes = run_cluster(
      {.node_of = even_nodes(2, 1),
       .environment = everything_and("SDP4BIT_WORKSPACE", "1M"),
       .timeout_seconds = 800},
      [=](RankContext& rank) {
        const Reduction call({.count = 200}, rank.rank, rank.ranks);
        std::size_t free_then = 0, resident_then = 0;
        for (int life = 1; life <= first + more; ++life) {
          const ncclComm_t comm = split(rank, rank.comm);
          for (int i = 0; i < 4; ++i) call.issue(comm, rank.stream);
          {
            const Graph graph(rank.stream, [&] { call.issue(comm, rank.stream); });
            graph.replay(rank.stream);
            check(cudaStreamSynchronize(rank.stream));
          }
          check(ncclCommDestroy(comm));
          if (life != first && life != first + more) continue;
          std::size_t free = 0, total = 0;
          check(cudaMemGetInfo(&free, &total));
          const std::size_t resident = resident_bytes();
          if (life > first) {
            expect(free == free_then, "device memory is flat");
            expect(resident < resident_then + (4u << 20),
                   "host memory is flat: " + std::to_string(resident_then) + ", then " +
                       std::to_string(resident));
          }
          free_then = free;
          resident_then = resident;
        }
        expect(compressed() == 2 * static_cast<std::uint64_t>(first + more), "one eager, one captured call");
      });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("CommLife.AThousandCapturedLivesLeaveNothing", "[.slow]") {
  live_and_stay_flat(400, 1000);
}

}  // namespace
}  // namespace sdp4bit::test
