// Every way a program reaches memory: spaces, widths, cache hints, initialized variables, pointers into each
// space.
#include <cstdint>

struct Table {
  int values[24];
  float scale;
  short tail[3];
};

struct Node {
  const char* name;
  int weight;
  const Node* next;
};

__constant__ int constant_squares[8] = {0, 1, 4, 9, 16, 25, 36, 49};
__constant__ double constant_pi = 3.14159265358979312;
__constant__ float constant_unset[4];
__device__ int device_counter = 41;
__device__ unsigned char device_bytes[5] = {1, 2, 3, 4, 255};
__device__ int device_target[4] = {10, 20, 30, 40};
__device__ int* device_pointer = device_target + 2;
__device__ const Node device_last = {"last", 7, nullptr};
__device__ const Node device_first = {"first", 5, &device_last};
__device__ unsigned long long device_zeroed[16];

extern "C" __global__ void copy_words(const float* from, float* to, int count) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) to[index] = from[index];
}

extern "C" __global__ void copy_quads(const uint4* from, uint4* to, int count) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) to[index] = from[index];
}

extern "C" __global__ void copy_pairs_of_doubles(const double2* from, double2* to, int count) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) to[index] = make_double2(from[index].y, from[index].x);
}

extern "C" __global__ void copy_bytes(const uchar4* from, uchar4* to, int count) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) {
    const uchar4 value = from[index];
    to[index] = make_uchar4(value.w, value.z, value.y, value.x);
  }
}

extern "C" __global__ void copy_hinted(const uint4* from, uint4* to, int count) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= count) return;
  uint4 value = __ldg(from + index);
  value.x += __ldcs(from + index).x + __ldcg(from + index).x + __ldca(from + index).x +
             __ldlu(from + index).x + __ldcv(from + index).x;
  uint4 more;
  asm volatile("ld.global.nc.L1::no_allocate.L2::128B.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(more.x), "=r"(more.y), "=r"(more.z), "=r"(more.w)
               : "l"(from + index));
  asm volatile("ld.relaxed.gpu.global.L1::no_allocate.v2.u32 {%0, %1}, [%2];"
               : "=r"(more.z), "=r"(more.w)
               : "l"(from + index));
  value.y += more.y;
  value.z += more.z;
  __stcs(to + index, value);
  __stwt(&to[index].w, value.w + 1);
  __stcg(&to[index].w, to[index].w + 1);
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from + index));
  asm volatile("st.global.L1::no_allocate.u32 [%0], %1;" ::"l"(&to[index].z), "r"(value.z + 5));
}

/// Bytes and halfwords, signed and not, at odd places.
extern "C" __global__ void narrow_accesses(const unsigned char* from, long long* to) {
  const int index = threadIdx.x;
  to[index * 4] = static_cast<const signed char*>(static_cast<const void*>(from))[index];
  to[index * 4 + 1] = from[index];
  to[index * 4 + 2] = static_cast<const short*>(static_cast<const void*>(from))[index];
  to[index * 4 + 3] = static_cast<const unsigned short*>(static_cast<const void*>(from))[index];
}

extern "C" __global__ void reverse_in_shared(const int* from, int* to) {
  __shared__ int tile[256];
  const int base = blockIdx.x * 256;
  tile[threadIdx.x] = from[base + threadIdx.x];
  __syncthreads();
  to[base + threadIdx.x] = tile[255 - threadIdx.x];
}

extern "C" __global__ void transpose_in_dynamic_shared(const float* from, float* to, int width) {
  extern __shared__ float tile[];
  tile[threadIdx.y * (width + 1) + threadIdx.x] = from[threadIdx.y * width + threadIdx.x];
  __syncthreads();
  to[threadIdx.y * width + threadIdx.x] = tile[threadIdx.x * (width + 1) + threadIdx.y];
}

/// A local array indexed by data: an insertion sort per thread.
extern "C" __global__ void sort_in_local(const int* from, int* to) {
  int values[16];
  const int base = (blockIdx.x * blockDim.x + threadIdx.x) * 16;
  for (int at = 0; at < 16; ++at) values[at] = from[base + at];
  for (int at = 1; at < 16; ++at) {
    const int value = values[at];
    int place = at;
    while (place > 0 && values[place - 1] > value) {
      values[place] = values[place - 1];
      --place;
    }
    values[place] = value;
  }
  for (int at = 0; at < 16; ++at) to[base + at] = values[at];
}

extern "C" __global__ void read_variables(double* to, const int* where) {
  const int index = where[threadIdx.x];
  double value = constant_squares[index] + constant_unset[index & 3];
  value += device_counter + device_bytes[index % 5] + *device_pointer + device_zeroed[index];
  if (index == 0) value += constant_pi;
  to[threadIdx.x] = value;
}

extern "C" __global__ void follow_list(int* to) {
  int at = 0;
  for (const Node* node = &device_first; node != nullptr; node = node->next) {
    for (const char* letter = node->name; *letter != 0; ++letter) to[at++] = *letter;
    to[at++] = node->weight;
  }
  to[at] = -1;
}

extern "C" __global__ void count_up() {
  atomicAdd(&device_counter, 1);
}

