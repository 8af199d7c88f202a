// The functions of CUDA about the current device, its state, its limits and its peers.
#include <algorithm>

#include "capture.h"
#include "device.h"
#include "stream.h"

using namespace sandbox::cudart;

namespace {

constexpr unsigned kDeviceFlags = cudaDeviceMask;

}  // namespace

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return entry([&] {
    enter_process();
    require(count != nullptr);
    *count = device_count();
    if (*count == 0) fail(cudaErrorNoDevice);
  });
}

cudaError_t cudaSetDevice(int device) {
  return entry([&] {
    enter_process();
    set_current_device(device);
  });
}

cudaError_t cudaInitDevice(int device, unsigned int deviceFlags, unsigned int flags) {
  return entry([&] {
    enter_process();
    require((deviceFlags & ~kDeviceFlags) == 0 &&
            (flags & ~static_cast<unsigned>(cudaInitDeviceFlagsAreValid)) == 0);
    if (flags != 0) device_at(device).flags.store(deviceFlags);
    device_at(device).check();
  });
}

cudaError_t cudaGetDevice(int* device) {
  return entry([&] {
    enter_process();
    require(device != nullptr);
    *device = current_device().index;
  });
}

cudaError_t cudaSetDeviceFlags(unsigned int flags) {
  return entry([&] {
    enter_process();
    require((flags & ~kDeviceFlags) == 0);
    current_device().flags.store(flags);
  });
}

cudaError_t cudaGetDeviceFlags(unsigned int* flags) {
  return entry([&] {
    enter_process();
    require(flags != nullptr);
    *flags = current_device().flags.load();
  });
}

cudaError_t cudaSetValidDevices(int* device_arr, int len) {
  return entry([&] {
    enter_process();
    require(len == 0 || device_arr != nullptr);
    for (int i = 0; i < len; ++i) (void)device_at(device_arr[i]);
    if (len > 0) set_current_device(device_arr[0]);
  });
}

cudaError_t cudaDeviceSynchronize(void) {
  return entry([&] {
    Device& device = enter();
    refuse_capture_on(device);
    device.synchronize();
    device.check();
  });
}

/// Waits for the device. Memory, streams and events stay what they are, and so does a failure: a process that
/// has made a device fail has to be started anew, as with a real one.
cudaError_t cudaDeviceReset(void) {
  return entry([&] {
    Device& device = enter();
    refuse_capture_on(device);
    device.synchronize();
    device.check();
  });
}

cudaError_t cudaDeviceGetLimit(size_t* pValue, cudaLimit limit) {
  return entry([&] {
    Device& device = enter();
    require(pValue != nullptr);
    if (limit < 0 || limit >= static_cast<int>(device.limits.size())) fail(cudaErrorUnsupportedLimit);
    *pValue = device.limits[limit].load();
  });
}

cudaError_t cudaDeviceSetLimit(cudaLimit limit, size_t value) {
  return entry([&] {
    Device& device = enter();
    if (limit < 0 || limit >= static_cast<int>(device.limits.size())) fail(cudaErrorUnsupportedLimit);
    device.limits[limit].store(value);
  });
}

cudaError_t cudaDeviceGetCacheConfig(cudaFuncCache* pCacheConfig) {
  return entry([&] {
    enter();
    require(pCacheConfig != nullptr);
    *pCacheConfig = cudaFuncCachePreferNone;
  });
}

cudaError_t cudaDeviceSetCacheConfig(cudaFuncCache) {
  return entry([&] { enter(); });
}

cudaError_t cudaCtxResetPersistingL2Cache(void) {
  return entry([&] { enter(); });
}

cudaError_t cudaDeviceCanAccessPeer(int* canAccessPeer, int device, int peerDevice) {
  return entry([&] {
    enter_process();
    require(canAccessPeer != nullptr);
    *canAccessPeer = &device_at(device) != &device_at(peerDevice) ? 1 : 0;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peerDevice, unsigned int flags) {
  return entry([&] {
    Device& device = enter();
    require(flags == 0);
    if (&device_at(peerDevice) == &device) fail(cudaErrorInvalidDevice);
    if (device.peer_enabled[static_cast<std::size_t>(peerDevice)].exchange(true)) {
      fail(cudaErrorPeerAccessAlreadyEnabled);
    }
  });
}

cudaError_t cudaDeviceDisablePeerAccess(int peerDevice) {
  return entry([&] {
    Device& device = enter();
    (void)device_at(peerDevice);
    if (!device.peer_enabled[static_cast<std::size_t>(peerDevice)].exchange(false))
      fail(cudaErrorPeerAccessNotEnabled);
  });
}

cudaError_t cudaDeviceGetP2PAttribute(int* value, cudaDeviceP2PAttr attr, int srcDevice, int dstDevice) {
  return entry([&] {
    enter_process();
    require(value != nullptr);
    if (&device_at(srcDevice) == &device_at(dstDevice)) fail(cudaErrorInvalidDevice);
    switch (attr) {
      case cudaDevP2PAttrPerformanceRank:
        *value = 0;
        break;
      case cudaDevP2PAttrAccessSupported:
      case cudaDevP2PAttrNativeAtomicSupported:
        *value = 1;
        break;
      case cudaDevP2PAttrCudaArrayAccessSupported:
        *value = 0;
        break;
      default:
        fail(cudaErrorInvalidValue);
    }
  });
}

/// There is no driver below: whoever asks for one of its functions is told so.
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** funcPtr, unsigned int,
                                             unsigned long long,
                                             cudaDriverEntryPointQueryResult* driverStatus) {
  return entry([&] {
    require(symbol != nullptr && funcPtr != nullptr);
    *funcPtr = nullptr;
    if (driverStatus != nullptr) *driverStatus = cudaDriverEntryPointSymbolNotFound;
    fail(cudaErrorNotSupported, "there is no driver, so no driver function %s", symbol);
  });
}

cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** funcPtr, unsigned long long flags,
                                    cudaDriverEntryPointQueryResult* driverStatus) {
  return cudaGetDriverEntryPointByVersion(symbol, funcPtr, CUDART_VERSION, flags, driverStatus);
}

/// No profiler is ever attached.
cudaError_t cudaProfilerStart(void) {
  return entry([&] { enter(); });
}

cudaError_t cudaProfilerStop(void) {
  return entry([&] { enter(); });
}

cudaError_t cudaGetLastError(void) {
  const cudaError_t code = cudaPeekAtLastError();
  forget_last_error();
  return code;
}

/// A sticky error that has surfaced once is the last error of every later look.
cudaError_t cudaPeekAtLastError(void) {
  const cudaError_t last = last_error();
  if (last == cudaSuccess) return last;
  cudaError_t sticky = cudaSuccess;
  try {
    sticky = current_device().sticky();
  } catch (const Failure&) {
    return last;  // there is no device
  }
  return sticky != cudaSuccess ? sticky : last;
}

}  // extern "C"
