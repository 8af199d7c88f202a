// What happens to a whole process: sticky errors, exit with work in flight, fork. Each case is a process of
// its own.
#include <sys/wait.h>
#include <unistd.h>

#include "process.h"

using namespace sandbox::test;

TEST_CASE("Process.AFailureSticksToItsDevice") {
  const auto ended = run_alone([] {
    Checks check;
    void* memory = nullptr;
    cudaStream_t stream = nullptr;
    check.code(cudaMalloc(&memory, 16), cudaSuccess);
    check.code(cudaStreamCreate(&stream), cudaSuccess);
    check.code(sandboxStreamEnqueue(
                   stream, "bad work", [](void*) { return cudaErrorIllegalAddress; }, nullptr, nullptr),
               cudaSuccess);
    check.code(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
    check.code(cudaGetLastError(), cudaErrorIllegalAddress);
    check.code(cudaMalloc(&memory, 16), cudaErrorIllegalAddress);
    check.code(cudaMemset(memory, 0, 1), cudaErrorIllegalAddress);
    check.code(cudaStreamQuery(stream), cudaErrorIllegalAddress);
    check.code(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    check.code(cudaDeviceReset(), cudaErrorIllegalAddress);
    check.code(sandboxStickyError(0), cudaErrorIllegalAddress);
    check.code(cudaSetDevice(1), cudaSuccess);
    check.code(cudaMalloc(&memory, 16), cudaSuccess);
    check.code(cudaDeviceSynchronize(), cudaSuccess);
    return check.result();
  });
  require_clean(ended);
  REQUIRE(ended.text == "sandbox: device 0: bad work: an illegal memory access was encountered\n");
}

TEST_CASE("Process.WorkBehindAFailureDoesNotRunButIsReleased") {
  const auto ended = run_alone([] {
    Checks check;
    static std::atomic<int> ran{0}, released{0}, called{0};
    const auto work = [](void*) {
      ++ran;
      return cudaSuccess;
    };
    check.code(sandboxStreamEnqueue(
                   nullptr, "bad work",
                   [](void*) {
                     std::this_thread::sleep_for(std::chrono::milliseconds(30));
                     return cudaErrorLaunchFailure;
                   },
                   nullptr, nullptr),
               cudaSuccess);
    check.code(sandboxStreamEnqueue(nullptr, "work", work, nullptr, [](void*) { ++released; }), cudaSuccess);
    check.code(cudaLaunchHostFunc(
                   nullptr, [](void*) { ++ran; }, nullptr),
               cudaSuccess);
    check.code(cudaStreamAddCallback(
                   nullptr, [](cudaStream_t, cudaError_t code, void*) { called = code; }, nullptr, 0),
               cudaSuccess);
    check.code(cudaStreamSynchronize(nullptr), cudaErrorLaunchFailure);
    for (int i = 0; i < 1000 && called == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    check.that(ran == 0);
    check.that(released == 1);
    check.that(called == cudaErrorLaunchFailure);
    return check.result();
  });
  require_clean(ended);
}

TEST_CASE("Process.ReadsOfUnwrittenBytesAreReported") {
  const auto ended = run_alone([] {
    Checks check;
    char *source = nullptr, *copy = nullptr;
    check.code(cudaMalloc(reinterpret_cast<void**>(&source), 64), cudaSuccess);
    check.code(cudaMalloc(reinterpret_cast<void**>(&copy), 64), cudaSuccess);
    check.code(cudaMemset(source, 1, 63), cudaSuccess);
    check.code(cudaMemcpy(copy, source, 64, cudaMemcpyDeviceToDevice), cudaSuccess);
    check.code(cudaDeviceSynchronize(), cudaSuccess);
    check.code(sandboxCheckRead(0, copy, 63, "the test"), cudaSuccess);
    check.code(sandboxCheckRead(0, copy, 64, "the test"), cudaErrorIllegalAddress);
    check.code(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    return check.result();
  });
  require_clean(ended);
  REQUIRE(lines(ended.text) == 1);
  REQUIRE(ended.text.find("the test: read of bytes never written") != std::string::npos);
}

TEST_CASE("Process.MemoryFreedBeforeACopyRunsIsAnIllegalAddress") {
  const auto ended = run_alone([] {
    Checks check;
    void* memory = nullptr;
    cudaStream_t first = nullptr, second = nullptr;
    check.code(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), cudaSuccess);
    check.code(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), cudaSuccess);
    check.code(cudaMallocAsync(&memory, 64, first), cudaSuccess);
    check.code(sandboxStreamEnqueue(
                   second, "sleep",
                   [](void*) {
                     std::this_thread::sleep_for(std::chrono::milliseconds(50));
                     return cudaSuccess;
                   },
                   nullptr, nullptr),
               cudaSuccess);
    check.code(cudaMemsetAsync(memory, 0, 64, second), cudaSuccess);
    check.code(cudaFreeAsync(memory, first), cudaSuccess);
    check.code(cudaStreamSynchronize(first), cudaSuccess);
    check.code(cudaStreamSynchronize(second), cudaErrorIllegalAddress);
    return check.result();
  });
  require_clean(ended);
  REQUIRE(ended.text.find("after free") != std::string::npos);
}

TEST_CASE("Process.ExitDoesNotWaitForWorkInFlight") {
  const auto start = std::chrono::steady_clock::now();
  const auto ended = run_alone([] {
    Checks check;
    for (int i = 0; i < 4; ++i) {
      cudaStream_t stream = nullptr;
      check.code(cudaStreamCreate(&stream), cudaSuccess);
      check.code(sandboxStreamEnqueue(
                     stream, "endless",
                     [](void*) {
                       while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
                       return cudaSuccess;
                     },
                     nullptr, nullptr),
                 cudaSuccess);
      void* memory = nullptr;
      check.code(cudaMallocAsync(&memory, 1 << 20, stream), cudaSuccess);
      check.code(cudaMemsetAsync(memory, 0, 1 << 20, stream), cudaSuccess);
    }
    return check.result();
  });
  require_clean(ended);
  REQUIRE(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}

TEST_CASE("Process.AForkedChildOfAUserOfCudaCannotUseIt") {
  const auto ended = run_alone([] {
    Checks check;
    check.code(cudaFree(nullptr), cudaSuccess);
    const pid_t child = fork();
    if (child == 0) _exit(cudaFree(nullptr) == cudaErrorInitializationError ? 0 : 1);
    int status = 1;
    check.that(waitpid(child, &status, 0) == child && status == 0);
    return check.result();
  });
  require_clean(ended);
}

TEST_CASE("Process.DevicesAndTheirMemoryFollowTheEnvironment") {
  const auto ended = run_alone([] {
    setenv("SANDBOX_DEVICES", "3", 1);
    setenv("SANDBOX_DEVICE_MEMORY", "1M", 1);
    Checks check;
    int count = 0;
    check.code(cudaGetDeviceCount(&count), cudaSuccess);
    check.that(count == 3);
    check.code(cudaSetDevice(3), cudaErrorInvalidDevice);
    void* memory = nullptr;
    check.code(cudaMalloc(&memory, 1 << 20), cudaSuccess);
    check.code(cudaMalloc(&memory, 1), cudaErrorMemoryAllocation);
    return check.result();
  });
  require_clean(ended);
}

TEST_CASE("Process.NoDevicesIsAnError") {
  const auto ended = run_alone([] {
    setenv("SANDBOX_DEVICES", "0", 1);
    Checks check;
    int count = 7;
    check.code(cudaGetDeviceCount(&count), cudaErrorNoDevice);
    check.that(count == 0);
    check.code(cudaFree(nullptr), cudaErrorNoDevice);
    return check.result();
  });
  require_clean(ended);
}

TEST_CASE("Process.WhatIsNotImplementedSaysSoByName") {
  const auto ended = run_alone([] {
    Checks check;
    cudaArray_t array = nullptr;
    const cudaChannelFormatDesc format{};
    check.code(cudaMallocArray(&array, &format, 16, 16, 0), cudaErrorNotSupported);
    check.code(cudaGetLastError(), cudaErrorNotSupported);
    void* function = nullptr;
    check.code(cudaGetDriverEntryPointByVersion("cuMemAlloc", &function, 13000, 0, nullptr),
               cudaErrorNotSupported);
    check.that(function == nullptr);
    return check.result();
  });
  require_clean(ended);
  REQUIRE(ended.text.find("cudaMallocArray is not implemented") != std::string::npos);
  REQUIRE(ended.text.find("cuMemAlloc") != std::string::npos);
}
