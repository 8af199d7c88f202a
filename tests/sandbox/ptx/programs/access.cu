// Accesses in every pattern, by index arrays; memory that changes under a running kernel; what a thread is
// told of itself.

#define COPIES(name, type)                                                                         \
  extern "C" __global__ void gather_##name(const type* from, type* to, const int* index) {         \
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;                                      \
    to[thread] = from[index[thread]];                                                              \
  }                                                                                                \
  extern "C" __global__ void scatter_##name(const type* from, type* to, const int* index) {        \
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;                                      \
    to[index[thread]] = from[thread];                                                              \
  }                                                                                                \
  extern "C" __global__ void through_shared_##name(const type* from, type* to, const int* index) { \
    __shared__ type tile[4096 / sizeof(type)];                                                     \
    const int thread = threadIdx.x;                                                                \
    tile[index[thread]] = from[thread];                                                            \
    __syncthreads();                                                                               \
    to[thread] = tile[index[thread]];                                                              \
  }                                                                                                \
  extern "C" __global__ void gather_odd_##name(const type* from, type* to, const int* index) {     \
    const int thread = blockIdx.x * blockDim.x + threadIdx.x;                                      \
    if (thread & 1) to[thread] = from[index[thread]];                                              \
  }
COPIES(b8, unsigned char)
COPIES(b16, unsigned short)
COPIES(b32, unsigned)
COPIES(b64, unsigned long long)
COPIES(b128, uint4)
COPIES(pairs, uint2)

extern "C" __global__ void gather_volatile(const unsigned* from, unsigned* to, const int* index) {
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  to[thread] = *static_cast<const volatile unsigned*>(from + index[thread]);
}

/// Reads the same word at the same place of the code twice; in between it tells the host and waits for it.
extern "C" __global__ void read_around_a_pause(const unsigned* from, unsigned* to, unsigned* told,
                                               const unsigned* go) {
  unsigned sum = 0;
  for (int round = 0; round < 2; ++round) {
    sum += from[threadIdx.x];
    if (round == 1) break;
    if (threadIdx.x == 0) atomicExch(told, 1u);
    while (*static_cast<const volatile unsigned*>(go) == 0) {
    }
  }
  to[threadIdx.x] = sum;
}

/// What each thread is told: 16 numbers.
extern "C" __global__ void describe_thread(unsigned* to) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  unsigned* mine = to + (block * blockDim.x * blockDim.y * blockDim.z + thread) * 16;
  mine[0] = threadIdx.x;
  mine[1] = threadIdx.y;
  mine[2] = threadIdx.z;
  mine[3] = blockDim.x;
  mine[4] = blockDim.y;
  mine[5] = blockDim.z;
  mine[6] = blockIdx.x;
  mine[7] = blockIdx.y;
  mine[8] = blockIdx.z;
  mine[9] = gridDim.x;
  mine[10] = gridDim.y;
  mine[11] = gridDim.z;
  asm("mov.u32 %0, %%dynamic_smem_size;" : "=r"(mine[12]));
  asm("mov.u32 %0, %%nwarpid;" : "=r"(mine[13]));
  asm("mov.u32 %0, %%laneid;" : "=r"(mine[14]));
  asm("mov.u32 %0, %%warpid;" : "=r"(mine[15]));
}
