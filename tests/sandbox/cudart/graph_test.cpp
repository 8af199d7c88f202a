// Graphs: replays keep dependencies, branches run side by side, nodes can be built, changed and inspected.
#include <array>
#include <cstring>
#include <functional>
#include <vector>

#include "support.h"

using namespace sandbox::test;

namespace {

struct Graph {
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  ~Graph() {
    if (exec != nullptr) (void)cudaGraphExecDestroy(exec);
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
  }
  void instantiate() { expect(cudaGraphInstantiate(&exec, graph, 0)); }
};

template <class Record>
void capture(Graph& into, cudaStream_t stream, Record&& record) {
  expect(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
  record();
  expect(cudaStreamEndCapture(stream, &into.graph));
  into.instantiate();
}

}  // namespace

TEST_CASE("Graphs.EveryReplayRunsTheNodesInOrder") {
  StreamHolder stream;
  Order order;
  std::array<Mark, 3> marks;
  for (auto& mark : marks) mark.order = &order;
  Graph graph;
  capture(graph, stream, [&] {
    for (auto& mark : marks) mark.put(stream);
  });
  for (int replay = 0; replay < 3; ++replay) {
    expect(cudaGraphLaunch(graph.exec, stream));
    expect(cudaStreamSynchronize(stream));
    for (int i = 0; i < 3; ++i) REQUIRE(marks[static_cast<std::size_t>(i)].at == 3 * replay + i + 1);
  }
}

TEST_CASE("Graphs.BranchesRunSideBySide") {
  // Each branch waits for the other: one after the other they would never end.
  StreamHolder first, second;
  EventHolder fork, join;
  struct Meeting {
    std::atomic<int> arrived{0};
  } meeting;
  const auto meet = [](void* argument) {
    auto* common = static_cast<Meeting*>(argument);
    ++common->arrived;
    while (common->arrived < 2) std::this_thread::yield();
    return cudaSuccess;
  };
  Graph graph;
  capture(graph, first, [&] {
    expect(cudaEventRecord(fork, first));
    expect(cudaStreamWaitEvent(second, fork, 0));
    expect(sandboxStreamEnqueue(first, "meet", meet, &meeting, nullptr));
    expect(sandboxStreamEnqueue(second, "meet", meet, &meeting, nullptr));
    expect(cudaEventRecord(join, second));
    expect(cudaStreamWaitEvent(first, join, 0));
  });
  expect(cudaGraphLaunch(graph.exec, first));
  expect(cudaStreamSynchronize(first));
  REQUIRE(meeting.arrived == 2);
}

TEST_CASE("Graphs.JoinsWaitForAllBranches") {
  StreamHolder first, second;
  EventHolder fork, join;
  Order order;
  Mark before{&order}, slow{&order}, quick{&order}, after{&order};
  Graph graph;
  capture(graph, first, [&] {
    before.put(first);
    expect(cudaEventRecord(fork, first));
    expect(cudaStreamWaitEvent(second, fork, 0));
    quick.put(first);
    expect(sandboxStreamEnqueue(
        second, "sleep",
        [](void*) {
          short_pause();
          return cudaSuccess;
        },
        nullptr, nullptr));
    slow.put(second);
    expect(cudaEventRecord(join, second));
    expect(cudaStreamWaitEvent(first, join, 0));
    after.put(first);
  });
  expect(cudaGraphLaunch(graph.exec, first));
  expect(cudaStreamSynchronize(first));
  REQUIRE(before.at == 1);
  REQUIRE(quick.at == 2);
  REQUIRE(slow.at == 3);
  REQUIRE(after.at == 4);
}

TEST_CASE("Graphs.BuiltByHandTheyDoWhatTheirNodesSay") {
  DeviceArray<unsigned char> memory(64);
  unsigned char* pinned = nullptr;
  expect(cudaMallocHost(reinterpret_cast<void**>(&pinned), 64));
  Graph graph, child;
  expect(cudaGraphCreate(&graph.graph, 0));
  expect(cudaGraphCreate(&child.graph, 0));
  cudaMemsetParams fill{};
  fill.dst = memory;
  fill.value = 0x01020304;
  fill.elementSize = 4;
  fill.width = 16;
  fill.height = 1;
  cudaGraphNode_t filled = nullptr, embedded = nullptr, copied = nullptr, called = nullptr;
  expect(cudaGraphAddMemsetNode(&filled, child.graph, nullptr, 0, &fill));
  expect(cudaGraphAddChildGraphNode(&embedded, graph.graph, nullptr, 0, child.graph));
  expect(cudaGraphAddMemcpyNode1D(&copied, graph.graph, &embedded, 1, pinned, memory, 64,
                                  cudaMemcpyDeviceToHost));
  std::atomic<int> calls{0};
  const cudaHostNodeParams host{[](void* argument) { ++*static_cast<std::atomic<int>*>(argument); }, &calls};
  expect(cudaGraphAddHostNode(&called, graph.graph, &copied, 1, &host));
  cudaGraphNodeType type{};
  expect(cudaGraphNodeGetType(embedded, &type));
  REQUIRE(type == cudaGraphNodeTypeGraph);
  graph.instantiate();
  expect(cudaGraphLaunch(graph.exec, nullptr));
  expect(cudaDeviceSynchronize());
  REQUIRE(calls == 1);
  REQUIRE(pinned[0] == 4);
  REQUIRE(pinned[63] == 1);
  // A changed copy in the executable graph, the graph itself unchanged.
  std::memset(pinned, 0, 64);
  expect(cudaGraphExecMemcpyNodeSetParams1D(graph.exec, copied, pinned, memory, 8, cudaMemcpyDeviceToHost));
  expect(cudaGraphLaunch(graph.exec, nullptr));
  expect(cudaDeviceSynchronize());
  REQUIRE(pinned[7] == 1);
  REQUIRE(pinned[8] == 0);
  // A disabled node does nothing.
  std::memset(pinned, 0, 64);
  expect(cudaGraphNodeSetEnabled(graph.exec, copied, 0));
  expect(cudaGraphLaunch(graph.exec, nullptr));
  expect(cudaDeviceSynchronize());
  REQUIRE(pinned[0] == 0);
  REQUIRE(calls == 3);
  expect(cudaFreeHost(pinned));
}

TEST_CASE("Graphs.CyclesAreFoundWhenInstantiated") {
  Graph graph;
  expect(cudaGraphCreate(&graph.graph, 0));
  cudaGraphNode_t first = nullptr, second = nullptr;
  expect(cudaGraphAddEmptyNode(&first, graph.graph, nullptr, 0));
  expect(cudaGraphAddEmptyNode(&second, graph.graph, &first, 1));
  expect(cudaGraphAddDependencies(graph.graph, &second, &first, nullptr, 1));
  cudaGraphExec_t exec = nullptr;
  expect(cudaGraphInstantiate(&exec, graph.graph, 0), cudaErrorInvalidValue);
  expect(cudaGraphRemoveDependencies(graph.graph, &second, &first, nullptr, 1));
  graph.instantiate();
}

TEST_CASE("Graphs.ClonesAreIndependent") {
  Graph graph, clone;
  expect(cudaGraphCreate(&graph.graph, 0));
  cudaGraphNode_t first = nullptr, second = nullptr, twin = nullptr;
  expect(cudaGraphAddEmptyNode(&first, graph.graph, nullptr, 0));
  expect(cudaGraphAddEmptyNode(&second, graph.graph, &first, 1));
  expect(cudaGraphClone(&clone.graph, graph.graph));
  expect(cudaGraphNodeFindInClone(&twin, second, clone.graph));
  expect(cudaGraphDestroyNode(second));
  std::size_t count = 0;
  expect(cudaGraphGetNodes(graph.graph, nullptr, &count));
  REQUIRE(count == 1);
  expect(cudaGraphNodeGetDependencies(twin, nullptr, nullptr, &count));
  REQUIRE(count == 1);
  expect(cudaGraphNodeGetDependencies(second, nullptr, nullptr, &count), cudaErrorInvalidValue);
}

TEST_CASE("Graphs.UpdatesTakeOverTheSameShapeOnly") {
  DeviceArray<unsigned char> memory(16);
  StreamHolder stream;
  Graph graph, changed, other;
  capture(graph, stream, [&] { expect(cudaMemsetAsync(memory, 1, 16, stream)); });
  capture(changed, stream, [&] { expect(cudaMemsetAsync(memory, 2, 16, stream)); });
  capture(other, stream, [&] {
    expect(cudaMemsetAsync(memory, 3, 8, stream));
    expect(cudaMemsetAsync(memory, 3, 8, stream));
  });
  cudaGraphExecUpdateResultInfo info{};
  expect(cudaGraphExecUpdate(graph.exec, changed.graph, &info));
  expect(cudaGraphLaunch(graph.exec, stream));
  unsigned char got = 0;
  expect(cudaMemcpyAsync(&got, memory, 1, cudaMemcpyDeviceToHost, stream));
  REQUIRE(got == 2);
  expect(cudaGraphExecUpdate(graph.exec, other.graph, &info), cudaErrorGraphExecUpdateFailure);
  REQUIRE(info.result == cudaGraphExecUpdateErrorTopologyChanged);
}

TEST_CASE("Graphs.EventNodesOrderReplaysWithOtherStreams") {
  StreamHolder stream, other;
  EventHolder go, done;
  Order order;
  Mark inside{&order}, outside{&order};
  Graph graph;
  capture(graph, stream, [&] {
    expect(cudaStreamWaitEvent(stream, go, cudaEventWaitExternal));
    inside.put(stream);
    expect(cudaEventRecordWithFlags(done, stream, cudaEventRecordExternal));
  });
  for (int replay = 0; replay < 2; ++replay) {
    Gate gate;
    gate.close(other);
    expect(cudaEventRecord(go, other));
    expect(cudaGraphLaunch(graph.exec, stream));
    short_pause();
    REQUIRE(inside.at == 2 * replay - (replay > 0 ? 1 : 0));
    expect(cudaStreamWaitEvent(other, done, 0));
    outside.put(other);
    gate.open();
    expect(cudaStreamSynchronize(other));
    REQUIRE(inside.at == 2 * replay + 1);
    REQUIRE(outside.at == 2 * replay + 2);
  }
}

TEST_CASE("Graphs.LaunchesOfOneExecutableGraphNeverOverlap") {
  StreamHolder first, second;
  struct Inside {
    std::atomic<int> now{0};
    std::atomic<int> most{0};
  } inside;
  Graph graph;
  capture(graph, first, [&] {
    expect(sandboxStreamEnqueue(
        first, "work",
        [](void* argument) {
          auto* common = static_cast<Inside*>(argument);
          if (++common->now > 1) common->most = 2;
          std::this_thread::sleep_for(std::chrono::milliseconds(5));
          --common->now;
          return cudaSuccess;
        },
        &inside, nullptr));
  });
  for (int i = 0; i < 4; ++i) expect(cudaGraphLaunch(graph.exec, i % 2 == 0 ? first.stream : second.stream));
  expect(cudaStreamSynchronize(first));
  expect(cudaStreamSynchronize(second));
  REQUIRE(inside.most == 0);
}

TEST_CASE("Graphs.CapturedArgumentsLiveAsLongAsTheGraph") {
  StreamHolder stream;
  std::atomic<int> released{0};
  const auto release = [](void* argument) { ++*static_cast<std::atomic<int>*>(argument); };
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  expect(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  expect(sandboxStreamEnqueue(
      stream, "nothing", [](void*) { return cudaSuccess; }, &released, release));
  expect(cudaStreamEndCapture(stream, &graph));
  expect(cudaGraphInstantiate(&exec, graph, 0));
  expect(cudaGraphDestroy(graph));
  expect(cudaGraphLaunch(exec, stream));
  expect(cudaStreamSynchronize(stream));
  REQUIRE(released == 0);
  expect(cudaGraphExecDestroy(exec));
  REQUIRE(released == 1);
}

TEST_CASE("Graphs.UserObjectsDieWithTheirLastGraph") {
  std::atomic<int> destroyed{0};
  cudaUserObject_t object = nullptr;
  expect(cudaUserObjectCreate(
      &object, &destroyed, [](void* argument) { ++*static_cast<std::atomic<int>*>(argument); }, 1,
      cudaUserObjectNoDestructorSync));
  Graph graph;
  expect(cudaGraphCreate(&graph.graph, 0));
  expect(cudaGraphRetainUserObject(graph.graph, object, 1, cudaGraphUserObjectMove));
  graph.instantiate();
  expect(cudaGraphDestroy(graph.graph));
  graph.graph = nullptr;
  REQUIRE(destroyed == 0);
  expect(cudaGraphExecDestroy(graph.exec));
  graph.exec = nullptr;
  REQUIRE(destroyed == 1);
  expect(cudaUserObjectRelease(object, 1), cudaErrorInvalidValue);
}
