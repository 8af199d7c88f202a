// The other half; its local variable has the same name and another value.
__device__ int shared_value = 100;
static __device__ int local_value = 7;
__device__ int helper(int value) {
  return value * 2 + local_value;
}

extern "C" __global__ void change_shared() {
  shared_value += static_cast<int>(threadIdx.x);
}
