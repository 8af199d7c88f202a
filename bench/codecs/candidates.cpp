// What each candidate computes. Scales are rounded up, so that the largest number never clips.
#include "candidates.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <random>

#include "data.h"
#include "kernels/codec.h"
#include "kernels/compand.h"
#include "kernels/element.h"
#include "kernels/hadamard.h"

namespace sdp4bit::bench {
namespace {

constexpr std::size_t kGroup32 = 32, kGroup64 = 64, kGroup512 = 512, kScaled256 = 256;

float largest_of(std::span<const float> values) {
  float largest = 0.0f;
  for (const float value : values) largest = std::fmax(largest, std::fabs(value));
  return largest;
}

/// The smallest e4m3 number that is not below a positive one: three bits of fraction, 2^-6 to 448, and below
/// that steps of 2^-9.
float up_to_e4m3(float value) {
  if (value <= 0.0f) return 0.0f;
  const int exponent = std::max(std::ilogb(value), -6);
  const float step = std::ldexp(1.0f, exponent - 3);
  return std::fmin(std::ceil(value / step) * step, 448.0f);
}

/// The least of the numbers with two bits of fraction that is not below a positive one: one byte holds them
/// over 64 powers of two.
float up_to_quarters(float value) {
  if (value <= 0.0f) return 0.0f;
  const float step = std::ldexp(1.0f, std::ilogb(value) - 2);
  return std::ceil(value / step) * step;
}

/// The least of 16 factors, 2^(1/4) apart, that is not below a number of up to 1.
float up_to_quarter_power(float value) {
  if (value <= 0.0f) return 0.0f;
  const float steps = std::fmin(std::floor(-4.0f * std::log2(value)), 15.0f);
  return std::exp2(-steps / 4.0f);
}

std::vector<float> transformed(std::span<const float> values, std::span<const float> signs = {}) {
  std::vector<float> result(values.begin(), values.end());
  for (std::size_t i = 0; i < signs.size(); ++i) result[i] *= signs[i];
  for (std::size_t begin = 0; begin < result.size(); begin += kBlock) {
    float block[kBlock];
    std::copy_n(result.data() + begin, kBlock, block);
    hadamard32(block);
    std::copy_n(block, kBlock, result.data() + begin);
  }
  return result;
}

void undo_transform(std::vector<float>& values, std::span<const float> signs = {}) {
  values = transformed(values);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] *= kInverseHadamardFactor * (signs.empty() ? 1.0f : signs[i]);
  }
}

/// A group's scale in one byte, in parts of the whole segment's.
std::vector<float> byte_scales(std::span<const float> values, std::size_t group, float steps) {
  const float whole = largest_of(values) / steps / 448.0f;
  std::vector<float> scales;
  for (std::size_t begin = 0; begin < values.size(); begin += group) {
    const float scale = largest_of(values.subspan(begin, group)) / steps;
    scales.push_back(whole > 0.0f ? up_to_e4m3(scale / whole) * whole : 0.0f);
  }
  return scales;
}

/// Subtractive dither on 16 levels, as codec.h has it, with a scale for each group.
void dither(std::vector<float>& values, std::size_t group, std::span<const float> scales, unsigned draw) {
  std::mt19937 noise(1000 + draw);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const float scale = scales[i / group];
    const float u = static_cast<float>(noise() >> 16) * 0x1p-16f;
    if (scale == 0.0f) {
      values[i] = 0.0f;
      continue;
    }
    const float code = std::clamp(std::rint(values[i] / scale + u - 1.0f), -8.0f, 7.0f);
    values[i] = (code + 1.0f - u) * scale;
  }
}

std::vector<float> dither_with_byte_scales(std::span<const float> values, unsigned draw) {
  std::vector<float> result = transformed(values);
  dither(result, kGroup32, byte_scales(result, kGroup32, scale_steps(Coding::dithered, 4)), draw);
  undo_transform(result);
  return result;
}

std::vector<float> dither_with_half_byte_scales(std::span<const float> values, unsigned draw) {
  std::vector<float> result = transformed(values);
  const std::span<const float> all(result);
  std::vector<float> scales;
  for (std::size_t begin = 0; begin < all.size(); begin += kGroup32) {
    const std::span<const float> around = all.subspan(begin / kScaled256 * kScaled256, kScaled256);
    const float whole = round_up_to_bfloat16(largest_of(around) / scale_steps(Coding::dithered, 4));
    const float scale = largest_of(all.subspan(begin, kGroup32)) / scale_steps(Coding::dithered, 4);
    scales.push_back(whole > 0.0f ? up_to_quarter_power(scale / whole) * whole : 0.0f);
  }
  dither(result, kGroup32, scales, draw);
  undo_transform(result);
  return result;
}

/// The positive half of the 16 levels that lose least of a Gaussian (Max 1960).
constexpr std::array<float, 8> kGaussLevels{0.1284f, 0.3881f, 0.6568f, 0.9424f,
                                            1.2562f, 1.6181f, 2.0690f, 2.7326f};

/// The nearest level, or by chance one of the two around that give the number in the mean.
float gauss_level(float value, float chance, bool nearest) {
  std::array<float, 16> levels{};
  for (std::size_t i = 0; i < 8; ++i) {
    levels[8 + i] = kGaussLevels[i];
    levels[7 - i] = -kGaussLevels[i];
  }
  const auto above = std::upper_bound(levels.begin(), levels.end(), value);
  if (above == levels.begin()) return levels.front();
  if (above == levels.end()) return levels.back();
  const float low = *(above - 1), high = *above, part = (value - low) / (high - low);
  return nearest ? (part < 0.5f ? low : high) : (chance < part ? high : low);
}

