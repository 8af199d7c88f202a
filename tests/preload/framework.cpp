// Stands for a framework: linked to NCCL, loaded by a program that is not.
#include <cuda_runtime_api.h>
#include <nccl.h>

/// Gathers one number over one rank. Returns 0 if all went well.
extern "C" __attribute__((visibility("default"))) int framework_gather() {
  ncclComm_t comm = nullptr;
  float* memory = nullptr;
  const float one = 1.0f;
  float got = 0.0f;
  if (ncclCommInitAll(&comm, 1, nullptr) != ncclSuccess) return 1;
  if (cudaMalloc(reinterpret_cast<void**>(&memory), 2 * sizeof(float)) != cudaSuccess) return 2;
  if (cudaMemcpy(memory, &one, sizeof one, cudaMemcpyHostToDevice) != cudaSuccess) return 3;
  if (ncclAllGather(memory, memory + 1, 1, ncclFloat32, comm, nullptr) != ncclSuccess) return 4;
  if (cudaMemcpy(&got, memory + 1, sizeof got, cudaMemcpyDeviceToHost) != cudaSuccess) return 5;
  if (ncclCommDestroy(comm) != ncclSuccess || cudaFree(memory) != cudaSuccess) return 6;
  return got == one ? 0 : 7;
}
