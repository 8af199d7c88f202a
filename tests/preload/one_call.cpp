// One ReduceScatter of one element, by as many ranks in this process as the first argument says: one, if
// there is none.
#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdlib>
#include <vector>

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 1;
  std::vector<ncclComm_t> comms(static_cast<std::size_t>(ranks));
  if (ncclCommInitAll(comms.data(), ranks, nullptr) != ncclSuccess) return 1;
  std::vector<float*> memory;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::size_t bytes = static_cast<std::size_t>(ranks) * sizeof(float);
    memory.push_back(nullptr);
    if (cudaSetDevice(rank) != cudaSuccess) return 2;
    if (cudaMalloc(reinterpret_cast<void**>(&memory.back()), bytes) != cudaSuccess) return 2;
    if (cudaMemset(memory.back(), 0, bytes) != cudaSuccess) return 3;
  }
  if (ncclGroupStart() != ncclSuccess) return 4;
  for (std::size_t rank = 0; rank < comms.size(); ++rank) {
    if (ncclReduceScatter(memory[rank], memory[rank] + rank, 1, ncclFloat32, ncclSum, comms[rank], nullptr) !=
        ncclSuccess)
      return 4;
  }
  if (ncclGroupEnd() != ncclSuccess) return 4;
  for (int rank = 0; rank < ranks; ++rank) {
    if (cudaSetDevice(rank) != cudaSuccess || cudaDeviceSynchronize() != cudaSuccess) return 5;
  }
  for (ncclComm_t comm : comms) {
    if (ncclCommDestroy(comm) != ncclSuccess) return 5;
  }
  return 0;
}
