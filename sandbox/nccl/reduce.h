// Element-wise reduction of what the ranks bring, in rank order and in the element type.
//
// The accumulator has the element type: after each rank's contribution the partial result is rounded to it,
// as it is when a ring passes partial sums on. Averages of floats multiply each contribution by 1/ranks,
// rounded to the type, before they are added (NCCL does so); averages of integers divide the sum, toward
// zero.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>

namespace sandbox::nccl {

enum class ReduceKind : uint32_t { sum, prod, max, min, scaled_sum, sum_then_divide };

// accumulator[i] = source[i], scaled by `factor` (bits of the element type) where the kind is scaled_sum.
void reduce_first(ncclDataType_t type, ReduceKind kind, void* accumulator, const void* source, size_t count,
                  uint64_t factor);
// accumulator[i] = accumulator[i] (op) source[i], scaled likewise.
void reduce_next(ncclDataType_t type, ReduceKind kind, void* accumulator, const void* source, size_t count,
                 uint64_t factor);
// Divides for sum_then_divide, else does nothing.
void reduce_finish(ncclDataType_t type, ReduceKind kind, void* accumulator, size_t count, int ranks);

// Bits of 1/ranks in a float type.
[[nodiscard]] uint64_t reciprocal_bits(ncclDataType_t type, int ranks);

}  // namespace sandbox::nccl
