// The counter of draws on the device: it moves on with every execution, so that a replayed graph draws anew.
#include "kernels/launch.h"
#include "kernels/launch_kernel.cuh"
#include "kernels/load.h"

namespace sdp4bit {
namespace {

__global__ void advance_draw_kernel(std::uint64_t* counter, std::uint32_t by) {
  *counter += by;
}

}  // namespace

cudaError_t advance_draw(std::uint64_t* counter, std::uint32_t by, cudaStream_t stream) {
  return launch_kernel(advance_draw_kernel, 1, 1, 0, stream, counter, by);
}

cudaError_t load_draw() {
  KernelLoader loader;
  loader.load(advance_draw_kernel);
  return loader.error();
}

}  // namespace sdp4bit
