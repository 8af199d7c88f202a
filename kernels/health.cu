// The health of gradients: scales by exponent, one record a rank, and what all records say.
#include "kernels/dispatch.h"
#include "kernels/health_record.h"
#include "kernels/host_word.cuh"
#include "kernels/index.h"
#include "kernels/launch_health.h"
#include "kernels/launch_kernel.cuh"
#include "kernels/load.h"

namespace sdp4bit {
namespace {

constexpr unsigned kGroupsPerThread = 4;

/// Grid: groups of a segment (kGroupsPerThread a thread), segments, messages.
__global__ void __launch_bounds__(kExponents)
    count_scales_kernel(const CountScalesArgs args, const SegmentLayout layout, const std::size_t groups) {
  __shared__ std::uint32_t counts[kExponents];
  counts[threadIdx.x] = 0;
  __syncthreads();
  const std::byte* const segment =
      args.messages.data + blockIdx.z * args.messages.stride + layout.segment_offset(blockIdx.y);
  const std::size_t first = std::size_t{blockIdx.x} * kExponents * kGroupsPerThread + threadIdx.x;
  for (unsigned i = 0; i < kGroupsPerThread; ++i) {
    const std::size_t group = first + std::size_t{i} * kExponents;
    if (group >= groups) break;
    const std::uint32_t high = layout.scale == ScaleType::float32
                                   ? reinterpret_cast<const std::uint32_t*>(segment)[group] >> 16
                                   : std::uint32_t{reinterpret_cast<const std::uint16_t*>(segment)[group]};
    atomicAdd(&counts[high >> 7 & 0xffu], 1u);
  }
  __syncthreads();
  if (counts[threadIdx.x] != 0) atomicAdd(&args.histogram->groups[threadIdx.x], counts[threadIdx.x]);
}

__global__ void write_health_kernel(ScaleHistogram* histogram, HealthRecord* record) {
  *record = summarize(*histogram);
  *histogram = {};
}

__global__ void publish_health_kernel(const PublishHealthArgs args) {
  HealthWords words{};
  for (std::uint32_t rank = 0; rank < args.ranks; ++rank)
    add_health(words, *reinterpret_cast<const HealthRecord*>(args.records + rank * args.stride), rank);
  args.words->unhealthy_ranks = words.unhealthy_ranks;
  args.words->first_rank = words.first_rank;
  args.words->first = words.first;
  publish_to_host(args.words->number, args.number);
}

}  // namespace

cudaError_t count_scales(const CountScalesArgs& args, cudaStream_t stream) {
  const std::size_t groups = group_count(args.count, args.codec);
  if (groups == 0 || args.message_count == 0) return cudaSuccess;
  constexpr std::size_t kPerBlock = std::size_t{kExponents} * kGroupsPerThread;
  const std::size_t blocks = (groups + kPerBlock - 1) / kPerBlock;
  if (blocks > 0x7fffffffu || args.segments_per_message > 65535 || args.message_count > 65535) {
    return cudaErrorInvalidValue;
  }
  const dim3 grid(static_cast<unsigned>(blocks), args.segments_per_message, args.message_count);
  return launch_kernel(count_scales_kernel, grid, kExponents, 0, stream, args,
                       SegmentLayout(args.count, args.codec), groups);
}

cudaError_t write_health(ScaleHistogram* histogram, HealthRecord* record, cudaStream_t stream) {
  return launch_kernel(write_health_kernel, 1, 1, 0, stream, histogram, record);
}

cudaError_t publish_health(const PublishHealthArgs& args, cudaStream_t stream) {
  return launch_kernel(publish_health_kernel, 1, 1, 0, stream, args);
}

cudaError_t load_health() {
  KernelLoader loader;
  loader.load(count_scales_kernel);
  loader.load(write_health_kernel);
  loader.load(publish_health_kernel);
  return loader.error();
}

}  // namespace sdp4bit