extern "C" __global__ void index_parameter(const Table table, int* to, float* scaled) {
  const int index = threadIdx.x;
  to[index] = table.values[index % 24] + table.tail[index % 3];
  scaled[index] = static_cast<float>(index) * table.scale;
}

/// The parameter by its generic address, as where it is passed on by reference and nothing is inlined.
extern "C" __global__ void generic_parameter(const __grid_constant__ Table table, int* to) {
  const volatile int* values = table.values;
  to[threadIdx.x] = values[(threadIdx.x * 5) % 24];
}

/// The pointer's space depends on the thread.
extern "C" __global__ void generic_pointers(const int* global, int* to) {
  __shared__ int shared[32];
  int local[4];
  shared[threadIdx.x] = 1000 + threadIdx.x;
  for (int at = 0; at < 4; ++at) local[at] = 2000 + at + static_cast<int>(threadIdx.x);
  __syncthreads();
  const int* source = threadIdx.x % 4 == 0   ? global + threadIdx.x
                      : threadIdx.x % 4 == 1 ? shared + (threadIdx.x ^ 1)
                      : threadIdx.x % 4 == 2 ? local + (global[threadIdx.x] & 3)
                                             : constant_squares + threadIdx.x % 8;
  int kinds = (__isGlobal(source) ? 1 : 0) | (__isShared(source) ? 2 : 0) | (__isLocal(source) ? 4 : 0);
  to[threadIdx.x] = *source * 8 + kinds;
}

extern "C" __global__ void shared_addresses(unsigned* to) {
  __shared__ alignas(16) unsigned tile[64];
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(tile + threadIdx.x));
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(threadIdx.x * 3) : "memory");
  __syncthreads();
  unsigned value, next;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];"
               : "=r"(value), "=r"(next)
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(tile + (threadIdx.x & ~1u)))));
  to[threadIdx.x] = value * 1000 + next;
}

/// Asynchronous copies into shared memory, as cooperative groups and pipelines emit them.
extern "C" __global__ void copy_asynchronously(const uint4* from, uint4* to) {
  __shared__ uint4 tile[64];
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(tile + threadIdx.x))),
               "l"(from + threadIdx.x));
  asm volatile("cp.async.commit_group;");
  asm volatile("cp.async.wait_group 0;");
  __syncthreads();
  to[threadIdx.x] = tile[63 - threadIdx.x];
}

/// The barrier of a block learns that copies have ended: by an arrival for each thread's copies, which the
/// barrier expects beside each thread's own, or by one that leaves the count of missing arrivals as it was.
extern "C" __global__ void copy_behind_barrier(const uint4* from, uint4* to, bool counted) {
  __shared__ uint4 tile[64];
  __shared__ unsigned long long barrier;
  const auto address = static_cast<unsigned>(__cvta_generic_to_shared(&barrier));
  const unsigned arrivals = counted ? 2 * blockDim.x : blockDim.x;
  if (threadIdx.x == 0)
    asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(address), "r"(arrivals) : "memory");
  __syncthreads();
  asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<unsigned>(__cvta_generic_to_shared(tile + threadIdx.x))),
               "l"(from + threadIdx.x)
               : "memory");
  if (counted)
    asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(address) : "memory");
  else
    asm volatile("cp.async.mbarrier.arrive.shared.b64 [%0];" ::"r"(address) : "memory");
  unsigned long long state;
  asm volatile("mbarrier.arrive.shared.b64 %0, [%1];" : "=l"(state) : "r"(address) : "memory");
  unsigned done = 0;
  while (!done)
    asm volatile("{ .reg .pred p; mbarrier.test_wait.shared.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
                 : "=r"(done)
                 : "r"(address), "l"(state)
                 : "memory");
  to[threadIdx.x] = tile[63 - threadIdx.x];
}

/// 16-byte volatile accesses are indivisible: a reader never sees half of a write.
extern "C" __global__ void write_or_check_quads(uint4* cells, unsigned* torn, int rounds) {
  const int lane = threadIdx.x;
  for (int round = 0; round < rounds; ++round) {
    if (blockIdx.x % 2 == 0) {
      const unsigned value = round * 2 + blockIdx.x;
      asm volatile("st.volatile.global.v4.u32 [%0], {%1, %1, %1, %1};" ::"l"(cells + lane), "r"(value)
                   : "memory");
    } else {
      uint4 value;
      asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                   : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
                   : "l"(cells + lane)
                   : "memory");
      if (value.x != value.y || value.x != value.z || value.x != value.w) atomicAdd(torn, 1u);
    }
  }
}

extern "C" __global__ void large_grid(unsigned* to, unsigned width) {
  const unsigned block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x;
  const unsigned thread = (threadIdx.z * blockDim.y + threadIdx.y) * blockDim.x + threadIdx.x;
  unsigned lane, warp, warps;
  asm("mov.u32 %0, %%laneid;" : "=r"(lane));
  asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
  if (warp > 1000) return;
  asm volatile("mov.u32 %0, %%nwarpid;" : "=r"(warps));
  to[block * width + thread] =
      block * 100000 + thread * 100 + (lane == thread % 32 ? 1 : 0) + (warps >= 1 ? 2 : 0);
}
