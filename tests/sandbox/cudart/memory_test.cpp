// Memory: allocation, copies and fills give what CUDA gives, and wrong ones are found.
#include <cstring>
#include <numeric>
#include <vector>

#include "support.h"

using namespace sandbox::test;

namespace {

std::vector<int> counted(std::size_t count) {
  std::vector<int> values(count);
  std::iota(values.begin(), values.end(), 1);
  return values;
}

}  // namespace

TEST_CASE("Memory.CopiesComeBackUnchanged") {
  const auto values = counted(1000);
  std::vector<int> back(1000);
  DeviceArray<int> first(1000), second(1000);
  expect(cudaMemcpy(first, values.data(), 4000, cudaMemcpyHostToDevice));
  expect(cudaMemcpy(second, first, 4000, cudaMemcpyDeviceToDevice));
  expect(cudaMemcpy(back.data(), second, 4000, cudaMemcpyDefault));
  REQUIRE(back == values);
}

TEST_CASE("Memory.PageableSourceIsReadBeforeTheCallReturns") {
  StreamHolder stream;
  Gate gate;
  gate.close(stream);
  auto values = counted(1000);
  const auto wanted = values;
  DeviceArray<int> device(1000);
  expect(cudaMemcpyAsync(device, values.data(), 4000, cudaMemcpyHostToDevice, stream));
  std::fill(values.begin(), values.end(), -1);
  gate.open();
  expect(cudaMemcpyAsync(values.data(), device, 4000, cudaMemcpyDeviceToHost, stream));
  REQUIRE(values == wanted);  // a pageable destination is finished when the call returns
}

TEST_CASE("Memory.PinnedSourceIsReadWhenTheCopyRuns") {
  StreamHolder stream;
  Gate gate;
  gate.close(stream);
  int* pinned = nullptr;
  expect(cudaMallocHost(reinterpret_cast<void**>(&pinned), 4));
  *pinned = 1;
  DeviceArray<int> device(1);
  expect(cudaMemcpyAsync(device, pinned, 4, cudaMemcpyHostToDevice, stream));
  *pinned = 2;
  gate.open();
  expect(cudaStreamSynchronize(stream));
  int got = 0;
  expect(cudaMemcpy(&got, device, 4, cudaMemcpyDeviceToHost));
  REQUIRE(got == 2);
  expect(cudaFreeHost(pinned));
}

TEST_CASE("Memory.PlanesAndBoxesAreCopiedRowByRow") {
  constexpr std::size_t kWidth = 12, kHeight = 5, kDepth = 3;
  std::vector<unsigned char> values(kWidth * kHeight * kDepth);
  std::iota(values.begin(), values.end(), static_cast<unsigned char>(0));
  cudaPitchedPtr box{};
  expect(cudaMalloc3D(&box, cudaExtent{kWidth, kHeight, kDepth}));
  REQUIRE(box.pitch >= kWidth);
  cudaMemcpy3DParms copy{};
  copy.srcPtr = {values.data(), kWidth, kWidth, kHeight};
  copy.dstPtr = box;
  copy.extent = cudaExtent{kWidth, kHeight, kDepth};
  copy.kind = cudaMemcpyHostToDevice;
  expect(cudaMemcpy3D(&copy));
  // The second slice comes back as a plane.
  std::vector<unsigned char> back(kWidth * kHeight);
  const auto* second = static_cast<const unsigned char*>(box.ptr) + box.pitch * kHeight;
  expect(cudaMemcpy2D(back.data(), kWidth, second, box.pitch, kWidth, kHeight, cudaMemcpyDeviceToHost));
  REQUIRE(std::equal(back.begin(), back.end(), values.begin() + kWidth * kHeight));
  expect(cudaMemset2D(box.ptr, box.pitch, 7, kWidth, kHeight));
  expect(cudaMemcpy2D(back.data(), kWidth, box.ptr, box.pitch, kWidth, kHeight, cudaMemcpyDeviceToHost));
  REQUIRE(back == std::vector<unsigned char>(kWidth * kHeight, 7));
  expect(cudaMemcpy2D(back.data(), kWidth - 1, box.ptr, box.pitch, kWidth, kHeight, cudaMemcpyDeviceToHost),
         cudaErrorInvalidPitchValue);
  expect(cudaFree(box.ptr));
}

TEST_CASE("Memory.CopiesBetweenDevicesWaitForBoth") {
  DeviceArray<int> first(1);
  expect(cudaSetDevice(1));
  DeviceArray<int> second(1);
  StreamHolder stream;
  Gate gate;
  gate.close(stream);
  expect(cudaMemsetAsync(second, 3, 4, stream));
  expect(cudaSetDevice(0));
  expect(cudaMemcpyPeer(first, 0, second, 1, 4));
  short_pause();
  gate.open();
  int got = 0;
  expect(cudaMemcpy(&got, first, 4, cudaMemcpyDeviceToHost));
  REQUIRE(got == 0x03030303);
  expect(cudaMemcpyPeer(first, 0, second, 99, 4), cudaErrorInvalidDevice);
}

