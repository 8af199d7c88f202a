// From run-time types, bits and counts to template arguments and grids, for the launchers.
#pragma once

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/batch.h"
#include "kernels/element.h"
#include "kernels/index.h"
#include "kernels/launch.h"
#include "kernels/random.h"

namespace sdp4bit {

/// Calls launch.operator()<T>() with the storage type of `type`.
template <typename Launch>
cudaError_t with_type(ElementType type, Launch&& launch) {
  switch (type) {
    case ElementType::float32:
      return launch.template operator()<float>();
    case ElementType::float16:
      return launch.template operator()<Float16>();
    case ElementType::bfloat16:
      return launch.template operator()<BFloat16>();
  }
  return cudaErrorInvalidValue;
}

/// Calls launch.operator()<4>() or <8>().
template <typename Launch>
cudaError_t with_bits(std::uint32_t bits, Launch&& launch) {
  if (bits == 4) return launch.template operator()<4>();
  if (bits == 8) return launch.template operator()<8>();
  return cudaErrorInvalidValue;
}

/// The key of noise as kernels take it; `ready` where the caller has it.
inline PhiloxSchedule schedule_of(const NoiseKey& key, const PhiloxSchedule* ready) {
  return ready != nullptr ? *ready : noise_schedule(noise_key(key.seed, key.rank, key.communicator));
}

/// The blocks of a batch along x, and y and z as they are.
template <typename Call>
bool make_grid(dim3& grid, const Batch<Call>& batch, std::size_t y = 1, std::size_t z = 1) {
  if (y > kLargestGridYZ || z > kLargestGridYZ) return false;
  grid = dim3(batch.blocks(), static_cast<unsigned>(y), static_cast<unsigned>(z));
  return true;
}

/// Tiles of `count` elements along x, which kernels stride over, and y and z as they are. False where y or z
/// is more than a grid holds.
inline bool make_grid(dim3& grid, std::size_t count, std::size_t y = 1, std::size_t z = 1) {
  if (y > kLargestGridYZ || z > kLargestGridYZ) return false;
  grid = dim3(static_cast<unsigned>(std::min(tile_count(count), kLargestGridX)), static_cast<unsigned>(y),
              static_cast<unsigned>(z));
  return true;
}

}  // namespace sdp4bit
