// Kernels through the runtime: launches, symbols, attributes, graphs, and the errors of wrong launches.
#include <cstring>
#include <numeric>
#include <vector>

#include "support.h"

using namespace sandbox::test;

namespace {

struct Mixed {
  char letter;
  double number;
  short count;
};

__constant__ int factor = 3;
__device__ int total = 5;
__managed__ int shared_with_host = 7;

__global__ void scale(int* values, int count) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) values[i] *= factor;
}

__global__ void store_arguments(double* out, char a, Mixed mixed, long long b) {
  out[0] = a;
  out[1] = mixed.letter;
  out[2] = mixed.number;
  out[3] = mixed.count;
  out[4] = static_cast<double>(b);
}

__global__ void add_to_total(int amount) {
  atomicAdd(&total, amount);
}
__global__ void add_to_managed(int amount) {
  shared_with_host += amount;
}

__global__ void reverse_in_shared(int* values) {
  extern __shared__ int held[];
  held[threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  values[threadIdx.x] = held[blockDim.x - 1 - threadIdx.x];
}

__global__ void __launch_bounds__(64) at_most_64_threads() {}
__global__ void nothing() {}

template <class T>
T read_back(const T* device) {
  T value{};
  expect(cudaMemcpy(&value, device, sizeof value, cudaMemcpyDeviceToHost));
  return value;
}

}  // namespace

