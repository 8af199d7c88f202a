// Code compiled with --default-stream per-thread: the NULL stream is the thread's own.
#include <thread>

#include "support.h"

using namespace sandbox::test;

namespace {

__global__ void store(int* out, int value) {
  *out = value;
}

}  // namespace

TEST_CASE("PerThread.TheNullStreamsOfTwoThreadsAreIndependent") {
  DeviceArray<int> device(2);
  Gate gate;
  gate.close(cudaStreamPerThread);
  store<<<1, 1>>>(device, 1);
  expect(cudaGetLastError());
  expect(cudaStreamQuery(nullptr), cudaErrorNotReady);
  std::thread([&] {
    store<<<1, 1>>>(device + 1, 2);
    int got = 0;
    expect(cudaMemcpy(&got, device + 1, 4, cudaMemcpyDeviceToHost));
    REQUIRE(got == 2);
  }).join();
  expect(cudaStreamQuery(nullptr), cudaErrorNotReady);
  gate.open();
  int got = 0;
  expect(cudaMemcpyAsync(&got, device, 4, cudaMemcpyDeviceToHost, nullptr));
  REQUIRE(got == 1);
}

TEST_CASE("PerThread.TheNullStreamCanBeCaptured") {
  DeviceArray<int> device(1);
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  expect(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeThreadLocal));
  store<<<1, 1>>>(device, 9);
  expect(cudaStreamEndCapture(nullptr, &graph));
  expect(cudaGraphInstantiate(&exec, graph, 0));
  expect(cudaGraphLaunch(exec, nullptr));
  int got = 0;
  expect(cudaMemcpy(&got, device, 4, cudaMemcpyDeviceToHost));
  REQUIRE(got == 9);
  expect(cudaGraphExecDestroy(exec));
  expect(cudaGraphDestroy(graph));
}
