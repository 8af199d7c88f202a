// Kernels that do wrong: each gets CUDA's error code, which sticks, and one line that names the kernel and
// the address.
#undef NDEBUG  // the device's assert is tested here
#include <cassert>

#include "process.h"

using namespace sandbox::test;

namespace {

__global__ void write_at(int* values, int index) {
  values[index] = 1;
}
__global__ void read_at(const int* values, int index, int* out) {
  *out = values[index];
}
__global__ void write_misaligned(char* values) {
  *reinterpret_cast<int*>(values + 1) = 1;
}
__global__ void fail_assertion(int value) {
  assert(value == 0);
}
__global__ void stop() {
  __trap();
}
__global__ void load_matrix(int* out) {
  __shared__ int tile[32];
  tile[threadIdx.x] = 0;
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(tile + threadIdx.x / 8 * 4));
  asm volatile("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%0}, [%1];" : "=r"(*out) : "r"(address));
}
__global__ void spin(volatile int* flag) {
  while (*flag == 0) {
  }
}

/// A child that launches one kernel and must see `wanted` at every call from then on.
template <class Launch>
Ended failing(cudaError_t wanted, Launch&& launch) {
  return run_alone([&] {
    Checks check;
    int* memory = nullptr;
    check.code(cudaMalloc(reinterpret_cast<void**>(&memory), 64), cudaSuccess);
    check.code(cudaMemset(memory, 0, 60), cudaSuccess);
    launch(memory);
    check.code(cudaDeviceSynchronize(), wanted);
    check.code(cudaGetLastError(), wanted);
    check.code(cudaMemset(memory, 0, 4), wanted);
    int* more = nullptr;
    check.code(cudaMalloc(reinterpret_cast<void**>(&more), 64), wanted);
    return check.result();
  });
}

void require_names(const Ended& ended, const char* kernel) {
  require_clean(ended);
  INFO(ended.text);
  REQUIRE(ended.text.find("sandbox: device 0: ") != std::string::npos);
  REQUIRE(ended.text.find(kernel) != std::string::npos);
}

}  // namespace

TEST_CASE("Faults.WritesOutOfBounds") {
  const auto ended = failing(cudaErrorIllegalAddress, [](int* memory) { write_at<<<1, 1>>>(memory, 16); });
  require_names(ended, "write_at");
  REQUIRE(lines(ended.text) == 1);
}

TEST_CASE("Faults.ReadsOutOfBounds") {
  require_names(failing(cudaErrorIllegalAddress, [](int* memory) { read_at<<<1, 1>>>(memory, -1, memory); }),
                "read_at");
}

TEST_CASE("Faults.UseAfterFree") {
  require_names(failing(cudaErrorIllegalAddress,
                        [](int* memory) {
                          int* gone = nullptr;
                          (void)cudaMalloc(reinterpret_cast<void**>(&gone), 64);
                          (void)cudaFree(gone);
                          read_at<<<1, 1>>>(gone, 0, memory);
                        }),
                "read_at");
}

TEST_CASE("Faults.ReadsOfBytesNeverWritten") {
  require_names(failing(cudaErrorIllegalAddress, [](int* memory) { read_at<<<1, 1>>>(memory, 15, memory); }),
                "read_at");
}

TEST_CASE("Faults.HostMemoryIsNotTheDevices") {
  require_names(failing(cudaErrorIllegalAddress,
                        [](int*) {
                          static int local = 0;
                          write_at<<<1, 1>>>(&local, 0);
                        }),
                "write_at");
}

TEST_CASE("Faults.MisalignedAccess") {
  require_names(failing(cudaErrorMisalignedAddress,
                        [](int* memory) { write_misaligned<<<1, 1>>>(reinterpret_cast<char*>(memory)); }),
                "write_misaligned");
}

TEST_CASE("Faults.FailedAssertion") {
  require_clean(failing(cudaErrorAssert, [](int*) { fail_assertion<<<1, 1>>>(1); }));
}

TEST_CASE("Faults.Trap") {
  require_names(failing(cudaErrorLaunchFailure, [](int*) { stop<<<1, 1>>>(); }), "stop");
}

TEST_CASE("Faults.WhatIsNotKnownFailsTheLaunchAndNothingElse") {
  const auto ended = run_alone([] {
    Checks check;
    int* memory = nullptr;
    check.code(cudaMalloc(reinterpret_cast<void**>(&memory), 64), cudaSuccess);
    load_matrix<<<1, 32>>>(memory);
    check.code(cudaPeekAtLastError(), cudaErrorNotSupported);
    check.code(cudaDeviceSynchronize(), cudaSuccess);
    check.code(cudaGetLastError(), cudaErrorNotSupported);
    check.code(cudaGetLastError(), cudaSuccess);
    write_at<<<1, 1>>>(memory, 3);
    int value = 0;
    check.code(cudaMemcpy(&value, memory + 3, 4, cudaMemcpyDeviceToHost), cudaSuccess);
    check.code(value == 1 ? cudaSuccess : cudaErrorUnknown, cudaSuccess);
    return check.result();
  });
  require_clean(ended);
  INFO(ended.text);
  REQUIRE(ended.text.find("load_matrix") != std::string::npos);
  REQUIRE(ended.text.find("ldmatrix") != std::string::npos);
  REQUIRE(lines(ended.text) == 1);
}

TEST_CASE("Faults.ExitCutsAnEndlessKernelShort") {
  const auto start = std::chrono::steady_clock::now();
  const auto ended = run_alone([] {
    int* flag = nullptr;
    Checks check;
    check.code(cudaMalloc(reinterpret_cast<void**>(&flag), 4), cudaSuccess);
    check.code(cudaMemset(flag, 0, 4), cudaSuccess);
    spin<<<1, 32>>>(flag);
    check.code(cudaGetLastError(), cudaSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return check.result();
  });
  require_clean(ended);
  REQUIRE(ended.text.empty());
  REQUIRE(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
}
