// Kinds of failures that users of other libraries reported: communicators that come from others, graphs, and
// clusters of other shapes. The tags are the rows of tests/README.md.
#include <memory>

#include "trace.h"

using namespace sdp4bit::test;

namespace {

const Environment kAll{{"SDP4BIT_COMMS", "all"}};
constexpr std::size_t kCount = 1000;

/// Steps of one buffer in place.
void train(Program& program, const DeviceBytes& buffer, int first, int last, double bound) {
  const std::size_t own = static_cast<std::size_t>(program.rank()) * kCount * 2;
  for (int version = first; version < last; ++version) {
    program.store_weights(buffer.data() + own, kCount, 0, version);
    program.gather("weights", buffer.data() + own, buffer.data(), kCount);
    program.check_weights(buffer.data(), kCount, 0, version, bound);
  }
}

}  // namespace

TEST_CASE("BugCase.AChildStartsWithNothing", "[C7][E13]") {
  (void)run_trace(even_nodes(2, 2), kAll, [](RankContext& rank) {
    Program parent(rank);
    const DeviceBytes buffer(Bytes(4 * kCount * 2));
    train(parent, buffer, 0, 14, kDifferenceError);
    parent.expect_verdicts("weights", "11 native, 3 compressed");
    for (int life = 0; life < 2; ++life) {  // again at what may be the same address
      const ncclComm_t comm = split(rank, 0, "child");
      {
        Program child(rank, comm);
        train(child, buffer, 14, 25, 0.0);
        train(child, buffer, 25, 27, kDifferenceError);
        child.expect_verdicts("weights", "11 native, 2 compressed");
      }
      check(ncclCommDestroy(comm));
      // The parent goes on with what it knew, which is thirteen versions old by now.
      train(parent, buffer, 14 + life, 15 + life, kDifferenceError);
    }
    parent.expect_verdicts("weights", "11 native, 5 compressed");
  });
}

TEST_CASE("BugCase.AFailedSplitLeavesTheParentAlone", "[C4]") {
  (void)run_trace(even_nodes(2, 2), kAll, [](RankContext& rank) {
    Program parent(rank);
    const DeviceBytes buffer(Bytes(4 * kCount * 2));
    train(parent, buffer, 0, 13, kDifferenceError);
    expect(ncclCommSplit(rank.comm, 0, rank.rank, nullptr, nullptr) != ncclSuccess, "nowhere to put it");
    ncclComm_t child = rank.comm;
    expect(ncclCommSplit(rank.comm, -7, rank.rank, &child, nullptr) != ncclSuccess, "a color that is none");
    train(parent, buffer, 13, 16, kDifferenceError);
    parent.expect_verdicts("weights", "11 native, 5 compressed");
  });
}

TEST_CASE("BugCase.SurvivorsOfAShrinkStartAnew", "[C12]") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(4, 1),
                   .environment = {{"SDP4BIT_MIN_BYTES", "0"},
                                   {"SDP4BIT_COMMS", "all"},
                                   {"SDP4BIT_OWN_SHARD", "replica"}}},
                  [](RankContext& rank) {
                    const DeviceBytes buffer(Bytes(4 * kCount * 2));
                    {
                      Program all(rank);
                      train(all, buffer, 0, 14, kDifferenceError);
                      all.expect_verdicts("weights", "11 native, 3 compressed");
                    }
                    rank.result.clear();
                    if (rank.rank == 3) return;
                    int gone = 3;
                    ncclComm_t rest = nullptr;
                    check(ncclCommShrink(rank.comm, &gone, 1, &rest, nullptr, NCCL_SHRINK_DEFAULT));
                    {
                      Program survivors(rank, rest);
                      train(survivors, buffer, 14, 25, 0.0);
                      train(survivors, buffer, 25, 27, kDifferenceError);
                      survivors.expect_verdicts("weights", "11 native, 2 compressed");
                    }
                    check(ncclCommDestroy(rest));
                  });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("BugCase.ReplaysOfAGatherLeaveDifferencesAlone", "[D1][D7]") {
  // A captured gather is NCCL's; eager ones are coded against what eager ones said, whatever a graph
  // gathered.
  (void)run_trace(even_nodes(2, 2), kAll, [](RankContext& rank) {
    Program program(rank);
    const DeviceBytes buffer(Bytes(4 * kCount * 2));
    const std::size_t own = static_cast<std::size_t>(rank.rank) * kCount * 2;
    train(program, buffer, 0, 14, kDifferenceError);
    check(cudaStreamBeginCapture(rank.stream, cudaStreamCaptureModeThreadLocal));
    check(ncclAllGather(buffer.data() + own, buffer.data(), kCount, ncclBfloat16, rank.comm, rank.stream));
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(rank.stream, &graph));
    cudaGraphExec_t executable = nullptr;
    check(cudaGraphInstantiate(&executable, graph, 0));
    for (int version = 14; version < 64; ++version) {
      if (version % 2 == 0) {
        train(program, buffer, version, version + 1, 2 * kDifferenceError);  // two versions at once
        continue;
      }
      program.store_weights(buffer.data() + own, kCount, 0, version);
      check(cudaGraphLaunch(executable, rank.stream));
      check(cudaStreamSynchronize(rank.stream));
      program.check_weights(buffer.data(), kCount, 0, version, 0.0);
    }
    program.expect_verdicts("weights", "11 native, 28 compressed");
    check(cudaGraphExecDestroy(executable));
    check(cudaGraphDestroy(graph));
  });
}

TEST_CASE("BugCase.NodesOfUnequalSize", "[I1]") {
  for (const std::vector<int>& nodes :
       {std::vector{0, 0, 0, 1}, {0, 0, 0, 0, 1, 1}, {0, 0, 0, 0, 0, 1, 1, 1}}) {
    Environment environment = kAll;
    environment.emplace_back("SDP4BIT_WEIGHT_LEDGER", "full");
    (void)run_trace(nodes, environment, [](RankContext& rank) {
      Program program(rank);
      const DeviceBytes buffer(Bytes(program.ranks() * kCount * 2)), input(program.ranks() * kCount * 4),
          shard(kCount * 4);
      train(program, buffer, 0, 13, kDifferenceError);
      program.store_gradients(input.data(), kCount, 0, 0);
      program.reduce("gradients", input.data(), shard.data(), kCount);
      program.check_gradients(shard.data(), kCount, 0, 0, 1.0);
      program.expect_verdicts("weights", "11 native, 2 compressed");
      program.expect_verdicts("gradients", "1 compressed");
    });
  }
}

TEST_CASE("BugCase.ThreeNodesOfEight", "[I5]") {
  (void)run_trace(even_nodes(3, 8), kAll, [](RankContext& rank) {
    Program program(rank);
    const DeviceBytes buffer(Bytes(program.ranks() * kCount * 2)), input(program.ranks() * kCount * 4),
        shard(kCount * 4);
    train(program, buffer, 0, 12, kDifferenceError);
    program.store_gradients(input.data(), kCount, 0, 0);
    program.reduce("gradients", input.data(), shard.data(), kCount);
    program.check_gradients(shard.data(), kCount, 0, 0, 1.0);
    program.expect_verdicts("weights", "11 native, 1 compressed");
    program.expect_verdicts("gradients", "1 compressed");
  });
}
