// A program of one rank: one ReduceScatter.
#include <cuda_runtime_api.h>
#include <nccl.h>

int main() {
  ncclComm_t comm = nullptr;
  float* memory = nullptr;
  if (ncclCommInitAll(&comm, 1, nullptr) != ncclSuccess) return 1;
  if (cudaMalloc(reinterpret_cast<void**>(&memory), sizeof(float)) != cudaSuccess) return 2;
  if (cudaMemset(memory, 0, sizeof(float)) != cudaSuccess) return 3;
  if (ncclReduceScatter(memory, memory, 1, ncclFloat32, ncclSum, comm, nullptr) != ncclSuccess) return 4;
  if (cudaDeviceSynchronize() != cudaSuccess || ncclCommDestroy(comm) != ncclSuccess) return 5;
  return 0;
}
