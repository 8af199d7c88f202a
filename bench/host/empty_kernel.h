// A launch of a kernel that does nothing.
#pragma once

#include <cuda_runtime_api.h>

struct EmptyArguments {
  unsigned char bytes[200];
};
cudaError_t launch_empty(cudaStream_t stream);
