// What the emulated devices say about themselves: an H100's shape, under the sandbox's name.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "device.h"
#include "launch.h"

using namespace sandbox::cudart;

namespace {

constexpr int kMajor = 9;
constexpr int kMinor = 0;
constexpr int kRuntimeVersion = CUDART_VERSION;
constexpr int kBusOfFirst = 0x10;
constexpr int kClockKilohertz = 1'980'000;
constexpr int kMemoryClockKilohertz = 2'619'000;
constexpr int kMemoryBusBits = 5120;
constexpr int kL2Bytes = 50 << 20;
constexpr std::size_t kPitchLimit = 0x7fffffff;

cudaDeviceProp properties_of(const Device& device) {
  cudaDeviceProp p{};
  std::snprintf(p.name, sizeof p.name, "sandbox: emulated GPU");
  for (int i = 0; i < 16; ++i) p.uuid.bytes[i] = static_cast<char>(0x50 + i);
  p.uuid.bytes[15] = static_cast<char>(device.index);
  p.totalGlobalMem = device.memory_bytes;
  p.sharedMemPerBlock = kSharedBytesPerBlock;
  p.regsPerBlock = kRegistersPerMultiprocessor;
  p.warpSize = 32;
  p.memPitch = kPitchLimit;
  p.maxThreadsPerBlock = kMaxThreadsPerBlock;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 0x7fffffff;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.totalConstMem = 64 * 1024;
  p.major = kMajor;
  p.minor = kMinor;
  p.textureAlignment = 512;
  p.texturePitchAlignment = 32;
  p.multiProcessorCount = kMultiprocessors;
  p.canMapHostMemory = 1;
  p.surfaceAlignment = 512;
  p.concurrentKernels = 1;
  p.ECCEnabled = 1;
  p.pciBusID = kBusOfFirst + device.index;
  p.asyncEngineCount = 3;
  p.unifiedAddressing = 1;
  p.memoryBusWidth = kMemoryBusBits;
  p.l2CacheSize = kL2Bytes;
  p.maxThreadsPerMultiProcessor = kMaxThreadsPerMultiprocessor;
  p.streamPrioritiesSupported = 1;
  p.globalL1CacheSupported = p.localL1CacheSupported = 1;
  p.sharedMemPerMultiprocessor = kSharedBytesPerMultiprocessor;
  p.regsPerMultiprocessor = kRegistersPerMultiprocessor;
  p.managedMemory = 1;
  p.canUseHostPointerForRegisteredMem = 1;
  p.cooperativeLaunch = 1;
  p.sharedMemPerBlockOptin = kSharedBytesPerBlockOptIn;
  p.maxBlocksPerMultiProcessor = kMaxBlocksPerMultiprocessor;
  p.reservedSharedMemPerBlock = kReservedSharedBytesPerBlock;
  p.hostRegisterSupported = 1;
  p.memoryPoolsSupported = 1;
  p.unifiedFunctionPointers = 0;
  p.deviceNumaId = -1;
  p.hostNumaId = -1;
  return p;
}

/// Attributes that cudaDeviceProp does not hold, or holds under another name; everything else is 0 on this
/// device.
int attribute_of(const Device& device, cudaDeviceAttr attribute) {
  const cudaDeviceProp p = properties_of(device);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      return p.maxThreadsPerBlock;
    case cudaDevAttrMaxBlockDimX:
      return p.maxThreadsDim[0];
    case cudaDevAttrMaxBlockDimY:
      return p.maxThreadsDim[1];
    case cudaDevAttrMaxBlockDimZ:
      return p.maxThreadsDim[2];
    case cudaDevAttrMaxGridDimX:
      return p.maxGridSize[0];
    case cudaDevAttrMaxGridDimY:
      return p.maxGridSize[1];
    case cudaDevAttrMaxGridDimZ:
      return p.maxGridSize[2];
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return static_cast<int>(p.sharedMemPerBlock);
    case cudaDevAttrTotalConstantMemory:
      return static_cast<int>(p.totalConstMem);
    case cudaDevAttrWarpSize:
      return p.warpSize;
    case cudaDevAttrMaxPitch:
      return static_cast<int>(p.memPitch);
    case cudaDevAttrMaxRegistersPerBlock:
      return p.regsPerBlock;
    case cudaDevAttrClockRate:
      return kClockKilohertz;
    case cudaDevAttrTextureAlignment:
      return static_cast<int>(p.textureAlignment);
    case cudaDevAttrTexturePitchAlignment:
      return static_cast<int>(p.texturePitchAlignment);
    case cudaDevAttrSurfaceAlignment:
      return static_cast<int>(p.surfaceAlignment);
    case cudaDevAttrGpuOverlap:
      return 1;
    case cudaDevAttrMultiProcessorCount:
      return p.multiProcessorCount;
    case cudaDevAttrCanMapHostMemory:
      return p.canMapHostMemory;
    case cudaDevAttrConcurrentKernels:
      return p.concurrentKernels;
    case cudaDevAttrEccEnabled:
      return p.ECCEnabled;
    case cudaDevAttrPciBusId:
      return p.pciBusID;
    case cudaDevAttrPciDeviceId:
      return p.pciDeviceID;
    case cudaDevAttrPciDomainId:
      return p.pciDomainID;
    case cudaDevAttrMemoryClockRate:
      return kMemoryClockKilohertz;
    case cudaDevAttrGlobalMemoryBusWidth:
      return p.memoryBusWidth;
    case cudaDevAttrL2CacheSize:
      return p.l2CacheSize;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return p.maxThreadsPerMultiProcessor;
    case cudaDevAttrAsyncEngineCount:
      return p.asyncEngineCount;
    case cudaDevAttrUnifiedAddressing:
      return p.unifiedAddressing;
    case cudaDevAttrComputeCapabilityMajor:
      return p.major;
    case cudaDevAttrComputeCapabilityMinor:
      return p.minor;
    case cudaDevAttrStreamPrioritiesSupported:
      return p.streamPrioritiesSupported;
    case cudaDevAttrGlobalL1CacheSupported:
      return p.globalL1CacheSupported;
    case cudaDevAttrLocalL1CacheSupported:
      return p.localL1CacheSupported;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return static_cast<int>(p.sharedMemPerMultiprocessor);
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return p.regsPerMultiprocessor;
    case cudaDevAttrManagedMemory:
      return p.managedMemory;
    case cudaDevAttrSingleToDoublePrecisionPerfRatio:
      return 2;
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
      return p.canUseHostPointerForRegisteredMem;
    case cudaDevAttrCooperativeLaunch:
      return p.cooperativeLaunch;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return static_cast<int>(p.sharedMemPerBlockOptin);
    case cudaDevAttrHostRegisterSupported:
      return p.hostRegisterSupported;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return p.maxBlocksPerMultiProcessor;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return static_cast<int>(p.reservedSharedMemPerBlock);
    case cudaDevAttrMemoryPoolsSupported:
      return p.memoryPoolsSupported;
    case cudaDevAttrNumaId:
      return p.deviceNumaId;
    case cudaDevAttrHostNumaId:
      return p.hostNumaId;
    default:
      return 0;
  }
}

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* prop, int device) {
  return entry([&] {
    enter_process();
    require(prop != nullptr);
    *prop = properties_of(device_at(device));
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attr, int device) {
  return entry([&] {
    enter_process();
    require(value != nullptr && attr > 0 && attr < cudaDevAttrMax);
    *value = attribute_of(device_at(device), attr);
  });
}

cudaError_t cudaChooseDevice(int* device, const cudaDeviceProp* prop) {
  return entry([&] {
    enter_process();
    require(device != nullptr && prop != nullptr);
    *device = 0;  // all are alike
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* pciBusId, int len, int device) {
  return entry([&] {
    enter_process();
    require(pciBusId != nullptr && len >= 13);
    std::snprintf(pciBusId, static_cast<std::size_t>(len), "0000:%02X:00.0",
                  kBusOfFirst + device_at(device).index);
  });
}

cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* pciBusId) {
  return entry([&] {
    enter_process();
    require(device != nullptr && pciBusId != nullptr);
    unsigned domain = 0, bus = 0, slot = 0, function = 0;
    if (std::sscanf(pciBusId, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
      domain = 0;
      require(std::sscanf(pciBusId, "%x:%x.%x", &bus, &slot, &function) >= 2);
    }
    require(domain == 0 && slot == 0 && function == 0);
    *device = device_at(static_cast<int>(bus) - kBusOfFirst).index;
  });
}

cudaError_t cudaDriverGetVersion(int* driverVersion) {
  return entry([&] {
    require(driverVersion != nullptr);
    *driverVersion = kRuntimeVersion;
  });
}

cudaError_t cudaRuntimeGetVersion(int* runtimeVersion) {
  return entry([&] {
    require(runtimeVersion != nullptr);
    *runtimeVersion = kRuntimeVersion;
  });
}

}  // extern "C"
