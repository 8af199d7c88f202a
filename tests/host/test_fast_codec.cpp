// The block codec without divisions gives the bits of codec.h, over the whole range of scales.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>

#include "catch.h"
#include "kernels/fast_codec.h"

namespace {

using namespace sdp4bit;

/// Values whose magnitudes reach from far below the group's largest up to it.
void fill(float (&value)[kBlock], std::mt19937& generator, int exponent) {
  std::uniform_real_distribution<float> mantissa(-2.0f, 2.0f);
  for (float& v : value) {
    const int below =
        generator() % 4 == 0 ? static_cast<int>(generator() % 60) : static_cast<int>(generator() % 4);
    v = std::ldexp(mantissa(generator), exponent - below);
  }
  if (generator() % 8 == 0) value[generator() % kBlock] = -0.0f;
}

float scale_of(const float (&value)[kBlock], std::uint32_t bits, ScaleType type) {
  std::uint32_t largest = 0;
  for (const float v : value) largest = std::max(largest, magnitude_bits(v));
  return group_scale(largest, bits, type);
}

template <unsigned Bits>
unsigned count_wrong_codes(int rounds) {
  std::mt19937 generator(Bits);
  unsigned wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    float value[kBlock];
    fill(value, generator, -149 + round % 275);
    const float scale = scale_of(value, Bits, round % 3 == 0 ? ScaleType::bfloat16 : ScaleType::float32);
    if (!has_codes(scale)) continue;
    Philox4 random[4];
    for (Philox4& r : random) {
      const auto word = [&] { return static_cast<std::uint32_t>(generator()); };
      r = {word(), word() | 0xffffu, word() & 0xffff0000u, word()};
    }
    std::uint32_t nearest[kCodeWords<Bits>], stochastic[kCodeWords<Bits>];
    float used_up[kBlock];
    std::copy_n(value, kBlock, used_up);
    encode_block_nearest<Bits>(nearest, used_up, scale);
    std::copy_n(value, kBlock, used_up);
    encode_block_stochastic<Bits>(stochastic, used_up, scale,
                                  [&](unsigned first) { return random[first / 8]; });
    float sum[kBlock] = {}, expected_sum[kBlock] = {};
    add_decoded_words<Bits>(sum, stochastic, scale);
    for (unsigned i = 0; i < kBlock; ++i) {
      const unsigned w = i / codes_per_word(Bits);
      const int code = encode_stochastic(value[i], scale, noise16(random[i / 8], i % 8), Bits);
      wrong += unpack_code(nearest[w], i, Bits) != encode_nearest(value[i], scale, Bits);
      wrong += unpack_code(stochastic[w], i, Bits) != code;
      expected_sum[i] += decode(code, scale);
      wrong += bits_of(sum[i]) != bits_of(expected_sum[i]);
    }
  }
  return wrong;
}

}  // namespace

TEST_CASE("FastCodec.FourBitCodesAreThoseOfTheDefinition") {
  CHECK(count_wrong_codes<4>(100000) == 0);
}

TEST_CASE("FastCodec.EightBitCodesAreThoseOfTheDefinition") {
  CHECK(count_wrong_codes<8>(100000) == 0);
}

TEST_CASE("FastCodec.DivisionIsCorrectlyRounded") {
  std::mt19937 generator(7);
  unsigned wrong = 0;
  for (int i = 0; i < 5000000; ++i) {
    const float scale = float_from_bits(0x3f800000u | (static_cast<std::uint32_t>(generator()) >> 9));
    const float x = float_from_bits(0x3f800000u + (static_cast<std::uint32_t>(generator()) >> 6));
    wrong += divide(x, scale, 1.0f / scale) != x / scale;
  }
  // Mantissas of all ones and just above a power of two are the hard ones.
  for (const std::uint32_t scale_bits :
       {0x3f800000u, 0x3f800001u, 0x3f800002u, 0x3fffffffu, 0x3ffffffeu, 0x3fb504f3u}) {
    const float scale = float_from_bits(scale_bits);
    for (std::uint32_t x_bits = 0x3f800000u; x_bits < 0x40000000u; x_bits += 7) {
      const float x = float_from_bits(x_bits);
      wrong += divide(x, scale, 1.0f / scale) != x / scale;
    }
  }
  CHECK(wrong == 0);
}
