// The kernel that asks kernels/instructions.h; compiled twice, with SDP4BIT_ASK the name of the function.
#include "instructions.h"

#include "kernels/instructions.h"

namespace sdp4bit::test {
namespace {

__global__ void ask(Answers* answers, const Triple* triples) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  const auto [a, b, c] = triples[i];
  const float x = __uint_as_float(a), y = __uint_as_float(b);
  answers[i] = {.multiply_add = instructions::multiply_add_bfloat16_pair(a, b, c),
                .largest = instructions::max_or_nan_bfloat16_pair(a, b),
                .smallest = instructions::min_or_nan_bfloat16_pair(a, b),
                .bfloat16 = instructions::to_bfloat16_pair(x, y),
                .float16 = instructions::to_float16_pair(x, y),
                .float16_towards_zero = instructions::to_float16_pair_towards_zero(x, y),
                .largest_float = __float_as_uint(instructions::max_or_nan(x, y)),
                .smallest_float = __float_as_uint(instructions::min_or_nan(x, y)),
                .largest_of_warp = instructions::max_of_warp(a)};
}

}  // namespace

void SDP4BIT_ASK(Answers* answers, const Triple* triples, std::size_t count) {
  ask<<<static_cast<unsigned>(count / 32), 32>>>(answers, triples);
}

}  // namespace sdp4bit::test
