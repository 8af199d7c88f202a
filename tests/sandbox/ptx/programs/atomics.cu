// Atomic operations of every type from many blocks, and blocks that talk to each other.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cuda/atomic>

struct Totals {
  int sum, minimum, maximum, exchanged;
  unsigned all, any, parity, wrapped_up, wrapped_down, minimum_unsigned, maximum_unsigned;
  float float_sum;
  double double_sum;
  unsigned long long long_sum, long_maximum;
  long long long_minimum;
  unsigned long long long_any;
  unsigned swaps;
};

extern "C" __global__ void all_kinds(Totals* totals, const int* values) {
  const int value = values[blockIdx.x * blockDim.x + threadIdx.x];
  atomicAdd(&totals->sum, value);
  atomicMin(&totals->minimum, value);
  atomicMax(&totals->maximum, value);
  atomicExch(&totals->exchanged, value);
  atomicAnd(&totals->all, static_cast<unsigned>(value) | 0xff000000u);
  atomicOr(&totals->any, static_cast<unsigned>(value));
  atomicXor(&totals->parity, static_cast<unsigned>(value));
  atomicInc(&totals->wrapped_up, 6u);
  atomicDec(&totals->wrapped_down, 9u);
  atomicMin(&totals->minimum_unsigned, static_cast<unsigned>(value));
  atomicMax(&totals->maximum_unsigned, static_cast<unsigned>(value));
  atomicAdd(&totals->float_sum, static_cast<float>(value & 1023));
  atomicAdd(&totals->double_sum, static_cast<double>(value));
  atomicAdd(&totals->long_sum, static_cast<unsigned long long>(value & 0x7fffffff) << 20);
  atomicMax(&totals->long_maximum, static_cast<unsigned long long>(value & 0x7fffffff) << 20);
  atomicMin(&totals->long_minimum, static_cast<long long>(value) << 20);
  atomicOr(&totals->long_any, 1ull << (value & 63));
  unsigned seen = totals->swaps, assumed;
  do {
    assumed = seen;
    seen = atomicCAS(&totals->swaps, assumed, assumed + 3);
  } while (seen != assumed);
}

/// Every thread takes a ticket: each number is handed out once.
extern "C" __global__ void take_tickets(unsigned* next, unsigned* taken) {
  const unsigned ticket = atomicAdd(next, 1u);
  atomicAdd(taken + ticket, 1u);
}

/// 16-bit atomics, packed and alone.
extern "C" __global__ void half_sums(__half2* halves, __nv_bfloat162* brains, __half* alone,
                                     unsigned short* swaps) {
  atomicAdd(halves, __half2(1.0f, 2.0f));
  atomicAdd(brains, __nv_bfloat162(1.0f, 0.5f));
  atomicAdd(alone, __half(0.25f));
  unsigned short seen = *swaps, assumed;
  do {
    assumed = seen;
    seen = atomicCAS(swaps, assumed, static_cast<unsigned short>(assumed + 1));
  } while (seen != assumed);
}

extern "C" __global__ void shared_histogram(const unsigned char* values, unsigned* bins, int count) {
  __shared__ unsigned local[256];
  local[threadIdx.x] = 0;
  __syncthreads();
  for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x)
    atomicAdd(local + values[at], 1u);
  __syncthreads();
  atomicAdd(bins + threadIdx.x, local[threadIdx.x]);
}

/// The last block to arrive adds the others' sums: needs fences and atomics in order.
extern "C" __global__ void last_block_sums(const int* values, int* partial, unsigned* arrived, int* total,
                                           int count) {
  __shared__ int sums[128];
  __shared__ bool last;
  int sum = 0;
  for (int at = blockIdx.x * blockDim.x + threadIdx.x; at < count; at += gridDim.x * blockDim.x)
    sum += values[at];
  sums[threadIdx.x] = sum;
  __syncthreads();
  for (int width = 64; width > 0; width /= 2) {
    if (threadIdx.x < width) sums[threadIdx.x] += sums[threadIdx.x + width];
    __syncthreads();
  }
  if (threadIdx.x == 0) {
    partial[blockIdx.x] = sums[0];
    __threadfence();
    last = atomicAdd(arrived, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    int all = 0;
    for (unsigned block = 0; block < gridDim.x; ++block) all += static_cast<volatile int*>(partial)[block];
    *total = all;
  }
}

/// Blocks pass a token around: each waits for its turn by reading a volatile word.
extern "C" __global__ void pass_token(volatile unsigned* turn, unsigned* order) {
  if (threadIdx.x != 0) return;
  while (*turn != blockIdx.x) {
  }
  order[*turn] = blockIdx.x + 1;
  __threadfence();
  *turn = blockIdx.x + 1;
}

/// The same with acquire and release, against the order of block numbers.
extern "C" __global__ void pass_token_back(unsigned* turn, unsigned* payload, unsigned* seen) {
  cuda::atomic_ref<unsigned, cuda::thread_scope_device> flag(*turn);
  const unsigned mine = gridDim.x - 1 - blockIdx.x;
  if (threadIdx.x == 0) {
    while (flag.load(cuda::memory_order_acquire) != mine) {
    }
    seen[mine] = *payload;
    *payload = mine * 10 + 7;
    flag.store(mine + 1, cuda::memory_order_release);
  }
}

/// A barrier over the whole grid, crossed several times.
extern "C" __global__ void grid_barrier(unsigned* arrived, unsigned* cells, int rounds, unsigned* wrong) {
  for (int round = 0; round < rounds; ++round) {
    if (threadIdx.x == 0) cells[blockIdx.x] = round + 1;
    __syncthreads();
    if (threadIdx.x == 0) {
      __threadfence();
      atomicAdd(arrived, 1u);
      while (atomicAdd(arrived, 0u) < gridDim.x * (2 * round + 1)) __nanosleep(100);
    }
    __syncthreads();
    if (static_cast<volatile unsigned*>(cells)[(blockIdx.x + 1) % gridDim.x] != round + 1)
      atomicAdd(wrong, 1u);
    __syncthreads();
    if (threadIdx.x == 0) {
      atomicAdd(arrived, 1u);
      while (atomicAdd(arrived, 0u) < gridDim.x * (2 * round + 2)) {
      }
    }
    __syncthreads();
  }
}

/// A spin lock taken by every lane of a warp: each lane must make progress on its own.
extern "C" __global__ void lane_locks(int* lock, int* guarded) {
  bool done = false;
  while (!done) {
    if (atomicCAS(lock, 0, 1) == 0) {
      *static_cast<volatile int*>(guarded) = *static_cast<volatile int*>(guarded) + 1;
      __threadfence();
      atomicExch(lock, 0);
      done = true;
    }
  }
}

/// The naive form, which hangs before Volta: the winner's code follows the loop.
extern "C" __global__ void lane_locks_after_loop(int* lock, int* guarded) {
  while (atomicCAS(lock, 0, 1) != 0) {
  }
  *static_cast<volatile int*>(guarded) = *static_cast<volatile int*>(guarded) + 1;
  __threadfence();
  atomicExch(lock, 0);
}
