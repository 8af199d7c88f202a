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

float scale_of(const float (&value)[kBlock], Coding coding, std::uint32_t bits, ScaleType type) {
  std::uint32_t largest = 0;
  for (const float v : value) largest = std::max(largest, magnitude_bits(v));
  return group_scale(largest, scale_steps(coding, bits), type);
}

int defined_code(Coding coding, float value, float scale, std::uint32_t noise16, std::uint32_t bits) {
  switch (coding) {
    case Coding::stochastic:
      return encode_stochastic(value, scale, noise16, bits);
    case Coding::dithered:
      return encode_dithered(value, scale, noise16, bits);
    case Coding::companded:
      return encode_companded(value, scale);
    case Coding::nearest:
      break;
  }
  return encode_nearest(value, scale, bits);
}

float defined_sum(float sum, Coding coding, int code, float scale, std::uint32_t noise16,
                  std::uint32_t bits) {
  if (coding == Coding::dithered) return add_dithered(sum, code, scale, noise16, bits);
  return sum + (coding == Coding::companded ? decode_companded(code, scale) : decode(code, scale));
}

template <typename Policy, unsigned Bits>
unsigned count_wrong(int rounds) {
  constexpr Coding coding = Policy::kCoding;
  std::mt19937 generator(Bits);
  unsigned wrong = 0;
  for (int round = 0; round < rounds; ++round) {
    float value[kBlock];
    fill(value, generator, -149 + round % 276);
    if (coding == Coding::companded) std::ranges::transform(value, value, compandable);
    const ScaleType type = round % 3 == 0 ? ScaleType::bfloat16 : ScaleType::float32;
    const float scale = scale_of(value, coding, Bits, type);
    if (!has_codes(scale)) continue;
    const auto word = [&] { return static_cast<std::uint32_t>(generator()); };
    const Philox4 random{word(), word() | 0xffffu, word() & 0xffff0000u, word()};
    const auto noise = [&] { return random; };
    std::uint32_t words[kCodeWords<Bits>];
    float used_up[kBlock], sum[kBlock], exact[kBlock];
    std::copy_n(value, kBlock, used_up);
    std::copy_n(value, kBlock, sum);
    encode_block<Policy, Bits>(words, used_up, scale, noise);
    std::copy_n(value, kBlock, exact);
    add_decoded_block<Policy, Bits>(sum, words, scale, noise);
    add_decoded_block<Policy, Bits, float, true>(exact, words, scale, noise);
    for (unsigned i = 0; i < kBlock; ++i) {
      const std::uint32_t bits16 = noise16(random, i);
      const int code = defined_code(coding, value[i], scale, bits16, Bits);
      wrong += unpack_code(words[i / codes_per_word(Bits)], i, Bits) != code;
      wrong += bits_of(sum[i]) != bits_of(defined_sum(value[i], coding, code, scale, bits16, Bits));
      wrong += type == ScaleType::bfloat16 && bits_of(exact[i]) != bits_of(sum[i]);
    }
  }
  return wrong;
}

template <unsigned Bits>
unsigned count_wrong_codes(int rounds) {
  unsigned wrong = 0;
  unsigned visited = 0;
  const auto count = [&]<typename Policy>() {
    ++visited;
    wrong += count_wrong<Policy, Bits>(rounds);
  };
  for (const Coding coding : {Coding::nearest, Coding::stochastic, Coding::dithered}) {
    GradientCodings::with<Bits>(coding, count);
  }
  WeightCodings::with<Bits>(Coding::companded, count);
  CHECK(visited == (Bits == 4 ? 4 : 3));
  return wrong;
}

}  // namespace

TEST_CASE("FastCodec.FourBitCodesAreThoseOfTheDefinition") {
  CHECK(count_wrong_codes<4>(50000) == 0);
}

TEST_CASE("FastCodec.EightBitCodesAreThoseOfTheDefinition") {
  CHECK(count_wrong_codes<8>(50000) == 0);
}

TEST_CASE("FastCodec.QuickScalesAreThoseOfTheDefinition") {
  std::mt19937 generator(8);
  unsigned wrong = 0, quick = 0;
  for (int i = 0; i < 3000000; ++i) {
    const std::uint32_t magnitude = static_cast<std::uint32_t>(generator()) >> 1;
    if (!is_middle_magnitude(magnitude)) continue;
    ++quick;
    for (const Coding coding : {Coding::nearest, Coding::dithered}) {
      for (const std::uint32_t bits : {4u, 8u}) {
        for (const ScaleType type : {ScaleType::float32, ScaleType::bfloat16}) {
          const float steps = scale_steps(coding, bits);
          const float scale = quick_scale(magnitude, steps, type);
          wrong += bits_of(scale) != bits_of(group_scale(magnitude, steps, type));
          wrong += middle_factor(scale) != 1.0f;
        }
      }
    }
  }
  CHECK(wrong == 0);
  CHECK(quick > 1000000);
}

TEST_CASE("FastCodec.DivisionIsCorrectlyRounded") {
  std::mt19937 generator(7);
  unsigned wrong = 0;
  for (int i = 0; i < 5000000; ++i) {
    const float scale = float_from_bits(0x3f800000u | (static_cast<std::uint32_t>(generator()) >> 9));
    const float x = float_from_bits(0x3f800000u + (static_cast<std::uint32_t>(generator()) >> 6));
    wrong += divide(x, {scale, 1.0f / scale}) != x / scale;
  }
  // Mantissas of all ones and just above a power of two are the hard ones.
  for (const std::uint32_t scale_bits :
       {0x3f800000u, 0x3f800001u, 0x3f800002u, 0x3fffffffu, 0x3ffffffeu, 0x3fb504f3u}) {
    const float scale = float_from_bits(scale_bits);
    for (std::uint32_t x_bits = 0x3f800000u; x_bits < 0x40000000u; x_bits += 7) {
      const float x = float_from_bits(x_bits);
      wrong += divide(x, {scale, 1.0f / scale}) != x / scale;
    }
  }
  CHECK(wrong == 0);
}
