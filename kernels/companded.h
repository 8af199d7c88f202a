// The kernels of companded differences in large groups: what the launchers of difference.cu hand on.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/launch_weight.h"
#include "kernels/tuning.h"
#include "kernels/weight_batch.h"

namespace sdp4bit {

/// Elements that a warp works on, its lanes taking neighbouring 16 bytes (warp_tile.cuh): a group of that
/// size needs no memory to find its scale.
inline constexpr std::size_t kWarpTile = 32 * kBlock;

/// Thread blocks of a multiprocessor that adding leaves registers for. Each thread has 128 bytes on their way
/// before it computes, so two blocks have 64 KiB: three times what hides the latency of the memory (some 600
/// ns at 33 bytes a nanosecond and multiprocessor, H200).
inline constexpr unsigned kAddingBlocks = 2;
/// Likewise for coding 16-bit types in groups of a warp's tile: a thread reads 128 bytes. The others need
/// more registers than half a multiprocessor has for each of them.
template <typename T, bool OneWarp>
inline constexpr unsigned kEncodingBlocks = sizeof(T) == 2 && OneWarp ? 2 : 1;

/// A warp of these kernels works on one group, and tiles are counted in 32 bits.
constexpr bool has_companded_kernel(const WeightChunk& chunk) {
  return chunk.codec.coding == Coding::companded && chunk.codec.bits == 4 &&
         chunk.codec.group_size >= kWarpTile && chunk.count <= std::size_t{1} << 40;
}
/// Differences from zero, which keep no entry, are the general kernels' too.
constexpr bool has_companded_kernel(const EncodeDifferenceArgs& args) {
  return args.entry != nullptr && has_companded_kernel(args.chunk);
}
constexpr bool has_companded_kernel(const AddDifferenceArgs& args) {
  return args.ledger != nullptr && has_companded_kernel(args.chunk);
}

cudaError_t load_companded();
cudaError_t encode_companded(const Batch<EncodeCall>& batch, dim3 grid, std::uint32_t* finished_blocks,
                             cudaStream_t stream);
cudaError_t add_companded(const Batch<AddCall>& batch, dim3 grid, std::uint32_t* finished_blocks,
                          cudaStream_t stream);

}  // namespace sdp4bit
