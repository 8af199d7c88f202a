// A program of one rank: one AllGather.
#include <cuda_runtime_api.h>
#include <nccl.h>

int main() {
  ncclComm_t comm = nullptr;
  float* memory = nullptr;
  if (ncclCommInitAll(&comm, 1, nullptr) != ncclSuccess) return 1;
  if (cudaMalloc(reinterpret_cast<void**>(&memory), 2 * sizeof(float)) != cudaSuccess) return 2;
  if (ncclAllGather(memory, memory + 1, 1, ncclFloat32, comm, nullptr) != ncclSuccess) return 3;
  if (cudaDeviceSynchronize() != cudaSuccess || ncclCommDestroy(comm) != ncclSuccess) return 4;
  return 0;
}
