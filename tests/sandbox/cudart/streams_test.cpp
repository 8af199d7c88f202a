// Streams and events order work as CUDA documents, and never more kindly.
#include <vector>

#include "support.h"

using namespace sandbox::test;

TEST_CASE("Streams.WorkOfOneStreamRunsInOrder") {
  StreamHolder stream;
  Order order;
  std::vector<Mark> marks(50);
  for (auto& mark : marks) {
    mark.order = &order;
    mark.put(stream);
  }
  expect(cudaStreamSynchronize(stream));
  for (std::size_t i = 0; i < marks.size(); ++i) REQUIRE(marks[i].at == static_cast<int>(i) + 1);
}

TEST_CASE("Streams.NonBlockingStreamsRunBesideTheNullStream") {
  StreamHolder stream;
  Gate gate;
  gate.close(nullptr);
  Order order;
  Mark mark{&order};
  mark.put(stream);
  expect(cudaStreamSynchronize(stream));
  REQUIRE(mark.at == 1);
  gate.open();
  expect(cudaDeviceSynchronize());
}

TEST_CASE("Streams.BlockingStreamsWaitForTheNullStream") {
  StreamHolder stream(cudaStreamDefault);
  Gate gate;
  gate.close(nullptr);
  Order order;
  Mark mark{&order};
  mark.put(stream);
  short_pause();
  REQUIRE(mark.at == 0);
  expect(cudaStreamQuery(stream), cudaErrorNotReady);
  gate.open();
  expect(cudaStreamSynchronize(stream));
  REQUIRE(mark.at == 1);
}

TEST_CASE("Streams.TheNullStreamWaitsForBlockingStreams") {
  StreamHolder stream(cudaStreamDefault);
  Gate gate;
  gate.close(stream);
  Order order;
  Mark mark{&order};
  mark.put(nullptr);
  short_pause();
  REQUIRE(mark.at == 0);
  gate.open();
  expect(cudaStreamSynchronize(nullptr));
  REQUIRE(mark.at == 1);
}

TEST_CASE("Streams.ThePerThreadStreamIsBlockingAndOwnToEachThread") {
  Gate gate;
  gate.close(cudaStreamPerThread);
  Order order;
  Mark other{&order};
  std::thread([&] {
    other.put(cudaStreamPerThread);
    expect(cudaStreamSynchronize(cudaStreamPerThread));
  }).join();
  REQUIRE(other.at == 1);
  Mark after{&order};
  after.put(cudaStreamLegacy);
  short_pause();
  REQUIRE(after.at == 0);
  gate.open();
  expect(cudaDeviceSynchronize());
  REQUIRE(after.at == 2);
}

TEST_CASE("Streams.WorkOfAnEndedThreadStillRuns") {
  Gate gate;
  Order order;
  Mark mark{&order};
  std::thread([&] {
    gate.close(cudaStreamPerThread);
    mark.put(cudaStreamPerThread);
  }).join();
  gate.open();
  expect(cudaDeviceSynchronize());
  REQUIRE(mark.at == 1);
}

