// A small image to store in every form a fatbin can take.
__constant__ int offsets[4] = {100, 200, 300, 400};
__device__ unsigned filler[512] = {1, 2, 3};

template <int Kind>
__device__ int mixed(int value) {
  return value * (2 * Kind + 1) + offsets[Kind];
}
extern "C" __global__ void mix(const int* from, int* to, int count) {
  const int index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= count) return;
  int value = from[index];
  value = mixed<0>(value);
  value = mixed<1>(value) ^ mixed<2>(value);
  to[index] = mixed<3>(value) + static_cast<int>(filler[1]);
}