/// Nearest levels, and the scale that makes the error orthogonal to the numbers (EDEN, Vargaftik et al.
/// 2022): no bias over random rotations, of which random signs before the transform are a part.
std::vector<float> gauss_with_random_signs(std::span<const float> values, unsigned draw) {
  std::mt19937 noise(2000 + draw);
  std::vector<float> signs(values.size());
  for (float& sign : signs) sign = (noise() & 1u) != 0 ? 1.0f : -1.0f;
  std::vector<float> result = transformed(values, signs);
  for (std::size_t begin = 0; begin < result.size(); begin += kGroup64) {
    double power = 0, product = 0;
    for (std::size_t i = begin; i < begin + kGroup64; ++i) power += double{result[i]} * double{result[i]};
    const auto sigma = static_cast<float>(std::sqrt(power / kGroup64));
    if (sigma == 0.0f) continue;
    std::array<float, kGroup64> level{};
    for (std::size_t i = 0; i < kGroup64; ++i) {
      level[i] = gauss_level(result[begin + i] / sigma, 0.0f, true);
      product += double{level[i]} * double{result[begin + i]};
    }
    const float scale = to_float(from_float<BFloat16>(static_cast<float>(power / product)));
    for (std::size_t i = 0; i < kGroup64; ++i) result[begin + i] = level[i] * scale;
  }
  undo_transform(result, signs);
  return result;
}

/// The same levels up to the group's largest number, which of two is left to chance.
std::vector<float> gauss_by_chance(std::span<const float> values, unsigned draw) {
  std::mt19937 noise(3000 + draw);
  std::vector<float> result = transformed(values);
  for (std::size_t begin = 0; begin < result.size(); begin += kGroup64) {
    const std::span<float> group(result.data() + begin, kGroup64);
    const float scale = round_up_to_bfloat16(largest_of(group) / kGaussLevels.back());
    for (float& value : group) {
      const float chance = static_cast<float>(noise() >> 8) * 0x1p-24f;
      if (scale != 0.0f) value = gauss_level(value / scale, chance, false) * scale;
    }
  }
  undo_transform(result);
  return result;
}

void compand(std::vector<float>& result, std::span<const float> scales) {
  for (std::size_t i = 0; i < result.size(); ++i) {
    const float scale = to_float(from_float<BFloat16>(scales[i / kGroup512]));
    result[i] = has_codes(scale) ? decode_companded(encode_companded(result[i], scale), scale) : 0.0f;
  }
}

std::vector<float> compandable_numbers(std::span<const float> values) {
  std::vector<float> result(values.begin(), values.end());
  std::ranges::transform(result, result.begin(), compandable);
  return result;
}

std::vector<float> compand_with_byte_scales(std::span<const float> values, unsigned) {
  std::vector<float> result = compandable_numbers(values);
  compand(result, byte_scales(result, kGroup512, 1.0f));
  return result;
}

std::vector<float> compand_with_quarter_scales(std::span<const float> values, unsigned) {
  std::vector<float> result = compandable_numbers(values);
  std::vector<float> scales;
  for (std::size_t begin = 0; begin < result.size(); begin += kGroup512)
    scales.push_back(up_to_quarters(largest_of(std::span<const float>(result).subspan(begin, kGroup512))));
  compand(result, scales);
  return result;
}

constexpr std::array<Candidate, 6> kCandidates{
    {{"gradient", "dither4 g32, scales e4m3 of the segment's", 4.25, dither_with_byte_scales},
     {"gradient", "dither4 g32, scales of 4 bits of a bf16 for 256", 4 + 4.0 / 32 + 16.0 / 256,
      dither_with_half_byte_scales},
     {"gradient", "Gaussian codebook g64 bf16, nearest, random signs", 4.25, gauss_with_random_signs},
     {"gradient", "Gaussian codebook g64 bf16, stochastic", 4.25, gauss_by_chance},
     {"weight", "compand4 g512, scales e4m3 of the segment's", 4 + 8.0 / 512, compand_with_byte_scales},
     {"weight", "compand4 g512, scales of 6 bits of exponent and 2 of fraction", 4 + 8.0 / 512,
      compand_with_quarter_scales}}};

}  // namespace

std::span<const Candidate> candidates() {
  return kCandidates;
}

CandidateLoss measure_candidate(const Candidate& candidate, std::span<const float> values, unsigned draws) {
  constexpr unsigned ranks = 8;
  CandidateLoss loss{};
  double power = 0;
  std::vector<double> mean(values.size());
  for (unsigned rank = 0; rank < ranks; ++rank) {
    const std::vector<float> decoded = candidate.decoded(values, rank);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double error = double{decoded[i]} - double{values[i]};
      loss.error += error * error / ranks;
      mean[i] += error / ranks;
      power += double{values[i]} * double{values[i]} / ranks;
    }
  }
  for (const double error : mean) loss.of_a_mean += error * error / power;
  loss.error /= power;
  if (draws == 0) return loss;
  constexpr std::size_t count = 512;
  const std::vector<float> few = gaussian(count, 3);
  std::vector<double> sum(count), squares(count);
  for (unsigned draw = 0; draw < draws; ++draw) {
    const std::vector<float> decoded = candidate.decoded(few, draw);
    for (std::size_t i = 0; i < count; ++i) {
      const double error = double{decoded[i]} - double{few[i]};
      sum[i] += error;
      squares[i] += error * error;
    }
  }
  for (std::size_t i = 0; i < count; ++i) {
    const double average = sum[i] / draws, variance = squares[i] / draws - average * average;
    if (variance > 0) loss.bias = std::fmax(loss.bias, std::fabs(average) / std::sqrt(variance / draws));
  }
  return loss;
}

}  // namespace sdp4bit::bench
