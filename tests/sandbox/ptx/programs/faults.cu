// Wrong programs, one kernel for each kind of wrongness, and the ways a kernel speaks: printf, assert, trap.
#include <cassert>
#include <cstdio>

extern "C" __global__ void write_index(int* to, int index) {
  if (threadIdx.x == 3) to[index] = 1;  // the line of write_index
}
extern "C" __global__ void read_index(const int* from, int* to, int index) {
  if (threadIdx.x == 2) to[0] = from[index];
}
extern "C" __global__ void read_all(const int* from, int* to) {
  to[threadIdx.x] = from[threadIdx.x];
}
extern "C" __global__ void read_quads(const char* from, int4* to) {
  to[threadIdx.x] = *reinterpret_cast<const int4*>(from + 16 * threadIdx.x);
}
extern "C" __global__ void write_null(int* to) {
  *to = 1;
}
extern "C" __global__ void add_atomically(int* to, int index) {
  atomicAdd(to + index, 1);
}

extern "C" __global__ void write_shared(int index) {
  __shared__ int tile[32];
  tile[threadIdx.x] = 0;
  __syncthreads();
  volatile int* cells = tile;
  cells[index] = 1;
}
extern "C" __global__ void read_dynamic_shared(int index, int* to) {
  extern __shared__ int dynamic_tile[];
  dynamic_tile[threadIdx.x] = threadIdx.x;
  __syncthreads();
  to[0] = dynamic_tile[index];
}
extern "C" __global__ void misaligned_shared(int offset, int* to) {
  __shared__ char tile[128];
  tile[threadIdx.x] = 1;
  __syncthreads();
  to[0] = *reinterpret_cast<volatile int*>(tile + offset);
}
extern "C" __global__ void write_local(int index, int* to) {
  int cells[8];
  for (int at = 0; at < 8; ++at) cells[at] = at;
  cells[index] = 5;
  to[0] = cells[to[1] & 7];
}

extern "C" __global__ void must_be_positive(const int* values) {
  assert(values[threadIdx.x] > 0);
}
extern "C" __global__ void trap_if(int wanted) {
  if (threadIdx.x == wanted) __trap();
}
extern "C" __global__ void speak(int number, double real, const char* unused) {
  if (threadIdx.x == 0)
    printf("block %u says %d %5.2f %s %c %llx %%\n", blockIdx.x, number, real, "word", 'z',
           0x123456789abcull);
}
extern "C" __global__ void speak_in_parts() {
  printf("%d\n", static_cast<int>(threadIdx.x));
}
extern "C" __global__ void unknown_instruction(int* to) {
  int value = 1;
  asm volatile(
      "{ .reg .b32 a<4>; mov.b32 a0, 0; mov.b32 a1, 0; mov.b32 a2, 0; mov.b32 a3, 0;\n"
      "mma.sync.aligned.m8n8k32.row.col.satfinite.s32.s4.s4.s32 {a0, a1}, {a2}, {a3}, {a0, a1}; mov.b32 %0, "
      "a0; }"
      : "=r"(value));
  to[threadIdx.x] = value;
}
