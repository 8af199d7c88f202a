// Launching a kernel, with the error of this launch and no other.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>

namespace sdp4bit {

/// What a launch between <<< >>> leaves in cudaGetLastError() is not told from what was there before: after a
/// program's cudaStreamQuery() that is often cudaErrorNotReady, and asking takes it from the program.
template <typename... Parameters, typename... Arguments>
cudaError_t launch_kernel(void (*kernel)(Parameters...), dim3 grid, unsigned threads,
                          std::size_t shared_bytes, cudaStream_t stream, const Arguments&... arguments) {
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

}  // namespace sdp4bit
