// Control flow: divergence, loops, calls, recursion, tables, early exits, barriers of every kind.
#include <cstdint>

extern "C" __global__ void diverge(const int* from, int* to, int count) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= count) return;
  int value = from[index], steps = 0;
  // Collatz: trip counts differ in every lane, with branches inside and a break.
  while (value != 1) {
    if (value % 2 == 0) {
      value /= 2;
    } else {
      if (value > 100000) break;
      value = 3 * value + 1;
    }
    ++steps;
    if (steps % 7 == 3) continue;
    if (steps > 500) return;
  }
  to[index] = steps;
}

/// After divergence the lanes of a warp come together again: a full ballot must succeed.
extern "C" __global__ void reconverge(unsigned* to) {
  unsigned sum = 0;
  for (unsigned at = 0; at <= threadIdx.x % 5; ++at) {
    if ((threadIdx.x + at) % 3 == 0)
      sum += at * 2;
    else
      sum += 1;
  }
  __syncwarp();
  const unsigned votes = __ballot_sync(0xffffffffu, sum % 2 == 0);
  to[threadIdx.x] = votes;
}

__noinline__ __device__ int ackermann(int m, int n) {
  if (m == 0) return n + 1;
  if (n == 0) return ackermann(m - 1, 1);
  return ackermann(m - 1, ackermann(m, n - 1));
}
__noinline__ __device__ int fibonacci(int n) {
  return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
}

extern "C" __global__ void recurse(int* to) {
  to[threadIdx.x * 2] = fibonacci(threadIdx.x % 12);
  to[threadIdx.x * 2 + 1] = ackermann(threadIdx.x % 3, threadIdx.x % 4);
}

struct Point {
  float x, y;
  int label[3];
};

__noinline__ __device__ Point shifted(Point point, float by, int index) {
  point.x += by;
  point.y -= by;
  point.label[index % 3] += 100;
  return point;
}
__noinline__ __device__ void swap_values(int* a, int* b) {
  const int value = *a;
  *a = *b;
  *b = value;
}

extern "C" __global__ void call_with_structures(Point* points, int* pairs) {
  points[threadIdx.x] = shifted(shifted(points[threadIdx.x], 0.5f, threadIdx.x), 2.0f, threadIdx.x + 1);
  int left = threadIdx.x, right = 1000 + threadIdx.x;
  if (threadIdx.x % 2 == 0) swap_values(&left, &right);
  pairs[threadIdx.x * 2] = left;
  pairs[threadIdx.x * 2 + 1] = right;
}

__noinline__ __device__ int add_one(int a) {
  return a + 1;
}
__noinline__ __device__ int times_two(int a) {
  return a * 2;
}
__noinline__ __device__ int negate(int a) {
  return -a;
}
using Operation = int (*)(int);
__device__ Operation operations[3] = {add_one, times_two, negate};

extern "C" __global__ void call_by_pointer(const int* which, int* to) {
  int value = threadIdx.x;
  for (int at = 0; at < 4; ++at) value = operations[(which[threadIdx.x] + at) % 3](value);
  to[threadIdx.x] = value;
}

struct Shape {
  __device__ virtual ~Shape() {}
  __device__ virtual float area() const = 0;
  __device__ virtual int sides() const { return 0; }
};
struct Circle : Shape {
  float radius;
  __device__ explicit Circle(float r) : radius(r) {}
  __device__ float area() const override { return 3.0f * radius * radius; }
};
struct Box : Shape {
  float width, height;
  __device__ Box(float w, float h) : width(w), height(h) {}
  __device__ float area() const override { return width * height; }
  __device__ int sides() const override { return 4; }
};

extern "C" __global__ void call_virtual(const int* which, float* areas, int* sides) {
  Circle circle(static_cast<float>(threadIdx.x));
  Box box(2.0f, static_cast<float>(threadIdx.x));
  const Shape* shape = which[threadIdx.x] != 0 ? static_cast<const Shape*>(&circle) : &box;
  areas[threadIdx.x] = shape->area();
  sides[threadIdx.x] = shape->sides();
}

extern "C" __global__ void switch_table(const int* from, int* to) {
  int value;
  switch (from[threadIdx.x]) {
    case 0:
      value = 5;
      break;
    case 1:
      value = threadIdx.x;
      break;
    case 2:
      value = 17;
      to[threadIdx.x + 64] = 1;
      break;
    case 3:
      value = -3;
      break;
    case 4:
      value = threadIdx.x * 3;  // falls through
    case 5:
      value = 99;
      break;
    case 6:
      value = 6;
      break;
    case 7:
      value = from[0];
      break;
    case 8:
      value = 88;
      break;
    default:
      value = -1;
  }
  to[threadIdx.x] = value;
}

