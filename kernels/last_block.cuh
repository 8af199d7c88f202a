// Which thread block of a launch ends last: it may do what needs all of them to have ended.
#pragma once

#include <cstdint>

namespace sdp4bit {

/// For the whole thread block, at its end, called once by each of `blocks` blocks: the grid's, or those of a
/// call. The last one sees what the others wrote before. `finished` is a word in device memory that is 0
/// between launches, and again after this one; launches that share it follow each other on their streams.
__device__ __forceinline__ bool is_last_block(std::uint32_t* finished, std::uint32_t blocks) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicAdd(finished, 1u) == blocks - 1;
    if (is_last) {
      *finished = 0;
      __threadfence();
    }
  }
  __syncthreads();
  return is_last;
}

}  // namespace sdp4bit
