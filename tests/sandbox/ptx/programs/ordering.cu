// Kernels that give the host a number and then a word that says so.
namespace {

__device__ void write_number(unsigned* number) {
  *number = 42;
}

}  // namespace

extern "C" __global__ void fenced_store(unsigned* number, volatile unsigned* word) {
  write_number(number);
  __threadfence_system();
  *word = 1;
}

extern "C" __global__ void releasing_store(unsigned* number, unsigned* word) {
  write_number(number);
  asm volatile("st.release.sys.u32 [%0], 1;" ::"l"(word) : "memory");
}

extern "C" __global__ void fenced_atomic(unsigned* number, unsigned* word) {
  write_number(number);
  __threadfence_system();
  atomicAdd_system(word, 1u);
}

extern "C" __global__ void store_without_fence(unsigned* number, volatile unsigned* word) {
  write_number(number);
  *word = 1;
}

extern "C" __global__ void store_behind_an_earlier_fence(unsigned* number, volatile unsigned* word) {
  __threadfence_system();
  write_number(number);
  *word = 1;
}

extern "C" __global__ void atomic_without_fence(unsigned* number, unsigned* word) {
  write_number(number);
  atomicAdd_system(word, 1u);
}

extern "C" __global__ void weak_store(unsigned* number, unsigned* word) {
  write_number(number);
  __threadfence_system();
  *word = 1;
}
