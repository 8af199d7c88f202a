// Threads and streams that cross: every order that NCCL allows ends, with the right bits, and nobody waits
// for a lock that is held across a call into NCCL.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "catch.h"
#include "life_case.h"

namespace sdp4bit::test {
namespace {

using Clock = std::chrono::steady_clock;
const std::vector<int> kNodes = even_nodes(2, 1);

TEST_CASE("Threads.OppositeOrdersOfCommunicatorsOnDifferentRanksEnd") {
  // Two communicators by two threads on two streams; ranks begin with different ones.
  constexpr int kRounds = 8;
  const GradientCase gradient{.count = 5000};
  const auto outcomes = run_cluster({.node_of = kNodes, .environment = kEverything}, [&](RankContext& rank) {
    ncclComm_t comms[2] = {};
    for (ncclComm_t& comm : comms) check(ncclCommSplit(rank.comm, 0, rank.rank, &comm, nullptr));
    std::unique_ptr<Reduction> calls[2];
    for (auto& call : calls) call = std::make_unique<Reduction>(gradient, rank.rank, rank.ranks);
    std::string troubles[2];
    std::vector<std::thread> threads;
    for (int i = 0; i < 2; ++i) {
      const int which = rank.rank == 0 ? i : 1 - i;
      threads.emplace_back([&, which, i] {
        try {
          check(cudaSetDevice(0));
          const cudaStream_t stream = new_stream();
          std::this_thread::sleep_for(std::chrono::milliseconds(20 * i));
          for (int round = 0; round < kRounds; ++round) calls[which]->issue(comms[which], stream);
          check(cudaStreamSynchronize(stream));
          check(cudaStreamDestroy(stream));
        } catch (const std::exception& error) {
          troubles[which] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& trouble : troubles) expect(trouble.empty(), trouble);
    for (const auto& call : calls) append(rank.result, call->output());
    expect(calls_of("reduce_scatter").compressed == 2 * (kRounds - 3), "compressed");
    for (const ncclComm_t comm : comms) check(ncclCommDestroy(comm));
  });
  REQUIRE(failures(outcomes) == "");
}

TEST_CASE("Threads.AFirstCallNeverWaitsForWorkOfAnotherCommunicator") {
  // Rank 0 has a call of one communicator under way that its peer joins only after both have made their first
  // calls on others. Freeing or allocating memory with a wait for the device would end in a deadlock.
  const auto outcomes = run_cluster(
      {.node_of = kNodes, .environment = everything_and("SANDBOX_NCCL_TIMEOUT", "8")}, [](RankContext& rank) {
        const Reduction call({.count = 400}, rank.rank, rank.ranks);
        ncclComm_t early = nullptr, late = nullptr;
        check(ncclCommSplit(rank.comm, 0, rank.rank, &early, nullptr));
        check(ncclCommSplit(rank.comm, 0, rank.rank, &late, nullptr));
        const cudaStream_t other = new_stream();
        for (int i = 0; i < 6; ++i) call.issue(early, rank.stream);  // agreed, and connected
        check(cudaStreamSynchronize(rank.stream));
        if (rank.rank == 0) call.issue(early, rank.stream);
        const Reduction second({.count = 300}, rank.rank, rank.ranks);
        second.issue(late, other);
        for (int i = 0; i < 4; ++i) second.issue(late, other);
        check(cudaStreamSynchronize(other));
        if (rank.rank == 1) call.issue(early, rank.stream);
        check(cudaDeviceSynchronize());
        check(ncclCommDestroy(early));
        check(ncclCommDestroy(late));
        check(cudaStreamDestroy(other));
      });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("Threads.OneThreadInsideNcclHindersNoOther") {
  const auto outcomes = run_cluster(
      {.node_of = kNodes, .environment = everything_and("SANDBOX_NCCL_TIMEOUT", "20")},
      [](RankContext& rank) {
        const Reduction call({.count = 400}, rank.rank, rank.ranks),
            blocked({.count = 400}, rank.rank, rank.ranks);
        ncclComm_t a = nullptr, b = nullptr;
        check(ncclCommSplit(rank.comm, 0, rank.rank, &a, nullptr));
        check(ncclCommSplit(rank.comm, 0, rank.rank, &b, nullptr));
        const cudaStream_t other = new_stream();
        for (int i = 0; i < 3; ++i) blocked.issue(a, other);
        for (int i = 0; i < 3; ++i) call.issue(b, rank.stream);
        check(cudaDeviceSynchronize());
        // The fourth call connects: it stays in NCCL until the peer comes, which is last of all.
        std::atomic<int> done{0};
        std::string trouble;
        std::jthread caller;  // joined also where something is thrown: its own trouble is then seen
        const auto on_a = [&] {
          try {
            check(cudaSetDevice(0));
            blocked.issue(a, other);
          } catch (const std::exception& error) {
            trouble = error.what();
          }
          done.store(1);
        };
        if (rank.rank == 0) {
          caller = std::jthread(on_a);
          std::this_thread::sleep_for(std::chrono::milliseconds(100));
        }
        for (int i = 0; i < 5; ++i) call.issue(b, rank.stream);
        ncclComm_t c = nullptr;
        check(ncclCommSplit(rank.comm, 0, rank.rank, &c, nullptr));
        ncclRedOp_t op = ncclSum;
        float scalar = 2;
        check(ncclRedOpCreatePreMulSum(&op, &scalar, ncclFloat32, ncclScalarHostImmediate, c));
        check(ncclRedOpDestroy(op, c));
        check(cudaStreamSynchronize(rank.stream));
        expect(rank.rank == 1 || done.load() == 0, "still inside");
        // Only now may the peer come: it waits here for what was just looked at.
        const DeviceBytes looked(Bytes(4));
        check(ncclAllReduce(looked.data(), looked.data(), 1, ncclFloat32, ncclSum, c, rank.stream));
        check(cudaStreamSynchronize(rank.stream));
        if (rank.rank == 1) on_a();
        if (caller.joinable()) caller.join();
        expect(trouble.empty(), trouble);
        check(cudaDeviceSynchronize());
        for (const ncclComm_t comm : {a, b, c}) check(ncclCommDestroy(comm));
        check(cudaStreamDestroy(other));
      });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("Threads.BuffersMayBeOverwrittenAndFreedInStreamOrderRightAfterTheCall") {
  const GradientCase gradient{.count = 20000};
  const std::size_t out = gradient.count * sizeof(float);
  const auto outcomes = run_cluster({.node_of = kNodes, .environment = kEverything}, [&](RankContext& rank) {
    engage(rank);
    const Bytes input = input_of(gradient, rank.rank, rank.ranks);
    const DeviceBytes source(input), kept(out * 5);
    const cudaStream_t other = new_stream();
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    for (std::size_t round = 0; round < 5; ++round) {
      void *send = nullptr, *receive = nullptr;
      check(cudaMallocAsync(&send, input.size(), rank.stream));
      check(cudaMallocAsync(&receive, out, rank.stream));
      check(cudaMemcpyAsync(send, source.data(), input.size(), cudaMemcpyDeviceToDevice, rank.stream));
      check(ncclReduceScatter(send, receive, gradient.count, ncclFloat32, ncclSum, rank.comm, rank.stream));
      if (round % 2 == 0) {
        check(cudaMemsetAsync(send, 0xff, input.size(), rank.stream));  // NaN, if anyone read it now
        check(cudaFreeAsync(send, rank.stream));
        check(
            cudaMemcpyAsync(kept.data() + round * out, receive, out, cudaMemcpyDeviceToDevice, rank.stream));
      } else {
        // Another stream takes over by an event, reads, and reuses both.
        check(cudaEventRecord(event, rank.stream));
        check(cudaStreamWaitEvent(other, event, 0));
        check(cudaMemcpyAsync(kept.data() + round * out, receive, out, cudaMemcpyDeviceToDevice, other));
        check(cudaMemsetAsync(send, 0xff, input.size(), other));
        check(cudaFreeAsync(send, other));
        check(cudaEventRecord(event, other));
        check(cudaStreamWaitEvent(rank.stream, event, 0));
      }
      check(cudaFreeAsync(receive, rank.stream));
    }
    check(cudaDeviceSynchronize());
    rank.result = kept.read();
    check(cudaEventDestroy(event));
    check(cudaStreamDestroy(other));
  });
  REQUIRE(failures(outcomes) == "");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    Bytes expected;
    for (std::uint64_t draw = 0; draw < 5; ++draw)
      append(expected, expected_outputs(gradient, kNodes, draw)[rank]);
    CHECK(outcomes[rank].result == expected);
  }
}

TEST_CASE("Threads.ManyThreadsTakeTurnsOnOneCommunicator") {
  const GradientCase gradient{.count = 600};
  constexpr int kTurns = 12;
  const auto outcomes = run_cluster({.node_of = kNodes, .environment = kEverything}, [&](RankContext& rank) {
    engage(rank);
    std::vector<std::unique_ptr<Reduction>> calls;
    for (int i = 0; i < kTurns; ++i)
      calls.push_back(std::make_unique<Reduction>(gradient, rank.rank, rank.ranks));
    std::atomic<int> turn{0};
    std::string troubles[3];
    std::vector<std::thread> threads;
    for (int who = 0; who < 3; ++who) {
      threads.emplace_back([&, who] {
        try {
          check(cudaSetDevice(0));
          const cudaStream_t stream = new_stream();
          for (int mine = who; mine < kTurns; mine += 3) {
            while (turn.load() != mine) std::this_thread::yield();
            calls[static_cast<std::size_t>(mine)]->issue(rank.comm, stream);
            turn.store(mine + 1);
          }
          check(cudaStreamSynchronize(stream));
          check(cudaStreamDestroy(stream));
        } catch (const std::exception& error) {
          troubles[who] = error.what();
          turn.store(kTurns * 2);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const std::string& trouble : troubles) expect(trouble.empty(), trouble);
    for (const auto& call : calls) append(rank.result, call->output());
  });
  REQUIRE(failures(outcomes) == "");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    Bytes expected;
    for (std::uint64_t draw = 0; draw < kTurns; ++draw)
      append(expected, expected_outputs(gradient, kNodes, draw)[rank]);
    CHECK(outcomes[rank].result == expected);
  }
}

}  // namespace
}  // namespace sdp4bit::test
