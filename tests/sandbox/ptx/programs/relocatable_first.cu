// One half of a program compiled to relocatable device code: uses a variable and a function of the other
// half.
extern __device__ int shared_value;
extern __device__ int helper(int value);
static __device__ int local_value = 5;

extern "C" __global__ void use_other_half(int* cells) {
  cells[threadIdx.x] = helper(cells[threadIdx.x]) + shared_value + local_value;
}
