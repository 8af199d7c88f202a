// Launching a kernel, with the error of this launch and no other.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <type_traits>

namespace sdp4bit {

/// What a launch between <<< >>> leaves in cudaGetLastError() is not told from what was there before: after a
/// program's cudaStreamQuery() that is often cudaErrorNotReady, and asking takes it from the program.
/// Arguments are not copied on their way: batches are large.
template <typename... Parameters>
cudaError_t launch_kernel(void (*kernel)(Parameters...), dim3 grid, unsigned threads,
                          std::size_t shared_bytes, cudaStream_t stream,
                          const std::type_identity_t<Parameters>&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  void* pointers[] = {const_cast<void*>(static_cast<const void*>(&arguments))...};
  return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(kernel), pointers);
}

}  // namespace sdp4bit