/// The two halves of a warp take different paths and synchronize only among themselves.
extern "C" __global__ void half_warps(int* to) {
  __shared__ int cells[32];
  const unsigned lane = threadIdx.x;
  if (lane < 16) {
    for (int round = 0; round < 5; ++round) {
      cells[lane] = round + lane;
      __syncwarp(0x0000ffffu);
      const int next = cells[(lane + 1) % 16];
      __syncwarp(0x0000ffffu);
      to[lane] = next;
    }
  } else {
    for (int round = 0; round < 9; ++round) {
      const int sum = __shfl_down_sync(0xffff0000u, round + lane, 1);
      to[lane] = sum;
    }
  }
}

/// Warps of a block use different named barriers; producers arrive, consumers wait.
extern "C" __global__ void named_barriers(int* to) {
  __shared__ int cells[64];
  if (threadIdx.x < 64) {
    cells[threadIdx.x] = threadIdx.x * 5;
    __threadfence_block();
    asm volatile("bar.arrive 3, 128;" ::: "memory");
    asm volatile("bar.sync 4, 64;" ::: "memory");
    to[threadIdx.x] = cells[63 - threadIdx.x];
  } else {
    asm volatile("bar.sync 3, 128;" ::: "memory");
    to[threadIdx.x] = cells[threadIdx.x - 64] + 1;
    asm volatile("barrier.sync.aligned 5, 64;" ::: "memory");
  }
}

extern "C" __global__ void reducing_barriers(int* to) {
  const int odd = threadIdx.x % 2;
  to[threadIdx.x * 3] = __syncthreads_count(odd);
  to[threadIdx.x * 3 + 1] = __syncthreads_and(threadIdx.x < 80);
  to[threadIdx.x * 3 + 2] = __syncthreads_or(threadIdx.x == 77);
}

/// Some threads leave before the barrier: the others must not wait for them.
extern "C" __global__ void early_exit_before_barrier(int* to) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (threadIdx.x >= 40 && threadIdx.x < 64) return;
  atomicAdd(&count, 1);
  __syncthreads();
  to[threadIdx.x] = count;
}

/// A barrier inside a loop whose trip count is equal for all threads but computed per thread.
extern "C" __global__ void barrier_in_loop(int* to, int rounds) {
  __shared__ int cells[96];
  cells[threadIdx.x] = threadIdx.x;
  __syncthreads();
  for (int round = 0; round < rounds; ++round) {
    const int next = cells[(threadIdx.x + 1) % 96];
    __syncthreads();
    cells[threadIdx.x] = next;
    __syncthreads();
  }
  to[threadIdx.x] = cells[threadIdx.x];
}

/// Lanes of one warp arrive at the barrier from two sides of a branch.
extern "C" __global__ void barrier_in_both_branches(int* to) {
  __shared__ int cells[64];
  if (threadIdx.x % 2 == 0) {
    cells[threadIdx.x] = 1;
    asm volatile("barrier.sync 0;" ::: "memory");
  } else {
    cells[threadIdx.x] = 2;
    asm volatile("barrier.sync 0;" ::: "memory");
  }
  to[threadIdx.x] = cells[threadIdx.x ^ 1];
}

extern "C" __global__ void missing_lane() {
  // Lane 5 waits for the whole warp at a shuffle; the others wait at the barrier of the block.
  if (threadIdx.x == 5) {
    __shfl_sync(0xffffffffu, 1, 0);
  } else {
    asm volatile("barrier.sync 1, 64;" ::: "memory");
  }
}

extern "C" __global__ void missing_warp() {
  if (threadIdx.x < 32) asm volatile("bar.sync 2, 64;" ::: "memory");
}

extern "C" __global__ void endless() {
  __shared__ volatile int flag;
  flag = 1;
  while (flag != 0) {
  }
}

extern "C" __global__ void exit_in_callee(int* to) {
  to[threadIdx.x] = 1;
  if (threadIdx.x % 3 == 0) asm volatile("exit;");
  to[threadIdx.x] = 2;
}

extern "C" __global__ void __launch_bounds__(64) bounded(int* to) {
  to[threadIdx.x] = static_cast<int>(threadIdx.x);
}
