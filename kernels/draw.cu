// The counter of draws on the device: it moves on with every execution, so that a replayed graph draws anew.
#include "kernels/launch.h"
#include "kernels/launch_kernel.cuh"
#include "kernels/load.h"
#include "kernels/nonfinite.cuh"

namespace sdp4bit {
namespace {

__global__ void advance_draw_kernel(std::uint64_t* counter, std::uint32_t by, const CounterMirror mirror) {
  *counter += by;
  copy_counters(mirror);
}

}  // namespace

cudaError_t advance_draw(std::uint64_t* counter, std::uint32_t by, cudaStream_t stream,
                         const CounterMirror& mirror) {
  return launch_kernel(advance_draw_kernel, 1, 1, 0, stream, counter, by, mirror);
}

cudaError_t load_draw() {
  KernelLoader loader;
  loader.load(advance_draw_kernel);
  return loader.error();
}

}  // namespace sdp4bit
