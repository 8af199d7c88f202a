// Cooperative launches: all blocks of a grid run together and meet at its barrier. Also built for a debugger.
#include <cooperative_groups.h>

#include <cstdint>
#include <vector>

#include "support.h"

using namespace sandbox::test;
namespace cg = cooperative_groups;

namespace {

constexpr unsigned kBlocks = 40, kThreads = 96, kRounds = 7;

/// Each round, each block adds what its two neighbors had in the round before; nothing but the grid's barrier
/// keeps the rounds apart.
__global__ void add_neighbors(unsigned* values, unsigned rounds) {
  const cg::grid_group grid = cg::this_grid();
  const unsigned blocks = gridDim.x, block = blockIdx.x;
  for (unsigned round = 0; round < rounds; ++round) {
    const unsigned* from = values + (round % 2) * blocks;
    unsigned* to = values + ((round + 1) % 2) * blocks;
    if (threadIdx.x == 0)
      to[block] = from[(block + 1) % blocks] + from[(block + blocks - 1) % blocks] + block;
    grid.sync();
  }
}

/// Shapes with more than one dimension, and the split barrier.
__global__ void count_arrivals(unsigned* arrived, unsigned* seen) {
  cg::grid_group grid = cg::this_grid();
  atomicAdd(arrived, 1u);
  auto token = grid.barrier_arrive();
  grid.barrier_wait(static_cast<decltype(token)&&>(token));
  seen[grid.thread_rank()] = *static_cast<volatile unsigned*>(arrived);
}

__global__ void is_cooperative(unsigned* answer) {
  *answer = cg::this_grid().is_valid() ? 1 : 2;
}

std::vector<unsigned> expected_sums(unsigned blocks, unsigned rounds) {
  std::vector<unsigned> from(blocks, 1), to(blocks);
  for (unsigned round = 0; round < rounds; ++round) {
    for (unsigned block = 0; block < blocks; ++block)
      to[block] = from[(block + 1) % blocks] + from[(block + blocks - 1) % blocks] + block;
    std::swap(from, to);
  }
  return from;
}

/// The values of add_neighbors, two a block.
struct Ring {
  unsigned* values = nullptr;
  unsigned blocks;
  unsigned rounds = kRounds;

  explicit Ring(unsigned its_blocks) : blocks(its_blocks) {
    expect(cudaMalloc(reinterpret_cast<void**>(&values), 8 * blocks));
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() { cudaFree(values); }

  /// From the ones on again.
  cudaError_t launch(unsigned threads, cudaStream_t stream) {
    const std::vector<unsigned> ones(blocks, 1);
    void* arguments[] = {&values, &rounds};
    expect(cudaMemcpyAsync(values, ones.data(), 4 * blocks, cudaMemcpyHostToDevice, stream));
    return cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(&add_neighbors), dim3(blocks),
                                       dim3(threads), arguments, 0, stream);
  }
  void check() {
    std::vector<unsigned> got(blocks);
    expect(cudaMemcpy(got.data(), values + (rounds % 2) * blocks, 4 * blocks, cudaMemcpyDeviceToHost));
    REQUIRE(got == expected_sums(blocks, rounds));
  }
};

}  // namespace

TEST_CASE("Cooperative.BlocksMeetAtEveryBarrier") {
  int supported = 0;
  expect(cudaDeviceGetAttribute(&supported, cudaDevAttrCooperativeLaunch, 0));
  REQUIRE(supported == 1);
  for (const unsigned blocks : {1u, 2u, kBlocks}) {
    Ring ring(blocks);
    expect(ring.launch(kThreads, nullptr));
    expect(cudaDeviceSynchronize());
    ring.check();
  }
}

TEST_CASE("Cooperative.LaunchesSideBySideHaveBarriersOfTheirOwn") {
  StreamHolder one, two;
  Ring a(9), b(kBlocks);
  for (int repeat = 0; repeat < 3; ++repeat) {
    expect(a.launch(32, one.stream));
    expect(b.launch(64, two.stream));
  }
  expect(cudaStreamSynchronize(one.stream));
  expect(cudaStreamSynchronize(two.stream));
  a.check();
  b.check();
}

TEST_CASE("Cooperative.FullDeviceAndOneBlockMore") {
  int per_multiprocessor = 0, multiprocessors = 0;
  expect(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, add_neighbors, 1024, 0));
  expect(cudaDeviceGetAttribute(&multiprocessors, cudaDevAttrMultiProcessorCount, 0));
  const auto most = static_cast<unsigned>(per_multiprocessor * multiprocessors);
  Ring ring(most), larger(most + 1);
  ring.rounds = 3;
  expect(ring.launch(1024, nullptr));
  expect(cudaDeviceSynchronize());
  ring.check();
  expect(larger.launch(1024, nullptr), cudaErrorCooperativeLaunchTooLarge);
  expect(cudaDeviceSynchronize());
}

TEST_CASE("Cooperative.ByAttributeInAnyShapeAndAgainFromAGraph") {
  unsigned *arrived = nullptr, *seen = nullptr;
  constexpr unsigned kTotal = 2 * 3 * 2 * 8 * 4;
  expect(cudaMalloc(reinterpret_cast<void**>(&arrived), 4));
  expect(cudaMalloc(reinterpret_cast<void**>(&seen), 4 * kTotal));
  StreamHolder stream;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeCooperative;
  attribute.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(2, 3, 2);
  config.blockDim = dim3(8, 4);
  config.stream = stream.stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  const auto check = [&] {
    std::vector<unsigned> got(kTotal);
    expect(cudaMemcpy(got.data(), seen, 4 * kTotal, cudaMemcpyDeviceToHost));
    REQUIRE(got == std::vector<unsigned>(kTotal, kTotal));
  };
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  expect(cudaStreamBeginCapture(stream.stream, cudaStreamCaptureModeThreadLocal));
  expect(cudaMemsetAsync(arrived, 0, 4, stream.stream));
  expect(cudaLaunchKernelEx(&config, count_arrivals, arrived, seen));
  expect(cudaStreamEndCapture(stream.stream, &graph));
  expect(cudaGraphInstantiate(&executable, graph, 0));
  for (int repeat = 0; repeat < 3; ++repeat) {
    expect(cudaGraphLaunch(executable, stream.stream));
    expect(cudaStreamSynchronize(stream.stream));
    check();
  }
  expect(cudaGraphExecDestroy(executable));
  expect(cudaGraphDestroy(graph));
  expect(cudaFree(seen));
  expect(cudaFree(arrived));
}

TEST_CASE("Cooperative.OtherLaunchesHaveNoGridToWaitFor") {
  unsigned* answer = nullptr;
  expect(cudaMalloc(reinterpret_cast<void**>(&answer), 4));
  is_cooperative<<<2, 1>>>(answer);
  unsigned got = 0;
  expect(cudaMemcpy(&got, answer, 4, cudaMemcpyDeviceToHost));
  REQUIRE(got == 2);
  void* arguments[] = {&answer};
  expect(cudaLaunchCooperativeKernel(reinterpret_cast<const void*>(&is_cooperative), dim3(1), dim3(1),
                                     arguments, 0, nullptr));
  expect(cudaMemcpy(&got, answer, 4, cudaMemcpyDeviceToHost));
  REQUIRE(got == 1);
  expect(cudaFree(answer));
}