TEST_CASE("Kernels.RunOverTheirGrid") {
  std::vector<int> values(1000);
  std::iota(values.begin(), values.end(), 0);
  DeviceArray<int> device(1000);
  expect(cudaMemcpy(device, values.data(), 4000, cudaMemcpyHostToDevice));
  scale<<<4, 256>>>(device, 1000);
  expect(cudaGetLastError());
  std::vector<int> back(1000);
  expect(cudaMemcpy(back.data(), device, 4000, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 1000; ++i) REQUIRE(back[static_cast<std::size_t>(i)] == 3 * i);
}

TEST_CASE("Kernels.ArgumentsOfAllSizesArrive") {
  DeviceArray<double> out(5);
  store_arguments<<<1, 1>>>(out, 'a', Mixed{'b', 2.5, 77}, 1LL << 40);
  expect(cudaGetLastError());
  double got[5] = {};
  expect(cudaMemcpy(got, out, sizeof got, cudaMemcpyDeviceToHost));
  REQUIRE(got[0] == 'a');
  REQUIRE(got[1] == 'b');
  REQUIRE(got[2] == 2.5);
  REQUIRE(got[3] == 77);
  REQUIRE(got[4] == 1099511627776.0);
}

TEST_CASE("Kernels.ArgumentsAreReadAtTheLaunch") {
  StreamHolder stream;
  DeviceArray<int> value(1);
  Gate gate;
  gate.close(stream);
  expect(cudaMemsetAsync(value, 0, 4, stream));
  int amount = 1;
  void* arguments[] = {&amount};
  int before = 0, after = 0;
  expect(cudaMemcpyFromSymbol(&before, total, sizeof before));
  expect(
      cudaLaunchKernel(reinterpret_cast<const void*>(&add_to_total), dim3(1), dim3(1), arguments, 0, stream));
  amount = 100;
  gate.open();
  expect(cudaStreamSynchronize(stream));
  expect(cudaMemcpyFromSymbol(&after, total, sizeof after));
  REQUIRE(after == before + 1);
}

TEST_CASE("Kernels.EachDeviceHasItsOwnVariables") {
  const int start = 10;
  int got = 0;
  for (int device : {0, 1}) {
    expect(cudaSetDevice(device));
    expect(cudaMemcpyToSymbol(total, &start, sizeof start));
  }
  add_to_total<<<1, 32>>>(1);
  expect(cudaMemcpyFromSymbol(&got, total, sizeof got));
  REQUIRE(got == 42);
  expect(cudaSetDevice(0));
  expect(cudaMemcpyFromSymbol(&got, total, sizeof got));
  REQUIRE(got == 10);
  void* address = nullptr;
  std::size_t bytes = 0;
  expect(cudaGetSymbolAddress(&address, total));
  expect(cudaGetSymbolSize(&bytes, total));
  REQUIRE(bytes == 4);
  REQUIRE(read_back(static_cast<int*>(address)) == 10);
  expect(cudaMemcpyToSymbol(total, &start, 8), cudaErrorInvalidValue);
  expect(cudaGetSymbolAddress(&address, &got), cudaErrorInvalidSymbol);
}

TEST_CASE("Kernels.ManagedVariablesAreTheHostsToo") {
  shared_with_host = 1;
  add_to_managed<<<1, 1>>>(4);
  expect(cudaDeviceSynchronize());
  REQUIRE(shared_with_host == 5);
}

TEST_CASE("Kernels.DynamicSharedMemoryHasItsLimits") {
  std::vector<int> values(64), back(64);
  std::iota(values.begin(), values.end(), 0);
  DeviceArray<int> device(64);
  expect(cudaMemcpy(device, values.data(), 256, cudaMemcpyHostToDevice));
  reverse_in_shared<<<1, 64, 256>>>(device);
  expect(cudaMemcpy(back.data(), device, 256, cudaMemcpyDeviceToHost));
  REQUIRE(back.front() == 63);
  REQUIRE(back.back() == 0);
  reverse_in_shared<<<1, 64, 100 * 1024>>>(device);
  expect(cudaGetLastError(), cudaErrorInvalidValue);
  expect(cudaFuncSetAttribute(reverse_in_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 * 1024));
  reverse_in_shared<<<1, 64, 100 * 1024>>>(device);
  expect(cudaGetLastError());
  expect(cudaFuncSetAttribute(reverse_in_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 300 * 1024),
         cudaErrorInvalidValue);
  expect(cudaDeviceSynchronize());
}

TEST_CASE("Kernels.WrongLaunchesAreRefusedAtTheCall") {
  nothing<<<0, 1>>>();
  expect(cudaGetLastError(), cudaErrorInvalidConfiguration);
  nothing<<<1, 1025>>>();
  expect(cudaGetLastError(), cudaErrorInvalidConfiguration);
  nothing<<<dim3(1, 65536), 1>>>();
  expect(cudaGetLastError(), cudaErrorInvalidConfiguration);
  nothing<<<1, dim3(1, 1, 65)>>>();
  expect(cudaGetLastError(), cudaErrorInvalidConfiguration);
  at_most_64_threads<<<1, 65>>>();
  expect(cudaGetLastError(), cudaErrorLaunchOutOfResources);
  int local = 0;
  expect(cudaLaunchKernel(&local, dim3(1), dim3(1), nullptr, 0, nullptr), cudaErrorInvalidDeviceFunction);
  nothing<<<1, 1>>>();
  expect(cudaDeviceSynchronize());
}

TEST_CASE("Kernels.AnotherDevicesStreamIsRefused") {
  expect(cudaSetDevice(1));
  StreamHolder other;
  expect(cudaSetDevice(0));
  nothing<<<1, 1, 0, other>>>();
  expect(cudaGetLastError(), cudaErrorInvalidResourceHandle);
}

TEST_CASE("Kernels.AttributesAndOccupancyAreKnown") {
  cudaFuncAttributes attributes{};
  expect(cudaFuncGetAttributes(&attributes, at_most_64_threads));
  REQUIRE(attributes.maxThreadsPerBlock == 64);
  REQUIRE(attributes.ptxVersion == 80);
  int blocks = 0;
  expect(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 1024, 0));
  REQUIRE(blocks == 2);
  expect(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, nothing, 32, 100 * 1024));
  REQUIRE(blocks == 2);
  int least_grid = 0, best_block = 0;
  expect(cudaOccupancyMaxPotentialBlockSize(&least_grid, &best_block, nothing));
  REQUIRE(best_block > 0);
}

