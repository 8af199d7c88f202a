// Graphs that hold compressed calls: how long they last, what they may be part of, and who captures beside
// them.
#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "catch.h"
#include "life_case.h"

namespace sdp4bit::test {
namespace {

constexpr std::size_t kCount = 700;
const GradientCase kGradient{.count = kCount};
const std::vector<int> kNodes = even_nodes(2, 1);

/// What draws 0 to `end` - 1 give a rank, one behind the other.
Bytes draws(int rank, std::uint64_t end) {
  Bytes all;
  for (std::uint64_t draw = 0; draw < end; ++draw)
    append(all, expected_outputs(kGradient, kNodes, draw)[static_cast<std::size_t>(rank)]);
  return all;
}

void require_draws(const std::vector<Outcome>& outcomes, std::uint64_t end) {
  REQUIRE(failures(outcomes) == "");
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank)
    CHECK(outcomes[rank].result == draws(static_cast<int>(rank), end));
}

TEST_CASE("GraphLife.AHundredRoundsOfReplaysAndEagerCallsAreOneSequence") {
  // The expectation is a function of the seed and the number of the draw: another run gives the same again.
  constexpr std::size_t kRounds = 100, kBytes = kCount * sizeof(float);
  const auto outcomes = run_cluster({.node_of = kNodes, .environment = kEverything}, [](RankContext& rank) {
    engage(rank);
    const Reduction call(kGradient, rank.rank, rank.ranks);
    const DeviceBytes all((1 + 2 * kRounds) * kBytes);
    std::byte* next = all.data();
    const auto keep = [&] {
      check(cudaMemcpyAsync(next, call.receive().data(), kBytes, cudaMemcpyDeviceToDevice, rank.stream));
      next += kBytes;
    };
    call.issue(rank.comm, rank.stream);
    keep();
    const Graph graph(rank.stream, [&] { call.issue(rank.comm, rank.stream); });
    for (std::size_t round = 0; round < kRounds; ++round) {
      graph.replay(rank.stream);
      keep();
      call.issue(rank.comm, rank.stream);
      keep();
    }
    check(cudaStreamSynchronize(rank.stream));
    rank.result = all.read();
  });
  require_draws(outcomes, 201);
}

TEST_CASE("GraphLife.AForkInsideACaptureSharesTheWorkspaceInOrder") {
  const auto outcomes = run_cluster({.node_of = kNodes, .environment = kEverything}, [](RankContext& rank) {
    engage(rank);
    const Reduction eager(kGradient, rank.rank, rank.ranks), one(kGradient, rank.rank, rank.ranks),
        two(kGradient, rank.rank, rank.ranks);
    eager.issue(rank.comm, rank.stream);
    const cudaStream_t side = new_stream();
    cudaEvent_t fork = nullptr, join = nullptr;
    check(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    check(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    const Graph graph(rank.stream, [&] {
      check(cudaEventRecord(fork, rank.stream));
      check(cudaStreamWaitEvent(side, fork, 0));
      one.issue(rank.comm, side);
      two.issue(rank.comm, rank.stream);
      check(cudaEventRecord(join, side));
      check(cudaStreamWaitEvent(rank.stream, join, 0));
    });
    graph.replay(rank.stream);
    check(cudaDeviceSynchronize());
    for (const Reduction* call : {&eager, &one, &two}) append(rank.result, call->output());
    check(cudaEventDestroy(fork));
    check(cudaEventDestroy(join));
    check(cudaStreamDestroy(side));
  });
  require_draws(outcomes, 3);
}

TEST_CASE("GraphLife.TwoCapturesAtATimeTakeTurnsOnOneCommunicator") {
  const auto outcomes = run_cluster({.node_of = kNodes, .environment = kEverything}, [](RankContext& rank) {
    engage(rank);
    std::vector<std::unique_ptr<Reduction>> calls;
    for (int i = 0; i < 5; ++i)
      calls.push_back(std::make_unique<Reduction>(kGradient, rank.rank, rank.ranks));
    calls[0]->issue(rank.comm, rank.stream);
    const cudaStream_t other = new_stream(), side = new_stream();
    cudaEvent_t fork = nullptr, join = nullptr;
    check(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
    check(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
    std::unique_ptr<Graph> inner;
    const Graph outer(rank.stream, [&] {
      check(cudaEventRecord(fork, rank.stream));
      check(cudaStreamWaitEvent(side, fork, 0));
      calls[1]->issue(rank.comm, rank.stream);
      inner = std::make_unique<Graph>(other, [&] {
        calls[3]->issue(rank.comm, other);
        calls[2]->issue(rank.comm, side);  // the outer one again, where only the library orders it
        calls[4]->issue(rank.comm, other);
      });
      check(cudaEventRecord(join, side));
      check(cudaStreamWaitEvent(rank.stream, join, 0));
    });
    outer.replay(rank.stream);  // on two streams, one after the other by the library's own events
    inner->replay(other);
    check(cudaDeviceSynchronize());
    for (const auto& call : calls) append(rank.result, call->output());
    inner.reset();
    check(cudaEventDestroy(fork));
    check(cudaEventDestroy(join));
    check(cudaStreamDestroy(side));
    check(cudaStreamDestroy(other));
  });
  require_draws(outcomes, 5);
}

TEST_CASE("GraphLife.ACapturedGraphWorksAsAChildOfAnother") {
  const auto outcomes = run_cluster({.node_of = kNodes, .environment = kEverything}, [](RankContext& rank) {
    engage(rank);
    const Reduction call(kGradient, rank.rank, rank.ranks);
    call.issue(rank.comm, rank.stream);
    check(cudaStreamSynchronize(rank.stream));
    append(rank.result, call.output());
    cudaGraph_t parent = nullptr;
    check(cudaGraphCreate(&parent, 0));
    {
      const Graph child(rank.stream, [&] { call.issue(rank.comm, rank.stream); });
      cudaGraphNode_t node = nullptr;
      check(cudaGraphAddChildGraphNode(&node, parent, nullptr, 0, child.get()));
    }
    cudaGraphExec_t executable = nullptr;
    check(cudaGraphInstantiate(&executable, parent, 0));
    check(cudaGraphDestroy(parent));
    for (int round = 0; round < 2; ++round) {
      check(cudaGraphLaunch(executable, rank.stream));
      check(cudaStreamSynchronize(rank.stream));
      append(rank.result, call.output());
    }
    check(cudaGraphExecDestroy(executable));
  });
  require_draws(outcomes, 3);
}

TEST_CASE("GraphLife.DestroyingWaitsForTheGraphsWhoseReplaysStayRight") {
  // NCCL's rule: it lets go of a communicator when the last graph with a call on it is gone. Memory that
  // replays use must outlast that, whatever another communicator frees meanwhile.
  const auto outcomes = run_cluster({.node_of = kNodes, .environment = kEverything}, [](RankContext& rank) {
    ncclComm_t doomed = nullptr, other = nullptr;
    check(ncclCommSplit(rank.comm, 0, rank.rank, &doomed, nullptr));
    check(ncclCommSplit(rank.comm, 0, rank.rank, &other, nullptr));
    const Reduction call(kGradient, rank.rank, rank.ranks);
    for (int i = 0; i < 4; ++i) call.issue(doomed, rank.stream);
    auto graph = std::make_unique<Graph>(rank.stream, [&] { call.issue(doomed, rank.stream); });
    graph->drop_template();
    check(cudaStreamSynchronize(rank.stream));
    std::atomic<bool> gone{false};
    std::thread destroyer([&] {
      check(cudaSetDevice(0));
      check(ncclCommDestroy(doomed));
      gone.store(true);
    });
    for (int life = 0; life < 3; ++life) {  // whose ends free what lies there to be freed
      ncclComm_t brief = nullptr;
      check(ncclCommSplit(other, 0, rank.rank, &brief, nullptr));
      call.issue(brief, rank.stream);
      check(cudaStreamSynchronize(rank.stream));
      check(ncclCommDestroy(brief));
    }
    graph->replay(rank.stream);
    check(cudaStreamSynchronize(rank.stream));
    rank.result = call.output();
    expect(!gone.load(), "the destruction waits");
    graph.reset();
    destroyer.join();
    check(ncclCommDestroy(other));
  });
  REQUIRE(failures(outcomes) == "");
  for (std::size_t rank = 0; rank < 2; ++rank) {
    const std::vector<double> exact = exact_output(kGradient, static_cast<int>(rank), 2);
    const std::vector<double> bound = std::vector<double>(kCount, 2.0);
    const std::vector<float> got = to_floats(ElementType::float32, outcomes[rank].result);
    for (std::size_t i = 0; i < kCount; ++i) CHECK(std::abs(double{got[i]} - exact[i]) <= bound[i]);
  }
}

TEST_CASE("GraphLife.MemoryGoesWithTheLastGraph") {
  const auto outcomes = run_cluster({.node_of = kNodes, .environment = kEverything}, [](RankContext& rank) {
    const Reduction call(kGradient, rank.rank, rank.ranks);
    std::size_t free_at_first = 0;
    for (int life = 0; life < 5; ++life) {
      ncclComm_t comm = nullptr;
      check(ncclCommSplit(rank.comm, 0, rank.rank, &comm, nullptr));
      for (int i = 0; i < 4; ++i) call.issue(comm, rank.stream);
      for (int graphs = 0; graphs < 3; ++graphs) {
        const Graph graph(rank.stream, [&] { call.issue(comm, rank.stream); });
        graph.replay(rank.stream);
        check(cudaStreamSynchronize(rank.stream));
      }
      check(ncclCommDestroy(comm));
      std::size_t free = 0, total = 0;
      check(cudaMemGetInfo(&free, &total));
      if (life == 0) free_at_first = free;
      expect(free == free_at_first, "device memory of a captured communicator is back");
    }
  });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("GraphLife.GathersInACaptureAreNative") {
  const auto outcomes = run_cluster({.node_of = kNodes, .environment = kEverything}, [](RankContext& rank) {
    const auto ranks = static_cast<std::size_t>(rank.ranks);
    const std::size_t bytes = kCount * 2;
    Bytes mine(bytes);
    for (std::size_t i = 0; i < bytes; ++i)
      mine[i] = std::byte((i * 7 + static_cast<std::size_t>(rank.rank)) % 60);
    const DeviceBytes send(mine), receive(bytes * ranks);
    const auto gather = [&] {
      check(ncclAllGather(send.data(), receive.data(), kCount, ncclBfloat16, rank.comm, rank.stream));
    };
    for (int i = 0; i < 14; ++i) gather();
    check(cudaStreamSynchronize(rank.stream));
    const std::uint64_t compressed = calls_of("all_gather").compressed;
    expect(compressed > 0, "eager ones are compressed");
    const Graph graph(rank.stream, gather);
    for (int i = 0; i < 3; ++i) {
      graph.replay(rank.stream);
      gather();
    }
    graph.replay(rank.stream);
    check(cudaStreamSynchronize(rank.stream));
    const Bytes all = receive.read();
    const std::size_t own = static_cast<std::size_t>(rank.rank) * bytes;
    for (std::size_t i = 0; i < bytes; ++i) expect(all[own + i] == mine[i], "the own shard, exact");
    expect(calls_of("all_gather").compressed == compressed + 3, "captured ones are not");
    rank.result = all;
  });
  REQUIRE(failures(outcomes) == "");
  CHECK(outcomes[0].result == outcomes[1].result);
}

TEST_CASE("GraphLife.AnotherThreadCapturesInGlobalModeWhileWeAgreeAllocateAndFree") {
  const auto outcomes = run_cluster({.node_of = kNodes, .environment = kEverything}, [](RankContext& rank) {
    // The capture stays open over whole lives of communicators: one call of ours that is no enqueue, outside
    // of relaxed mode, would break it.
    std::atomic<int> stage{0};
    const DeviceBytes scratch(64), weights(Bytes(kCount * 2 * 2));
    const Reduction call(kGradient, rank.rank, rank.ranks);
    std::string trouble;
    std::thread capturer([&] {
      try {
        check(cudaSetDevice(0));
        const cudaStream_t stream = new_stream();
        const Graph graph(stream, [&] {
          check(cudaMemsetAsync(scratch.data(), 1, 64, stream));
          stage.store(1);
          while (stage.load() != 2) std::this_thread::yield();
          check(cudaMemsetAsync(scratch.data(), 2, 64, stream));
        });
        graph.replay(stream);
        check(cudaStreamSynchronize(stream));
        check(cudaStreamDestroy(stream));
      } catch (const std::exception& error) {
        trouble = error.what();
        stage.store(1);
      }
    });
    while (stage.load() == 0) std::this_thread::yield();
    std::string own_trouble;
    try {
      for (int i = 0; i < 14; ++i) {
        call.issue(rank.comm, rank.stream);
        check(ncclAllGather(weights.data() + static_cast<std::size_t>(rank.rank) * kCount * 2, weights.data(),
                            kCount, ncclBfloat16, rank.comm, rank.stream));
      }
      check(ncclCommDestroy(std::exchange(rank.comm, nullptr)));
    } catch (const std::exception& error) {
      own_trouble = error.what();
    }
    stage.store(2);
    capturer.join();
    expect(own_trouble.empty(), "eager calls: " + own_trouble);
    expect(trouble.empty(), "the capture: " + trouble);
    expect(calls_of("reduce_scatter").compressed == 12, "compressed");
    expect(calls_of("all_gather").compressed > 0, "weights too");
  });
  CHECK(failures(outcomes) == "");
}

}  // namespace
}  // namespace sdp4bit::test
