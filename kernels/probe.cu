// Whether the program kept a small step in its own shard, and the next step; one block, for the samples are
// few.
#include "kernels/dispatch.h"
#include "kernels/element.h"
#include "kernels/launch_kernel.cuh"
#include "kernels/load.h"
#include "kernels/memory.cuh"
#include "kernels/probe_answer.h"
#include "kernels/weight_header.h"

namespace sdp4bit {
namespace {

/// The sum over all threads, everywhere. The order is fixed by kSumThreads: no atomics.
template <typename Sums>
__device__ __forceinline__ Sums sum_over_block(const Sums& mine) {
  __shared__ Sums partial[kSumThreads];
  __syncthreads();  // the last sum is read by now
  partial[threadIdx.x] = mine;
  for (unsigned half = kSumThreads / 2; half != 0; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) partial[threadIdx.x].add(partial[threadIdx.x + half]);
  }
  __syncthreads();
  return partial[0];
}

template <typename T>
__global__ void __launch_bounds__(kSumThreads) answer_probe_kernel(const ProbeArgs args) {
  T* const shard = static_cast<T*>(args.shard);
  const T* const entry = static_cast<const T*>(args.entry);
  Probe& probe = *args.probe;
  const std::size_t count = probe_sample_count(args.shard_count);
  const bool answers = args.answer && probe.armed != 0;

  ProbeAnswer answer = ProbeAnswer::unclear;
  if (answers) {
    ProbeSums sums;
    for (std::size_t i = threadIdx.x; i < count; i += kSumThreads) {
      sums.add(probe.samples[i], load_element(shard + probe_sample_index(i, args.shard_count)));
    }
    answer = judge_probe(sum_over_block(sums), count);
    const bool here = answer == ProbeAnswer::kept || answer == ProbeAnswer::unmoved;
    if (args.moved && !here) return;  // other weights: the step is still where it was
    if (threadIdx.x == 0) note_answer(probe, answer);
    if (answer == ProbeAnswer::unmoved && args.start) return;  // the step stays, and so do its samples
  }
  for (std::size_t i = threadIdx.x; answers && i < count; i += kSumThreads) {
    T* const element = shard + probe_sample_index(i, args.shard_count);
    const float now = load_element(element);
    if (has_step(probe.samples[i], now, answer))
      store_element(element, without_step(probe.samples[i], now, answer));
  }
  __syncthreads();
  const bool starts = args.start && probe.flags == 0;
  if (threadIdx.x == 0) probe.armed = starts ? 1u : 0u;
  if (!starts) return;

  StepSums sums;
  for (std::size_t i = threadIdx.x; i < count; i += kSumThreads) {
    const std::size_t at = probe_sample_index(i, args.shard_count);
    sums.add(load_element(shard + at), finite_or_zero(load_element(entry + at)));
  }
  const float step = probe_step(sum_over_block(sums), count);
  for (std::size_t i = threadIdx.x; i < count; i += kSumThreads) {
    const float before = load_element(shard + probe_sample_index(i, args.shard_count));
    const float after = to_float(from_float<T>(before + probe_sign(args.seed, i) * step));
    probe.samples[i] = {before, magnitude_bits(after) < 0x7f800000u ? after : before};
  }
}

/// Grid: samples.
template <typename T>
__global__ void __launch_bounds__(kSumThreads) apply_probe_kernel(const ProbeArgs args) {
  const std::size_t i = std::size_t{blockIdx.x} * kSumThreads + threadIdx.x;
  if (args.probe->armed == 0 || i >= probe_sample_count(args.shard_count)) return;
  store_element(static_cast<T*>(args.shard) + probe_sample_index(i, args.shard_count),
                args.probe->samples[i].after);
}

}  // namespace

cudaError_t answer_probe(const ProbeArgs& args, cudaStream_t stream) {
  if (args.shard_count == 0) return cudaSuccess;
  return with_type(args.type, [&]<typename T>() {
    return launch_kernel(answer_probe_kernel<T>, 1, kSumThreads, 0, stream, args);
  });
}

cudaError_t apply_probe(const ProbeArgs& args, cudaStream_t stream) {
  if (args.shard_count == 0) return cudaSuccess;
  constexpr unsigned kBlocks = kProbeSamples / kSumThreads;
  return with_type(args.type, [&]<typename T>() {
    return launch_kernel(apply_probe_kernel<T>, kBlocks, kSumThreads, 0, stream, args);
  });
}

cudaError_t load_probe() {
  KernelLoader loader;
  for_each_type([&]<typename T>() {
    loader.load(answer_probe_kernel<T>);
    loader.load(apply_probe_kernel<T>);
  });
  return loader.error();
}

}  // namespace sdp4bit
