// How far an output may be from the exact one: a bound that follows from the format and the data alone.
#include <algorithm>
#include <cmath>

#include "gradient_case.h"
#include "kernels/codec.h"
#include "kernels/hadamard.h"

namespace sdp4bit::test {
namespace {

/// One sender's part of a segment as it is coded: scaled, padded, transformed.
std::vector<double> coded_values(const GradientCase& gradient, int sender, int owner, int ranks,
                                 bool hadamard) {
  const std::vector<float> input = to_floats(gradient.type, input_of(gradient, sender, ranks));
  std::vector<float> values(padded_count(gradient.count), 0.0f);
  for (std::size_t i = 0; i < gradient.count; ++i) {
    values[i] = input[static_cast<std::size_t>(owner) * gradient.count + i] * entry_factor(gradient);
  }
  for (std::size_t begin = 0; hadamard && begin < values.size(); begin += kBlock) {
    float block[kBlock];
    std::copy_n(values.data() + begin, kBlock, block);
    hadamard32(block);
    std::copy_n(block, kBlock, values.data() + begin);
  }
  return {values.begin(), values.end()};
}

double largest_magnitude(const std::vector<double>& values, std::size_t begin, std::size_t end) {
  double largest = 0;
  for (std::size_t i = begin; i < end; ++i) largest = std::max(largest, std::abs(values[i]));
  return largest;
}

/// The largest error of one coded value in a group of this maximum.
double step_of(double maximum, const Codec& codec) {
  const double steps = static_cast<double>(scale_steps(codec.coding, codec.bits));
  const double scale = maximum / steps * (1 + (codec.scale == ScaleType::bfloat16 ? 0x1p-7 : 0x1p-23));
  // A stochastic code is off by less than a step, a dithered one by half, a nearest one by half; the hair is
  // that of t's rounding.
  return codec.coding == Coding::stochastic ? scale : scale * (0.5 + 0x1p-14);
}

double half_ulp(ElementType type, double value) {
  const int bits = type == ElementType::bfloat16 ? 8 : type == ElementType::float16 ? 11 : 24;
  const int smallest = type == ElementType::float16 ? -14 : -126;
  int exponent = 0;
  (void)std::frexp(value, &exponent);
  return std::ldexp(0.5, std::max(exponent - 1, smallest) - (bits - 1));
}

}  // namespace

std::vector<double> largest_errors(const GradientCase& gradient, const std::vector<int>& node_of, int rank,
                                   const Wire& wire) {
  const auto [nodes, local_ranks] = levels_of(node_of);
  const auto ranks = static_cast<int>(node_of.size());
  const bool hadamard = wire.in_node.hadamard;
  const std::size_t group = wire.in_node.group_size;
  std::vector<std::vector<double>> parts;
  for (int sender = 0; sender < ranks; ++sender) {
    parts.push_back(coded_values(gradient, sender, rank, ranks, hadamard));
  }
  const std::vector<double> exact = exact_output(gradient, rank, ranks);
  const auto own_node = static_cast<std::uint32_t>(rank) / local_ranks;
  const std::size_t padded = padded_count(gradient.count);
  const double out_factor = gradient.op == Op::avg ? 1.0 / ranks : 1.0;

  std::vector<double> errors(gradient.count);
  for (std::size_t begin = 0; begin < padded; begin += group) {
    const std::size_t end = std::min(begin + group, padded);
    double error = 0, magnitudes = 0;
    for (std::uint32_t node = 0; node < nodes; ++node) {
      std::vector<double> partial(padded, 0.0);
      double error_in_node = 0;
      for (std::uint32_t local = 0; local < local_ranks; ++local) {
        const auto sender = static_cast<int>(node * local_ranks + local);
        const std::vector<double>& part = parts[static_cast<std::size_t>(sender)];
        const double maximum = largest_magnitude(part, begin, end);
        magnitudes += maximum;
        for (std::size_t i = begin; i < end; ++i) partial[i] += part[i];
        // Between nodes the rank of the own column codes what its node has summed; in the own node every
        // other rank codes.
        const bool own_column = local == static_cast<std::uint32_t>(rank) % local_ranks;
        if (!own_column) error_in_node += step_of(maximum, wire.in_node);
      }
      error += error_in_node;
      if (node == own_node) continue;
      error += step_of(largest_magnitude(partial, begin, end) + error_in_node, wire.between_nodes);
    }
    // A few dozen sums in fp32.
    error += 64 * 0x1p-24 * magnitudes;
    // The inverse transform adds 32 errors with their signs and divides by 32; a block lies in one group.
    for (std::size_t i = begin; i < std::min(end, gradient.count); ++i) {
      errors[i] = error * out_factor;
      errors[i] += half_ulp(gradient.type, std::abs(exact[i]) + errors[i]);
    }
  }
  return errors;
}

}  // namespace sdp4bit::test