TEST_CASE("Streams.ADestroyedStreamFinishesItsWork") {
  Gate gate;
  Order order;
  Mark mark{&order};
  cudaStream_t stream = nullptr;
  expect(cudaStreamCreate(&stream));
  gate.close(stream);
  mark.put(stream);
  expect(cudaStreamDestroy(stream));
  expect(cudaStreamQuery(stream), cudaErrorInvalidResourceHandle);
  gate.open();
  for (int i = 0; i < 1000 && mark.at == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  REQUIRE(mark.at == 1);
}

TEST_CASE("Events.OneNeverRecordedReadsAsFinished") {
  EventHolder event;
  StreamHolder stream;
  expect(cudaEventQuery(event));
  expect(cudaEventSynchronize(event));
  Gate gate;
  gate.close(nullptr);
  expect(cudaStreamWaitEvent(stream, event, 0));
  expect(cudaStreamSynchronize(stream));
}

TEST_CASE("Events.AWaitIsForTheRecordBeforeItNotForALaterOne") {
  StreamHolder first, second;
  EventHolder event;
  Order order;
  expect(cudaEventRecord(event, first));
  Mark mark{&order};
  expect(cudaStreamWaitEvent(second, event, 0));
  Gate gate;
  gate.close(first);
  expect(cudaEventRecord(event, first));
  mark.put(second);
  expect(cudaStreamSynchronize(second));
  REQUIRE(mark.at == 1);
  expect(cudaEventQuery(event), cudaErrorNotReady);
  gate.open();
  expect(cudaEventSynchronize(event));
}

TEST_CASE("Events.AWaitHoldsAnotherDevicesStream") {
  EventHolder event;
  StreamHolder first;
  expect(cudaSetDevice(1));
  StreamHolder second;
  Gate gate;
  gate.close(first);
  expect(cudaEventRecord(event, second), cudaErrorInvalidResourceHandle);
  expect(cudaSetDevice(0));
  expect(cudaEventRecord(event, first));
  expect(cudaStreamWaitEvent(second, event, 0));
  expect(cudaStreamQuery(second), cudaErrorNotReady);
  gate.open();
  expect(cudaStreamSynchronize(second));
}

TEST_CASE("Events.TimeIsMeasuredBetweenRecords") {
  StreamHolder stream;
  EventHolder start, end, untimed(cudaEventDisableTiming);
  expect(cudaEventRecord(start, stream));
  expect(sandboxStreamEnqueue(
      stream, "sleep",
      [](void*) {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return cudaSuccess;
      },
      nullptr, nullptr));
  expect(cudaEventRecord(end, stream));
  float milliseconds = 0;
  expect(cudaEventElapsedTime(&milliseconds, start, end), cudaErrorNotReady);
  expect(cudaEventSynchronize(end));
  expect(cudaEventElapsedTime(&milliseconds, start, end));
  REQUIRE(milliseconds >= 19.0F);
  expect(cudaEventElapsedTime(&milliseconds, start, untimed), cudaErrorInvalidResourceHandle);
}

TEST_CASE("Streams.SynchronizingADeviceLeavesOthersRunning") {
  expect(cudaSetDevice(1));
  StreamHolder other;
  Gate gate;
  gate.close(other);
  expect(cudaSetDevice(0));
  expect(cudaDeviceSynchronize());
  expect(cudaStreamQuery(other), cudaErrorNotReady);
}

TEST_CASE("Streams.HostFunctionsRunInOrderAndMayNotCallCuda") {
  StreamHolder stream;
  struct Seen {
    cudaError_t code = cudaSuccess;
  } seen;
  expect(cudaLaunchHostFunc(
      stream,
      [](void* argument) {
        void* memory = nullptr;
        static_cast<Seen*>(argument)->code = cudaMalloc(&memory, 16);
      },
      &seen));
  expect(cudaStreamSynchronize(stream));
  REQUIRE(name_of(seen.code) == "cudaErrorNotPermitted");
}

TEST_CASE("Streams.CallbacksGetTheirStreamAndState") {
  StreamHolder stream;
  struct Seen {
    cudaStream_t stream = nullptr;
    cudaError_t code = cudaErrorUnknown;
  } seen;
  expect(cudaStreamAddCallback(
      stream,
      [](cudaStream_t which, cudaError_t code, void* argument) {
        *static_cast<Seen*>(argument) = {which, code};
      },
      &seen, 0));
  expect(cudaStreamSynchronize(stream));
  REQUIRE(seen.stream == stream.stream);
  REQUIRE(seen.code == cudaSuccess);
}

TEST_CASE("Streams.EnqueuedWorkReleasesItsArgumentOnce") {
  StreamHolder stream;
  std::atomic<int> released{0};
  const auto release = [](void* argument) { ++*static_cast<std::atomic<int>*>(argument); };
  expect(sandboxStreamEnqueue(
      stream, "nothing", [](void*) { return cudaSuccess; }, &released, release));
  expect(cudaStreamSynchronize(stream));
  REQUIRE(released == 1);
  expect(sandboxStreamEnqueue(
             reinterpret_cast<cudaStream_t>(&released), "nothing", [](void*) { return cudaSuccess; },
             &released, release),
         cudaErrorInvalidResourceHandle);
  REQUIRE(released == 1);
}
