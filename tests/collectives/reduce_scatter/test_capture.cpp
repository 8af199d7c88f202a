// Captured ReduceScatters: compressed once an eager one was, drawing anew at every replay, and in order with
// eager calls.
#include <memory>

#include "catch.h"
#include "gradient_case.h"

namespace sdp4bit::test {
namespace {

const Environment kAll{{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}};
constexpr std::size_t kCount = 1500;
const GradientCase kGradient{.count = kCount};

class Graph {
 public:
  template <typename Issue>
  Graph(cudaStream_t stream, Issue issue) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    issue();
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(stream, &graph));
    check(cudaGraphInstantiate(&executable_, graph, 0));
    check(cudaGraphDestroy(graph));
  }
  ~Graph() { (void)cudaGraphExecDestroy(executable_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  void replay(cudaStream_t stream) const { check(cudaGraphLaunch(executable_, stream)); }

 private:
  cudaGraphExec_t executable_ = nullptr;
};

void append(Bytes& to, const Bytes& bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

TEST_CASE("Capture.ReplaysDrawAnewAndMixWithEagerCalls") {
  const std::vector<int> node_of = even_nodes(2, 2);
  const auto outcomes = run_cluster({.node_of = node_of, .environment = kAll}, [](RankContext& rank) {
    engage(rank);
    append(rank.result, run_gradient(rank, kGradient));  // draw 0
    constexpr std::size_t kBytes = kCount * sizeof(float), kRounds = 3;
    const DeviceBytes send(input_of(kGradient, rank.rank, rank.ranks)), receive(kBytes),
        all(2 * kRounds * kBytes);
    const auto issue = [&](std::byte* output, cudaStream_t stream) {
      check(ncclReduceScatter(send.data(), output, kCount, ncclFloat32, ncclSum, rank.comm, stream));
    };
    const Graph graph(rank.stream, [&] { issue(receive.data(), rank.stream); });
    expect(calls_of("reduce_scatter").compressed == 2, "compressed under capture");
    cudaStream_t other = nullptr;
    check(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking));
    // Nothing but the library's own hand-over orders replays and eager calls.
    for (std::size_t round = 0; round < kRounds; ++round) {
      std::byte* const output = all.data() + 2 * round * kBytes;
      graph.replay(rank.stream);  // draws 1, 3, 5
      check(cudaMemcpyAsync(output, receive.data(), kBytes, cudaMemcpyDeviceToDevice, rank.stream));
      issue(output + kBytes, other);  // draws 2, 4, 6
    }
    check(cudaDeviceSynchronize());
    append(rank.result, all.read());
    check(cudaStreamDestroy(other));
  });
  REQUIRE(failures(outcomes) == "");
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    Bytes expected;
    for (std::uint64_t draw = 0; draw < 7; ++draw)
      append(expected, expected_outputs(kGradient, node_of, draw)[rank]);
    CHECK(outcomes[rank].result == expected);
  }
}

TEST_CASE("Capture.SeveralCallsOfOneGraphShareTheWorkspaceInOrder") {
  const std::vector<int> node_of = even_nodes(2, 1);
  const auto outcomes = run_cluster({.node_of = node_of, .environment = kAll}, [](RankContext& rank) {
    engage(rank);
    append(rank.result, run_gradient(rank, kGradient));
    const DeviceBytes send(input_of(kGradient, rank.rank, rank.ranks));
    const DeviceBytes one(kCount * sizeof(float)), two(kCount * sizeof(float));
    const auto issue = [&](const DeviceBytes& receive) {
      check(ncclReduceScatter(send.data(), receive.data(), kCount, ncclFloat32, ncclSum, rank.comm,
                              rank.stream));
    };
    const Graph graph(rank.stream, [&] {
      issue(one);
      issue(two);
    });
    graph.replay(rank.stream);
    check(cudaStreamSynchronize(rank.stream));
    append(rank.result, one.read());
    append(rank.result, two.read());
  });
  REQUIRE(failures(outcomes) == "");
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    Bytes expected;
    for (std::uint64_t draw = 0; draw < 3; ++draw)
      append(expected, expected_outputs(kGradient, node_of, draw)[rank]);
    CHECK(outcomes[rank].result == expected);
  }
}

TEST_CASE("Capture.AGroupOfSeveralSizesReplaysAsItWouldRun") {
  const std::vector<int> node_of = even_nodes(2, 2);
  constexpr std::size_t kCalls = 8, kGroups = 4;
  const auto gradient_of = [](std::size_t call) { return GradientCase{.count = kCount / 2 + 40 * call}; };
  const auto outcomes = run_cluster({.node_of = node_of, .environment = kAll}, [&](RankContext& rank) {
    engage(rank);
    append(rank.result, run_gradient(rank, kGradient));  // draw 0
    std::vector<std::unique_ptr<DeviceBytes>> send, receive;
    for (std::size_t call = 0; call < kCalls; ++call) {
      send.push_back(std::make_unique<DeviceBytes>(input_of(gradient_of(call), rank.rank, rank.ranks)));
      receive.push_back(std::make_unique<DeviceBytes>(gradient_of(call).count * sizeof(float)));
    }
    const auto issue = [&] {
      check(ncclGroupStart());
      for (std::size_t call = 0; call < kCalls; ++call) {
        check(ncclReduceScatter(send[call]->data(), receive[call]->data(), gradient_of(call).count,
                                ncclFloat32, ncclSum, rank.comm, rank.stream));
      }
      check(ncclGroupEnd());
    };
    const Graph graph(rank.stream, issue);
    for (std::size_t group = 0; group < kGroups; ++group) {  // replays and eager ones in turn
      if (group % 2 == 0) {
        graph.replay(rank.stream);
      } else {
        issue();
      }
      check(cudaStreamSynchronize(rank.stream));
      for (const auto& output : receive) append(rank.result, output->read());
    }
  });
  REQUIRE(failures(outcomes) == "");
  std::vector<Bytes> expected = expected_outputs(kGradient, node_of, 0);
  for (std::uint64_t draw = 1; draw <= kGroups * kCalls; ++draw) {
    const std::vector<Bytes> outputs = expected_outputs(gradient_of((draw - 1) % kCalls), node_of, draw);
    for (std::size_t rank = 0; rank < outputs.size(); ++rank) append(expected[rank], outputs[rank]);
  }
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) CHECK((outcomes[rank].result == expected[rank]));
}

TEST_CASE("Capture.BeforeAnEagerCompressedCallItIsNcclsBusiness") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kAll}, [](RankContext& rank) {
        engage(rank);
        const DeviceBytes send(input_of(kGradient, rank.rank, rank.ranks)), receive(kCount * sizeof(float));
        const Graph graph(rank.stream, [&] {
          check(ncclReduceScatter(send.data(), receive.data(), kCount, ncclFloat32, ncclSum, rank.comm,
                                  rank.stream));
        });
        graph.replay(rank.stream);
        check(cudaStreamSynchronize(rank.stream));
        expect(calls_of("reduce_scatter").compressed == 0, "native");
        const std::vector<double> exact = exact_output(kGradient, rank.rank, rank.ranks);
        const std::vector<float> got = to_floats(ElementType::float32, receive.read());
        for (std::size_t i = 0; i < kCount; ++i) expect(got[i] == static_cast<float>(exact[i]), "exact");
      });
  CHECK(failures(outcomes) == "");
}

}  // namespace
}  // namespace sdp4bit::test