TEST_CASE("Kernels.HandlesLaunchLikeFunctions") {
  cudaKernel_t kernel = nullptr;
  expect(cudaGetKernel(&kernel, reinterpret_cast<const void*>(&nothing)));
  expect(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(1), nullptr, 0, nullptr));
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(1);
  config.blockDim = dim3(32);
  expect(cudaLaunchKernelEx(&config, add_to_total, 0));
  const char* name = nullptr;
  expect(cudaFuncGetName(&name, reinterpret_cast<const void*>(&nothing)));
  REQUIRE(std::strstr(name, "nothing") != nullptr);
  std::size_t offset = 1, bytes = 0;
  expect(cudaFuncGetParamInfo(reinterpret_cast<const void*>(&add_to_total), 0, &offset, &bytes));
  REQUIRE(offset == 0);
  REQUIRE(bytes == sizeof(int));
  expect(cudaFuncGetParamInfo(reinterpret_cast<const void*>(&add_to_total), 1, &offset, &bytes),
         cudaErrorInvalidValue);
  expect(cudaDeviceSynchronize());
}

TEST_CASE("Kernels.CooperativeGridsMustFitTheDevice") {
  const auto* function = reinterpret_cast<const void*>(&nothing);
  expect(cudaLaunchCooperativeKernel(function, dim3(8), dim3(32), nullptr, 0, nullptr));
  expect(cudaLaunchCooperativeKernel(function, dim3(1 << 20), dim3(32), nullptr, 0, nullptr),
         cudaErrorCooperativeLaunchTooLarge);
  int supported = 0;
  expect(cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, 0));
  REQUIRE(supported == 1);
  expect(cudaDeviceSynchronize());
}

TEST_CASE("Kernels.GraphNodesRunAndCanBeChanged") {
  StreamHolder stream;
  DeviceArray<int> value(1);
  const int one = 1;
  expect(cudaMemcpy(value, &one, 4, cudaMemcpyHostToDevice));
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  expect(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
  scale<<<1, 1, 0, stream>>>(value, 1);
  scale<<<1, 1, 0, stream>>>(value, 1);
  expect(cudaGetLastError());
  expect(cudaStreamEndCapture(stream, &graph));
  expect(cudaGraphInstantiate(&exec, graph, 0));
  expect(cudaGraphLaunch(exec, stream));
  expect(cudaGraphLaunch(exec, stream));
  expect(cudaStreamSynchronize(stream));
  REQUIRE(read_back(value.data) == 81);
  std::size_t count = 2;
  cudaGraphNode_t nodes[2] = {};
  expect(cudaGraphGetNodes(graph, nodes, &count));
  int* pointer = value;
  int none = 0;
  void* arguments[] = {&pointer, &none};
  cudaKernelNodeParams parameters{};
  parameters.func = reinterpret_cast<void*>(&scale);
  parameters.gridDim = dim3(1);
  parameters.blockDim = dim3(1);
  parameters.kernelParams = arguments;
  expect(cudaGraphExecKernelNodeSetParams(exec, nodes[1], &parameters));
  expect(cudaGraphLaunch(exec, stream));
  expect(cudaStreamSynchronize(stream));
  REQUIRE(read_back(value.data) == 243);
  expect(cudaGraphExecDestroy(exec));
  expect(cudaGraphDestroy(graph));
}

TEST_CASE("Kernels.LibrariesLoadTheirOwnPtx") {
  static constexpr char kPtx[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry store_seven(.param .u64 out)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, 7;
  st.global.u32 [%rd2], %r1;
  ret;
}
)";
  cudaLibrary_t library = nullptr;
  cudaKernel_t kernel = nullptr;
  expect(cudaLibraryLoadData(&library, kPtx, nullptr, nullptr, 0, nullptr, nullptr, 0));
  expect(cudaLibraryGetKernel(&kernel, library, "store_seven"));
  DeviceArray<int> value(1);
  int* pointer = value;
  void* arguments[] = {&pointer};
  expect(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(1), dim3(1), arguments, 0, nullptr));
  REQUIRE(read_back(value.data) == 7);
  expect(cudaLibraryGetKernel(&kernel, library, "store_eight"), cudaErrorSymbolNotFound);
  expect(cudaLibraryUnload(library));
}