TEST_CASE("Memory.OutOfBoundsCopiesAreRefused") {
  DeviceArray<char> device(100);
  std::vector<char> host(200);
  expect(cudaMemcpy(device, host.data(), 101, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  expect(cudaMemcpy(host.data(), device + 50, 51, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  expect(cudaMemset(device - 1, 0, 10), cudaErrorInvalidValue);
  expect(cudaMemset(device, 0, 101), cudaErrorInvalidValue);
  expect(cudaMemcpy(device, host.data(), 100, cudaMemcpyHostToDevice));
}

TEST_CASE("Memory.DirectionsMustFitThePointers") {
  DeviceArray<char> device(16);
  char host[16] = {};
  expect(cudaMemcpy(host, device, 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  expect(cudaMemcpy(device, host, 16, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  expect(cudaMemcpy(device, host, 16, static_cast<cudaMemcpyKind>(7)), cudaErrorInvalidMemcpyDirection);
  expect(cudaMemset(host, 0, 16), cudaErrorInvalidValue);
}

TEST_CASE("Memory.UseAfterFreeIsFound") {
  char* device = nullptr;
  char host[16] = {};
  expect(cudaMalloc(reinterpret_cast<void**>(&device), 16));
  expect(cudaFree(device));
  expect(cudaMemcpy(device, host, 16, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  expect(cudaFree(device), cudaErrorInvalidValue);
  expect(cudaFree(host), cudaErrorInvalidValue);
  expect(cudaFree(nullptr));
}

TEST_CASE("Memory.FreeWaitsForWorkInFlight") {
  StreamHolder stream;
  char* device = nullptr;
  expect(cudaMalloc(reinterpret_cast<void**>(&device), 16));
  Gate gate;
  gate.close(stream);
  std::atomic<bool> freed{false};
  std::thread freeing([&] {
    (void)cudaFree(device);
    freed = true;
  });
  short_pause();
  REQUIRE_FALSE(freed);
  gate.open();
  freeing.join();
  REQUIRE(freed);
}

TEST_CASE("Memory.ADeviceHasAnEnd") {
  std::size_t free_bytes = 0, total = 0;
  expect(cudaMemGetInfo(&free_bytes, &total));
  REQUIRE(free_bytes <= total);
  void* much = nullptr;
  expect(cudaMalloc(&much, total + 1), cudaErrorMemoryAllocation);
  sandboxFailAllocation(0, 2);
  void* first = nullptr;
  expect(cudaMalloc(&first, 16));
  expect(cudaMalloc(&much, 16), cudaErrorMemoryAllocation);
  expect(cudaFree(first));
  std::size_t later = 0;
  expect(cudaMemGetInfo(&later, &total));
  REQUIRE(later == free_bytes);
}

TEST_CASE("Memory.PointersTellWhatTheyAre") {
  DeviceArray<char> device(16);
  cudaPointerAttributes attributes{};
  expect(cudaPointerGetAttributes(&attributes, device + 3));
  REQUIRE(attributes.type == cudaMemoryTypeDevice);
  REQUIRE(attributes.device == 0);
  int local = 0;
  expect(cudaPointerGetAttributes(&attributes, &local));
  REQUIRE(attributes.type == cudaMemoryTypeUnregistered);
  std::vector<char> registered(4096);
  expect(cudaHostRegister(registered.data(), registered.size(), cudaHostRegisterDefault));
  expect(cudaHostRegister(registered.data(), registered.size(), cudaHostRegisterDefault),
         cudaErrorHostMemoryAlreadyRegistered);
  expect(cudaPointerGetAttributes(&attributes, registered.data()));
  REQUIRE(attributes.type == cudaMemoryTypeHost);
  expect(cudaHostUnregister(registered.data()));
  expect(cudaHostUnregister(registered.data()), cudaErrorHostMemoryNotRegistered);
}

TEST_CASE("Memory.CopiesOfUnwrittenBytesStayUnwritten") {
  DeviceArray<char> source(64), copy(64);
  expect(cudaMemset(source + 10, 1, 20));
  expect(cudaMemcpy(copy, source, 64, cudaMemcpyDeviceToDevice));
  expect(cudaDeviceSynchronize());
  expect(sandboxCheckRead(0, copy + 10, 20, "the test"));
  // The failing half of this promise makes the device fail: see sticky_test.cpp.
}

TEST_CASE("Pools.MemoryIsReleasedInStreamOrder") {
  StreamHolder stream;
  Gate gate;
  int* memory = nullptr;
  expect(cudaMallocAsync(reinterpret_cast<void**>(&memory), 400, stream));
  gate.close(stream);
  expect(cudaMemsetAsync(memory, 1, 400, stream));
  expect(cudaFreeAsync(memory, stream));
  expect(cudaFreeAsync(memory, stream), cudaErrorInvalidValue);
  cudaPointerAttributes attributes{};
  expect(cudaPointerGetAttributes(&attributes, memory));
  REQUIRE(attributes.type == cudaMemoryTypeDevice);
  gate.open();
  expect(cudaStreamSynchronize(stream));
  expect(cudaPointerGetAttributes(&attributes, memory));
  REQUIRE(attributes.type == cudaMemoryTypeUnregistered);
}

TEST_CASE("Pools.TheyCountWhatIsUsed") {
  cudaMemPool_t pool = nullptr;
  expect(cudaDeviceGetDefaultMemPool(&pool, 0));
  std::uint64_t before = 0, now = 0;
  expect(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &before));
  void* memory = nullptr;
  expect(cudaMallocAsync(&memory, 1000, nullptr));
  expect(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &now));
  REQUIRE(now == before + 1000);
  expect(cudaFree(memory));
  expect(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &now));
  REQUIRE(now == before);
  DeviceArray<char> plain(16);
  expect(cudaFreeAsync(plain, nullptr), cudaErrorInvalidValue);
}
