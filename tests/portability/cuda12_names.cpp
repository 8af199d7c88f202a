// What the runtime of CUDA 12 calls by another name than that of CUDA 13, which the emulated cluster stands
// in for.
#include <cuda_runtime_api.h>

#include <cstddef>

// With the parameters that CUDA 12 gave it: no data of edges.
extern "C" __attribute__((visibility("default"))) cudaError_t cudaStreamGetCaptureInfo_v2(
    cudaStream_t stream, cudaStreamCaptureStatus* status, unsigned long long* id, cudaGraph_t* graph,
    const cudaGraphNode_t** dependencies, std::size_t* count) {
  return cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, nullptr, count);
}
