// Measures with the reference of the codecs, which is the definition of what kernels write.
#include "measure.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "data.h"
#include "kernels/compand.h"
#include "kernels/element.h"
#include "kernels/hadamard.h"
#include "kernels/index.h"
#include "kernels/reference_codec.h"

namespace sdp4bit::bench {
namespace {

/// Blocks of 32 transformed, as at the entry of a kernel.
std::vector<float> entered(const Codec& codec, std::span<const float> values) {
  std::vector<float> padded(values.begin(), values.end());
  padded.resize(padded_count(values.size()));
  if (!codec.hadamard) return padded;
  for (std::size_t begin = 0; begin < padded.size(); begin += kBlock) {
    float block[kBlock];
    std::copy_n(padded.data() + begin, kBlock, block);
    hadamard32(block);
    std::copy_n(block, kBlock, padded.data() + begin);
  }
  return padded;
}

/// What a receiver decodes of numbers that have entered.
std::vector<float> coded(const Codec& codec, const std::vector<float>& padded, unsigned rank,
                         std::uint64_t draw, MessageKind kind = MessageKind::gradient_between_nodes) {
  std::vector<float> values = padded;
  if (codec.coding == Coding::companded) std::ranges::transform(values, values.begin(), compandable);
  std::vector<std::byte> segment(segment_bytes(padded.size(), codec));
  const reference::SegmentNoise noise{.key = noise_key(1, rank, 0), .draw = draw, .kind = kind};
  reference::encode_segment(segment.data(), values, values.size(), codec, noise);
  return reference::decode_segment(segment.data(), padded.size(), codec, noise);
}

bool draws_noise(const Codec& codec) {
  return codec.coding == Coding::stochastic || codec.coding == Coding::dithered;
}

/// To bfloat16 and back: what a program's gradients are.
void round_to_bfloat16(std::vector<float>& values) {
  for (float& value : values) value = to_float(from_float<BFloat16>(value));
}

}  // namespace

double bits_per_element(const Codec& codec) {
  return codec.bits + 8.0 * static_cast<double>(scale_bytes(codec.scale)) / codec.group_size;
}

std::string describe(const Codec& codec) {
  const std::string bits = std::to_string(codec.bits);
  const bool gradient = codec.hadamard;
  std::string name;
  switch (codec.coding) {
    case Coding::nearest:
      name = "int" + bits + (gradient ? "-rn" : "");
      break;
    case Coding::stochastic:
      name = "int" + bits + "-sr";
      break;
    case Coding::dithered:
      name = "dither" + bits;
      break;
    case Coding::companded:
      name = "compand" + bits;
      break;
  }
  return name + " g" + std::to_string(codec.group_size) +
         (codec.scale == ScaleType::float32 ? " fp32" : " bf16");
}

double squared_error(const Codec& codec, std::span<const float> values, unsigned draws) {
  const std::vector<float> padded = entered(codec, values);
  double error = 0, power = 0;
  for (unsigned draw = 0; draw < (draws_noise(codec) ? draws : 1); ++draw) {
    const std::vector<float> decoded = coded(codec, padded, 0, draw);
    for (std::size_t i = 0; i < padded.size(); ++i) {
      const double difference = double{decoded[i]} - double{padded[i]};
      error += difference * difference;
      power += double{padded[i]} * double{padded[i]};
    }
  }
  return error / power;
}

double largest_bias(const Codec& codec, unsigned draws) {
  if (!draws_noise(codec)) return std::numeric_limits<double>::infinity();
  constexpr std::size_t count = 256;
  const std::vector<float> padded = entered(codec, gaussian(count, 3));
  std::vector<double> sum(count), squares(count);
  for (unsigned draw = 0; draw < draws; ++draw) {
    const std::vector<float> decoded = coded(codec, padded, 0, draw);
    for (std::size_t i = 0; i < count; ++i) {
      const double error = double{decoded[i]} - double{padded[i]};
      sum[i] += error;
      squares[i] += error * error;
    }
  }
  double largest = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const double mean = sum[i] / draws;
    const double variance = squares[i] / draws - mean * mean;
    // A number on a level is coded without error.
    if (variance > 0) largest = std::fmax(largest, std::fabs(mean) / std::sqrt(variance / draws));
  }
  return largest;
}

double two_level_error(const Codec& in_node, const Codec& between, std::size_t count) {
  constexpr unsigned nodes = 4, local_ranks = 8;
  std::vector<double> exact(count);
  std::vector<double> reduced(count);
  for (unsigned node = 0; node < nodes; ++node) {
    std::vector<float> partial(count, 0.0f);
    for (unsigned local = 0; local < local_ranks; ++local) {
      const unsigned rank = node * local_ranks + local;
      std::vector<float> values = gaussian(count, 100 + rank);
      round_to_bfloat16(values);
      const std::vector<float> padded = entered(in_node, values);
      for (std::size_t i = 0; i < count; ++i) exact[i] += padded[i];
      const std::vector<float> seen =
          local == 0 ? padded : coded(in_node, padded, rank, 0, MessageKind::gradient_in_node);
      for (std::size_t i = 0; i < count; ++i) partial[i] += seen[i];
    }
    const std::vector<float> seen = node == 0 ? partial : coded(between, partial, node * local_ranks, 0);
    for (std::size_t i = 0; i < count; ++i) reduced[i] += seen[i];
  }
  double error = 0, power = 0;
  for (std::size_t i = 0; i < count; ++i) {
    error += (reduced[i] - exact[i]) * (reduced[i] - exact[i]);
    power += exact[i] * exact[i];
  }
  return error / power;
}

}  // namespace sdp4bit::bench
