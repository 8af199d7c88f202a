// The element arithmetic against CUDA's own host conversions.
#include "sandbox/nccl/reduce.h"

#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "catch.h"
#include "sandbox/nccl/types.h"

namespace {

using namespace sandbox::nccl;

uint16_t bits_of(__half value) {
  uint16_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

uint16_t bits_of(__nv_bfloat16 value) {
  uint16_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// All sorts of floats: random bits, and the neighbours of every half.
std::vector<float> floats() {
  std::vector<float> result = {0.0f,     -0.0f,     INFINITY, -INFINITY, NAN,
                               65504.0f, 65519.99f, 65520.0f, 3.4e38f,   1e-45f};
  std::mt19937 random(1);
  for (int i = 0; i < 200000; ++i) result.push_back(std::bit_cast<float>(static_cast<uint32_t>(random())));
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = float_from_half(static_cast<uint16_t>(bits));
    for (const float factor : {1.0f, 1.00048828125f, 1.0004f, 0.9998f}) result.push_back(value * factor);
  }
  return result;
}

}  // namespace

TEST_CASE("Every half and bfloat16 converts to float as CUDA converts it") {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const __half_raw raw{static_cast<unsigned short>(bits)};
    const float expected = __half2float(__half(raw));
    const float value = float_from_half(static_cast<uint16_t>(bits));
    if (!(std::isnan(expected) ? std::isnan(value)
                               : std::bit_cast<uint32_t>(value) == std::bit_cast<uint32_t>(expected))) {
      FAIL("half " << bits);
    }
    const __nv_bfloat16_raw brain{static_cast<unsigned short>(bits)};
    const float wide = __bfloat162float(__nv_bfloat16(brain));
    const float other = float_from_bfloat16(static_cast<uint16_t>(bits));
    if (std::memcmp(&wide, &other, sizeof wide) != 0) FAIL("bfloat16 " << bits);
  }
}

TEST_CASE("Floats round to half and bfloat16 as CUDA rounds them") {
  for (const float value : floats()) {
    if (std::isnan(value)) {
      CHECK(std::isnan(float_from_half(half_from_float(value))));
      CHECK(std::isnan(float_from_bfloat16(bfloat16_from_float(value))));
      continue;
    }
    if (half_from_float(value) != bits_of(__float2half_rn(value))) FAIL("half of " << value);
    if (bfloat16_from_float(value) != bits_of(__float2bfloat16_rn(value))) FAIL("bfloat16 of " << value);
  }
}

TEST_CASE("Partial sums are rounded to the type in rank order") {
  // 2048 + 1 + 1 in half: each addition of 1 is lost to rounding.
  std::vector<uint16_t> sum = {half_from_float(2048)};
  const std::vector<uint16_t> one = {half_from_float(1)};
  reduce_next(ncclFloat16, ReduceKind::sum, sum.data(), one.data(), 1, 0);
  reduce_next(ncclFloat16, ReduceKind::sum, sum.data(), one.data(), 1, 0);
  CHECK(float_from_half(sum[0]) == 2048);
}

TEST_CASE("Integer averages divide toward zero and integer sums wrap around") {
  std::vector<int8_t> value = {100};
  const std::vector<int8_t> more = {100};
  reduce_next(ncclInt8, ReduceKind::sum, value.data(), more.data(), 1, 0);
  CHECK(value[0] == static_cast<int8_t>(200));
  std::vector<int32_t> negative = {-7};
  reduce_finish(ncclInt32, ReduceKind::sum_then_divide, negative.data(), 1, 2);
  CHECK(negative[0] == -3);
  std::vector<uint64_t> large = {~0ull};
  reduce_finish(ncclUint64, ReduceKind::sum_then_divide, large.data(), 1, 2);
  CHECK(large[0] == ~0ull / 2);
}

TEST_CASE("Minimum and maximum prefer the number over NaN") {
  std::vector<float> value = {NAN};
  const std::vector<float> one = {1};
  reduce_next(ncclFloat32, ReduceKind::max, value.data(), one.data(), 1, 0);
  CHECK(value[0] == 1);
  const std::vector<float> nan = {NAN};
  reduce_next(ncclFloat32, ReduceKind::min, value.data(), nan.data(), 1, 0);
  CHECK(value[0] == 1);
}
