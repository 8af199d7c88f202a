// Stream capture: what becomes of which calls, and that each illegal one invalidates the capture.
#include <vector>

#include "support.h"

using namespace sandbox::test;

namespace {

struct GraphHolder {
  cudaGraph_t graph = nullptr;
  ~GraphHolder() {
    if (graph != nullptr) (void)cudaGraphDestroy(graph);
  }
  std::size_t nodes() const {
    std::size_t count = 0;
    expect(cudaGraphGetNodes(graph, nullptr, &count));
    return count;
  }
  std::size_t edges() const {
    std::size_t count = 0;
    expect(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count));
    return count;
  }
};

cudaStreamCaptureStatus status_of(cudaStream_t stream) {
  cudaStreamCaptureStatus status{};
  expect(cudaStreamIsCapturing(stream, &status));
  return status;
}

void expect_invalid_end(cudaStream_t stream) {
  REQUIRE(status_of(stream) == cudaStreamCaptureStatusInvalidated);
  cudaGraph_t graph = nullptr;
  expect(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureInvalidated);
  REQUIRE(graph == nullptr);
  REQUIRE(status_of(stream) == cudaStreamCaptureStatusNone);
}

}  // namespace

TEST_CASE("Capture.NothingRunsWhileCapturing") {
  StreamHolder stream;
  Order order;
  Mark mark{&order};
  GraphHolder held;
  expect(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  mark.put(stream);
  short_pause();
  REQUIRE(mark.at == 0);
  REQUIRE(status_of(stream) == cudaStreamCaptureStatusActive);
  expect(cudaStreamEndCapture(stream, &held.graph));
  REQUIRE(held.nodes() == 1);
}

TEST_CASE("Capture.ForksAndJoinsBecomeEdges") {
  StreamHolder first, second;
  EventHolder fork, join;
  DeviceArray<char> memory(64);
  GraphHolder held;
  expect(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  expect(cudaMemsetAsync(memory, 0, 16, first));
  expect(cudaEventRecord(fork, first));
  expect(cudaStreamWaitEvent(second, fork, 0));
  REQUIRE(status_of(second) == cudaStreamCaptureStatusActive);
  expect(cudaMemsetAsync(memory + 16, 0, 16, first));
  expect(cudaMemsetAsync(memory + 32, 0, 16, second));
  expect(cudaEventRecord(join, second));
  expect(cudaStreamWaitEvent(first, join, 0));
  expect(cudaMemsetAsync(memory + 48, 0, 16, first));
  expect(cudaStreamEndCapture(first, &held.graph));
  REQUIRE(status_of(second) == cudaStreamCaptureStatusNone);
  REQUIRE(held.nodes() == 4);
  REQUIRE(held.edges() == 4);
}

TEST_CASE("Capture.AForkWithoutAJoinIsAnError") {
  StreamHolder first, second;
  EventHolder fork;
  DeviceArray<char> memory(64);
  expect(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  expect(cudaEventRecord(fork, first));
  expect(cudaStreamWaitEvent(second, fork, 0));
  expect(cudaMemsetAsync(memory, 0, 16, second));
  cudaGraph_t graph = nullptr;
  expect(cudaStreamEndCapture(first, &graph), cudaErrorStreamCaptureUnjoined);
  REQUIRE(graph == nullptr);
}

TEST_CASE("Capture.UnsafeCallsInvalidateIt") {
  StreamHolder stream, other;
  EventHolder event;
  void* memory = nullptr;
  const auto forbidden = [&](auto&& call) {
    expect(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    expect(call(), cudaErrorStreamCaptureUnsupported);
    expect_invalid_end(stream);
  };
  forbidden([&] { return cudaMalloc(&memory, 16); });
  forbidden([&] { return cudaFree(nullptr); });
  forbidden([&] { return cudaMallocHost(&memory, 16); });
  forbidden([&] { return cudaStreamSynchronize(stream); });
  forbidden([&] { return cudaStreamQuery(stream); });
  forbidden([&] { return cudaDeviceSynchronize(); });
  forbidden([&] { return cudaEventQuery(event); });
  forbidden([&] { return cudaMallocAsync(&memory, 16, stream); });
}

TEST_CASE("Capture.GlobalModeForbidsUnsafeCallsOfOtherThreads") {
  StreamHolder stream;
  for (const auto mode :
       {cudaStreamCaptureModeGlobal, cudaStreamCaptureModeThreadLocal, cudaStreamCaptureModeRelaxed}) {
    expect(cudaStreamBeginCapture(stream, mode));
    cudaError_t code = cudaSuccess;
    std::thread([&] {
      void* memory = nullptr;
      code = cudaMalloc(&memory, 16);
      if (code == cudaSuccess) (void)cudaFree(memory);
    }).join();
    REQUIRE((code == cudaSuccess) == (mode != cudaStreamCaptureModeGlobal));
    cudaGraph_t graph = nullptr;
    expect(cudaStreamEndCapture(stream, &graph),
           mode == cudaStreamCaptureModeGlobal ? cudaErrorStreamCaptureInvalidated : cudaSuccess);
    if (graph != nullptr) expect(cudaGraphDestroy(graph));
  }
}

TEST_CASE("Capture.ExchangedModeLetsUnsafeCallsPass") {
  StreamHolder stream;
  expect(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  auto mode = cudaStreamCaptureModeRelaxed;
  expect(cudaThreadExchangeStreamCaptureMode(&mode));
  REQUIRE(mode == cudaStreamCaptureModeGlobal);
  void* memory = nullptr;
  expect(cudaMalloc(&memory, 16));
  expect(cudaThreadExchangeStreamCaptureMode(&mode));
  REQUIRE(mode == cudaStreamCaptureModeRelaxed);
  GraphHolder held;
  expect(cudaStreamEndCapture(stream, &held.graph));
  expect(cudaFree(memory));
}

TEST_CASE("Capture.TheNullStreamMayNotDependOnACapturingStream") {
  StreamHolder blocking(cudaStreamDefault);
  DeviceArray<char> memory(16);
  expect(cudaStreamBeginCapture(blocking, cudaStreamCaptureModeRelaxed));
  expect(cudaMemsetAsync(memory, 0, 16, nullptr), cudaErrorStreamCaptureImplicit);
  expect_invalid_end(blocking);
  StreamHolder independent;
  GraphHolder held;
  expect(cudaStreamBeginCapture(independent, cudaStreamCaptureModeRelaxed));
  expect(cudaMemsetAsync(memory, 0, 16, nullptr));
  expect(cudaStreamEndCapture(independent, &held.graph));
  expect(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeRelaxed), cudaErrorStreamCaptureUnsupported);
}

TEST_CASE("Capture.UncapturedEventsCannotBeWaitedFor") {
  StreamHolder stream, other;
  EventHolder event, never;
  expect(cudaEventRecord(event, other));
  for (cudaEvent_t awaited : {event.event, never.event}) {
    expect(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
    expect(cudaStreamWaitEvent(stream, awaited, 0), cudaErrorStreamCaptureIsolation);
    expect_invalid_end(stream);
  }
}

TEST_CASE("Capture.CapturedEventsCannotBeQueried") {
  StreamHolder stream;
  EventHolder event;
  expect(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
  expect(cudaEventRecord(event, stream));
  expect(cudaEventQuery(event), cudaErrorCapturedEvent);
  expect_invalid_end(stream);
  expect(cudaEventSynchronize(event), cudaErrorCapturedEvent);
  expect(cudaEventRecord(event, stream));
  expect(cudaEventSynchronize(event));
}

TEST_CASE("Capture.TwoCapturesCannotMerge") {
  StreamHolder first, second;
  EventHolder event;
  expect(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed));
  expect(cudaStreamBeginCapture(second, cudaStreamCaptureModeRelaxed));
  expect(cudaEventRecord(event, first));
  expect(cudaStreamWaitEvent(second, event, 0), cudaErrorStreamCaptureMerge);
  expect_invalid_end(first);
  expect_invalid_end(second);
}

TEST_CASE("Capture.ItEndsWhereItBegan") {
  StreamHolder first, second;
  EventHolder event;
  cudaGraph_t graph = nullptr;
  expect(cudaStreamEndCapture(first, &graph), cudaErrorIllegalState);
  expect(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal));
  expect(cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
  expect(cudaEventRecord(event, first));
  expect(cudaStreamWaitEvent(second, event, 0));
  expect(cudaStreamEndCapture(second, &graph), cudaErrorStreamCaptureUnmatched);
  expect_invalid_end(first);
  expect(cudaStreamBeginCapture(first, cudaStreamCaptureModeThreadLocal));
  std::thread([&] { expect(cudaStreamEndCapture(first, &graph), cudaErrorStreamCaptureWrongThread); }).join();
  expect_invalid_end(first);
}

TEST_CASE("Capture.DependenciesCanBeSeenAndChanged") {
  StreamHolder stream;
  DeviceArray<char> memory(32);
  GraphHolder held;
  expect(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  expect(cudaMemsetAsync(memory, 0, 16, stream));
  cudaStreamCaptureStatus status{};
  unsigned long long id = 0;
  cudaGraph_t graph = nullptr;
  const cudaGraphNode_t* dependencies = nullptr;
  std::size_t count = 0;
  expect(cudaStreamGetCaptureInfo(stream, &status, &id, &graph, &dependencies, nullptr, &count));
  REQUIRE(status == cudaStreamCaptureStatusActive);
  REQUIRE(id != 0);
  REQUIRE(count == 1);
  cudaGraphNode_t added = nullptr;
  expect(cudaGraphAddEmptyNode(&added, graph, dependencies, count));
  expect(cudaStreamUpdateCaptureDependencies(stream, &added, nullptr, 1, cudaStreamSetCaptureDependencies));
  expect(cudaMemsetAsync(memory + 16, 0, 16, stream));
  expect(cudaStreamEndCapture(stream, &held.graph));
  REQUIRE(held.graph == graph);
  REQUIRE(held.nodes() == 3);
  REQUIRE(held.edges() == 2);
}
