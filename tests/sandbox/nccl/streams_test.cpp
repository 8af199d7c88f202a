// Order on streams, groups, capture and replay.
#include <atomic>
#include <chrono>
#include <thread>

#include "cluster.h"

namespace {

using cluster::Buffer;
using cluster::check;
using cluster::Rank;
using cluster::Stream;

constexpr size_t kCount = 5000;

void expect(bool condition, const char* what) {
  if (!condition) throw std::runtime_error(what);
}

// Connects everything, so that later calls do not wait for peers.
void warm_up(const Rank& self, cudaStream_t stream) {
  const Buffer buffer = Buffer::of(std::vector<int>(16, 1));
  check(ncclAllReduce(buffer.data(), buffer.data(), 4, ncclInt32, ncclSum, self.comm, stream));
  check(ncclGroupStart());
  for (int peer = 0; peer < self.ranks; ++peer) {
    check(ncclSend(buffer.data(), 1, ncclInt32, peer, self.comm, stream));
    check(ncclRecv(buffer.data<int>() + 8, 1, ncclInt32, peer, self.comm, stream));
  }
  check(ncclGroupEnd());
  check(cudaStreamSynchronize(stream));
}

class Graph {
 public:
  explicit Graph(cudaGraph_t graph) : graph_(graph) { check(cudaGraphInstantiate(&executable_, graph_, 0)); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  ~Graph() {
    cudaGraphExecDestroy(executable_);
    cudaGraphDestroy(graph_);
  }
  void launch(cudaStream_t stream) const { check(cudaGraphLaunch(executable_, stream)); }

 private:
  cudaGraph_t graph_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

TEST_CASE("Calls return before the peer arrives") {
  cluster::run_threads(2, [](const Rank& self) {
    const Stream stream;
    const Buffer send = Buffer::of(std::vector<int>(kCount, self.rank));
    const Buffer receive(2 * kCount * sizeof(int));
    warm_up(self, stream);
    if (self.rank == 1) {
      // The peer has long returned from its call.
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
    }
    const auto before = std::chrono::steady_clock::now();
    check(ncclAllGather(send.data(), receive.data(), kCount, ncclInt32, self.comm, stream));
    const auto spent = std::chrono::steady_clock::now() - before;
    if (self.rank == 0) {
      expect(spent < std::chrono::milliseconds(150), "the call waited for its peer");
      expect(cudaStreamQuery(stream) == cudaErrorNotReady, "the stream is done without the peer");
    }
    stream.wait();
    expect(receive.values<int>()[2 * kCount - 1] == 1, "gathered");
  });
}

TEST_CASE("Calls on one communicator run in order of issue on whatever streams") {
  cluster::run_threads(2, [](const Rank& self) {
    const Stream streams[3];
    const Buffer data = Buffer::of(std::vector<int>(kCount, 1));
    warm_up(self, streams[0]);
    // Each doubles the same buffer in place: any overlap or loss shows.
    for (int call = 0; call < 20; ++call) {
      const cudaStream_t stream =
          call % 5 == 4 ? cudaStreamPerThread : static_cast<cudaStream_t>(streams[call % 3]);
      check(ncclAllReduce(data.data(), data.data(), kCount, ncclInt32, ncclSum, self.comm, stream));
    }
    check(cudaDeviceSynchronize());
    expect(data.values<int>() == std::vector<int>(kCount, 1 << 20), "20 doublings");
  });
}

TEST_CASE("The NULL stream orders calls with copies around them") {
  cluster::run_threads(2, [](const Rank& self) {
    const Buffer data(kCount * sizeof(int));
    const Buffer copy(kCount * sizeof(int));
    check(cudaMemsetAsync(data.data(), 1, kCount * sizeof(int), nullptr));
    check(ncclAllReduce(data.data(), data.data(), kCount, ncclInt32, ncclSum, self.comm, nullptr));
    check(cudaMemcpyAsync(copy.data(), data.data(), kCount * sizeof(int), cudaMemcpyDeviceToDevice, nullptr));
    check(cudaStreamSynchronize(nullptr));
    expect(copy.values<int>() == std::vector<int>(kCount, 0x02020202), "doubled");
  });
}

TEST_CASE("A group joins all of its streams") {
  cluster::run_threads(2, [](const Rank& self) {
    const Stream first;
    const Stream second;
    const Buffer a(kCount * sizeof(int));
    const Buffer b(kCount * sizeof(int));
    const Buffer copy(kCount * sizeof(int));
    warm_up(self, first);
    for (int round = 1; round < 4; ++round) {
      check(cudaMemsetAsync(a.data(), round, kCount * sizeof(int), first));
      check(cudaMemsetAsync(b.data(), round, kCount * sizeof(int), second));
      check(ncclGroupStart());
      check(ncclGroupStart());  // groups nest
      check(ncclAllReduce(a.data(), a.data(), kCount, ncclInt32, ncclSum, self.comm, first));
      check(ncclGroupEnd());
      check(ncclAllReduce(b.data(), b.data(), kCount, ncclInt32, ncclSum, self.comm, second));
      check(ncclSend(copy.data(), 0, ncclInt32, 1 - self.rank, self.comm, second));
      check(ncclRecv(copy.data(), 0, ncclInt32, 1 - self.rank, self.comm, first));
      check(ncclGroupEnd());
      check(cudaMemcpyAsync(copy.data(), b.data(), kCount * sizeof(int), cudaMemcpyDeviceToDevice, second));
      second.wait();
      first.wait();
      expect(copy.values<int>() == std::vector<int>(kCount, round * 0x02020202), "second stream");
      expect(a.values<int>() == std::vector<int>(kCount, round * 0x02020202), "first stream");
    }
  });
}

TEST_CASE("A communicator of one rank copies and scales, even inside a group") {
  cluster::run_threads(1, [](const Rank& self) {
    const Stream stream;
    const Buffer send = Buffer::of(std::vector<float>(100, 3));
    const Buffer receive(100 * sizeof(float));
    float factor = 2;
    ncclRedOp_t op;
    check(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, self.comm));
    check(ncclGroupStart());
    check(ncclReduceScatter(send.data(), receive.data(), 100, ncclFloat32, op, self.comm, stream));
    check(ncclGroupEnd());
    stream.wait();
    expect(receive.values<float>() == std::vector<float>(100, 6), "scaled");
    check(ncclAllGather(send.data(), receive.data(), 100, ncclFloat32, self.comm, stream));
    stream.wait();
    expect(receive.values<float>() == std::vector<float>(100, 3), "copied");
    check(ncclRedOpDestroy(op, self.comm));
  });
}

TEST_CASE("An empty collective is nothing, even on one rank only") {
  cluster::run_threads(2, [](const Rank& self) {
    if (self.rank == 0) check(ncclAllGather(nullptr, nullptr, 0, ncclInt32, self.comm, nullptr));
    const Buffer data = Buffer::of(std::vector<int>(10, 1));
    check(ncclAllReduce(data.data(), data.data(), 10, ncclInt32, ncclSum, self.comm, nullptr));
    expect(data.values<int>() == std::vector<int>(10, 2), "the next call meets its peer's");
  });
}

TEST_CASE("A simulated group runs nothing") {
  cluster::run_threads(2, [](const Rank& self) {
    const Buffer data = Buffer::of(std::vector<int>(10, 1));
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    check(ncclGroupStart());
    check(ncclAllReduce(data.data(), data.data(), 10, ncclInt32, ncclSum, self.comm, nullptr));
    check(ncclGroupSimulateEnd(&info));
    check(cudaDeviceSynchronize());
    expect(data.values<int>() == std::vector<int>(10, 1), "untouched");
    check(ncclAllReduce(data.data(), data.data(), 10, ncclInt32, ncclSum, self.comm, nullptr));
    expect(data.values<int>() == std::vector<int>(10, 2), "ran once");
  });
}

TEST_CASE("Captured collectives run at each replay and keep their order with eager calls") {
  cluster::run_threads(3, [](const Rank& self) {
    const Stream stream;
    const Stream other;
    const Stream eager;
    const Buffer data = Buffer::of(std::vector<int64_t>(kCount, 1));
    const Buffer message(kCount * sizeof(int64_t));
    warm_up(self, stream);
    cudaGraph_t captured = nullptr;
    cudaEvent_t fork;
    cudaEvent_t joined;
    check(cudaEventCreate(&fork));
    check(cudaEventCreate(&joined));
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    check(cudaEventRecord(fork, stream));
    check(cudaStreamWaitEvent(other, fork, 0));
    // Two captured streams; the communicator orders its calls between them.
    check(ncclAllReduce(data.data(), data.data(), kCount, ncclInt64, ncclSum, self.comm, stream));
    check(ncclGroupStart());
    check(ncclSend(data.data(), kCount, ncclInt64, (self.rank + 1) % 3, self.comm, other));
    check(ncclRecv(message.data(), kCount, ncclInt64, (self.rank + 2) % 3, self.comm, other));
    check(ncclGroupEnd());
    check(cudaEventRecord(joined, other));
    check(cudaStreamWaitEvent(stream, joined, 0));
    check(cudaStreamEndCapture(stream, &captured));
    expect(data.values<int64_t>()[0] == 1, "nothing runs while capturing");
    int64_t expected = 1;
    {
      const Graph graph(captured);
      for (int replay = 0; replay < 10; ++replay) {
        graph.launch(stream);
        check(ncclAllReduce(data.data(), data.data(), kCount, ncclInt64, ncclSum, self.comm, eager));
        expected *= 9;
      }
      stream.wait();
      eager.wait();
      expect(data.values<int64_t>() == std::vector<int64_t>(kCount, expected),
             "ten replays and ten eager calls");
      expect(message.values<int64_t>() == std::vector<int64_t>(kCount, expected / 3),
             "the message of the last replay");
    }
    check(cudaEventDestroy(fork));
    check(cudaEventDestroy(joined));
  });
}

TEST_CASE("A call that is captured before any other keeps its order with eager calls") {
  cluster::run_threads(2, [](const Rank& self) {
    const Stream stream;
    const Stream eager;
    const Buffer data = Buffer::of(std::vector<int>(10, 1));
    cudaGraph_t captured = nullptr;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    check(ncclAllReduce(data.data(), data.data(), 10, ncclInt32, ncclSum, self.comm, stream));
    check(cudaStreamEndCapture(stream, &captured));
    {
      const Graph graph(captured);
      const auto sleep = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
      if (self.rank == 0) check(cudaLaunchHostFunc(eager, sleep, nullptr));
      check(ncclAllReduce(data.data(), data.data(), 10, ncclInt32, ncclMax, self.comm, eager));
      graph.launch(stream);
      stream.wait();
    }
    expect(data.values<int>() == std::vector<int>(10, 2), "the largest, then the sum");
  });
}

TEST_CASE("A communicator is not let go while a graph holds a call on it") {
  cluster::run_threads(2, [](const Rank& self) {
    const Stream stream;
    const Buffer data = Buffer::of(std::vector<int64_t>(kCount, 1));
    ncclComm_t child = nullptr;
    check(ncclCommSplit(self.comm, 0, self.rank, &child, nullptr));
    check(ncclAllReduce(data.data(), data.data(), kCount, ncclInt64, ncclSum, child, stream));
    stream.wait();
    cudaGraph_t captured = nullptr;
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    check(ncclAllReduce(data.data(), data.data(), kCount, ncclInt64, ncclSum, child, stream));
    check(cudaStreamEndCapture(stream, &captured));
    std::atomic<bool> gone{false};
    std::thread destroyer;
    {
      const Graph graph(captured);
      destroyer = std::thread([&] { gone = ncclCommDestroy(child) == ncclSuccess; });
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      graph.launch(stream);
      stream.wait();
      expect(!gone, "the graph lives");
    }
    destroyer.join();
    expect(gone, "destroyed with the graph");
    expect(data.values<int64_t>() == std::vector<int64_t>(kCount, 4), "the replay ran");
  });
}

TEST_CASE("Sends and receives of a group progress together, whatever their order and number") {
  cluster::run_threads(4, [](const Rank& self) {
    const Stream stream;
    constexpr size_t kMessages = 50;  // more than a channel announces at once
    const Buffer send = Buffer::of(std::vector<int>(4 * kMessages, self.rank));
    const Buffer receive(4 * kMessages * sizeof(int));
    check(ncclGroupStart());
    for (size_t message = 0; message < kMessages; ++message) {
      for (int peer = 0; peer < 4; ++peer) {
        const size_t at = static_cast<size_t>(peer) * kMessages + message;
        check(ncclSend(send.data<int>() + at, 1, ncclInt32, peer, self.comm, stream));
      }
    }
    for (int peer = 3; peer >= 0; --peer) {
      for (size_t message = 0; message < kMessages; ++message) {
        const size_t at = static_cast<size_t>(peer) * kMessages + message;
        check(ncclRecv(receive.data<int>() + at, 1, ncclInt32, peer, self.comm, stream));
      }
    }
    check(ncclGroupEnd());
    stream.wait();
    for (size_t i = 0; i < 4 * kMessages; ++i)
      expect(receive.values<int>()[i] == static_cast<int>(i / kMessages), "message");
  });
}
