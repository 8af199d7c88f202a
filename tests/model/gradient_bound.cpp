// Bounds in double arithmetic, group by group; see gradient_bound.h.
#include "gradient_bound.h"

#include <algorithm>
#include <cmath>

namespace sdp4bit::model {
namespace {

constexpr std::size_t kBlock = 32;
constexpr double kBfloat16Up = 1.0 + 0x1p-7;  // scales are rounded up
constexpr double kRoundoff = 0x1p-18;  // of sums in fp32, relative to all magnitudes that went into them

/// In place, unnormalized.
void transform(Values& values) {
  for (std::size_t begin = 0; begin < values.size(); begin += kBlock) {
    for (std::size_t half = 1; half < kBlock; half *= 2) {
      for (std::size_t i = 0; i < kBlock; ++i) {
        if (i & half) continue;
        double &a = values[begin + i], &b = values[begin + i + half];
        const double sum = a + b, difference = a - b;
        a = sum;
        b = difference;
      }
    }
  }
}

/// One rank's part of the owner's segment, as it is coded: scaled, padded, transformed. NaN counts as zero
/// here.
Values coded(const Call& call, bool hadamard, const Values& input, int owner) {
  Values part((call.count + kBlock - 1) / kBlock * kBlock, 0.0);
  for (std::size_t i = 0; i < call.count; ++i) {
    const double value = input[static_cast<std::size_t>(owner) * call.count + i];
    part[i] = std::isfinite(value) ? value : 0.0;
    if (call.reduction == Reduction::scaled) part[i] *= call.factor;
  }
  if (hadamard) transform(part);
  return part;
}

Values group_maxima(const Values& values, std::size_t group) {
  Values maxima((values.size() + group - 1) / group, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i)
    maxima[i / group] = std::max(maxima[i / group], std::abs(values[i]));
  return maxima;
}

/// Most that one coding is off, for a group whose largest magnitude is at most `largest`.
double step(double largest, const CodecSettings& codec, bool bfloat16_scale) {
  return largest * codec.largest_error() * (bfloat16_scale ? kBfloat16Up : 1.0);
}

double out_factor(const Call& call, std::size_t ranks) {
  return call.reduction == Reduction::avg ? 1.0 / static_cast<double>(ranks) : 1.0;
}

Values exact_output(const Call& call, const std::vector<Values>& inputs, int owner) {
  Values exact(call.count);
  for (std::size_t i = 0; i < call.count; ++i) {
    const std::size_t place = static_cast<std::size_t>(owner) * call.count + i;
    double result = call.reduction == Reduction::max ? inputs[0][place] : 0.0;
    for (const Values& input : inputs) {
      const double value = input[place] * (call.reduction == Reduction::scaled ? call.factor : 1.0);
      if (call.reduction == Reduction::max) {
        result = std::isnan(value) || std::isnan(result) ? std::nan("") : std::max(result, value);
      } else {
        result += value;
      }
    }
    exact[i] = result * out_factor(call, inputs.size());
  }
  return exact;
}

}  // namespace

GradientBound compressed_bound(const Call& call, const Settings& settings, const Nodes& nodes,
                               const std::vector<Values>& inputs, int owner) {
  const std::size_t group = settings.gradient_group;
  const auto own = static_cast<std::size_t>(owner);
  GradientBound bound{.exact = exact_output(call, inputs, owner), .error = Values(call.count), .expect = {}};
  std::vector<Values> parts;
  for (const Values& input : inputs) parts.push_back(coded(call, settings.hadamard, input, owner));
  const std::size_t groups = (parts[0].size() + group - 1) / group;

  Values error(groups, 0.0);  // of the coded sum
  const auto add_coding = [&](Values& to, const Values& maxima, const CodecSettings& codec) {
    for (std::size_t g = 0; g < groups; ++g) to[g] += step(maxima[g], codec, settings.bfloat16_scale);
  };
  const bool two_levels = nodes.equal && nodes.count() > 1 && nodes.members[0].size() > 1;
  if (!two_levels) {
    const CodecSettings& codec = nodes.count() == 1 ? settings.in_node : settings.between_nodes;
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
      if (rank != own) add_coding(error, group_maxima(parts[rank], group), codec);
    }
  } else {
    for (std::size_t node = 0; node < nodes.count(); ++node) {
      const int reducer = nodes.members[node][nodes.place_in_node(owner)];
      Values partial(parts[0].size(), 0.0), partial_error(groups, 0.0);
      for (const int rank : nodes.members[node]) {
        const Values& part = parts[static_cast<std::size_t>(rank)];
        for (std::size_t i = 0; i < part.size(); ++i) partial[i] += part[i];
        if (rank != reducer) add_coding(partial_error, group_maxima(part, group), settings.in_node);
      }
      Values maxima = group_maxima(partial, group);
      for (std::size_t g = 0; g < groups; ++g) {
        error[g] += partial_error[g];
        maxima[g] += partial_error[g];
      }
      if (static_cast<int>(node) != nodes.node_of[own]) add_coding(error, maxima, settings.between_nodes);
    }
  }

  Values magnitude(groups, 0.0);
  for (const Values& part : parts) {
    const Values maxima = group_maxima(part, group);
    for (std::size_t g = 0; g < groups; ++g) magnitude[g] += maxima[g];
  }
  for (std::size_t i = 0; i < call.count; ++i) {
    const std::size_t g = i / group;
    bound.error[i] = (error[g] * (1 + 0x1p-16) + magnitude[g] * kRoundoff) * out_factor(call, inputs.size());
    const double largest = std::abs(std::isfinite(bound.exact[i]) ? bound.exact[i] : 0) + bound.error[i];
    bound.error[i] += half_ulp(call.type, largest);
  }

  bound.expect.assign(call.count, Expect::number);
  for (std::size_t rank = 0; rank < inputs.size(); ++rank) {
    for (std::size_t i = 0; i < call.count; ++i) {
      if (std::isfinite(inputs[rank][own * call.count + i])) continue;
      // What the owner itself gives is never coded: only the transform spreads it.
      const bool whole = rank != own;
      const std::size_t unit = whole ? group : settings.hadamard ? kBlock : 1;
      const std::size_t first = i / unit * unit, end = std::min(first + unit, call.count);
      for (std::size_t j = first; j < end; ++j) {
        if (j == i || whole) bound.expect[j] = Expect::nan;
        if (bound.expect[j] == Expect::number) bound.expect[j] = Expect::either;
      }
    }
  }
  return bound;
}

GradientBound moved_bound(const Values& input) {
  GradientBound bound{.exact = input, .error = Values(input.size(), 0.0), .expect = {}};
  for (const double value : input) bound.expect.push_back(std::isnan(value) ? Expect::nan : Expect::number);
  return bound;
}

GradientBound native_bound(const Call& call, const std::vector<Values>& inputs, int owner) {
  GradientBound bound{
      .exact = exact_output(call, inputs, owner), .error = Values(call.count, 0.0), .expect = {}};
  bound.expect.assign(call.count, Expect::number);
  for (std::size_t i = 0; i < call.count; ++i) {
    if (std::isnan(bound.exact[i])) {
      // NCCL does not say what the largest of a number and a NaN is.
      bound.expect[i] = call.reduction == Reduction::max ? Expect::either : Expect::nan;
      continue;
    }
    double sum = 0;
    for (const Values& input : inputs)
      sum += std::abs(input[static_cast<std::size_t>(owner) * call.count + i]);
    // Whole numbers and their sums are exact in every type; a mean is rounded, perhaps from a rounded factor.
    const bool whole = call.data == Data::whole && call.reduction != Reduction::avg;
    const double roundings = call.data == Data::whole ? 2 : 2 * static_cast<double>(inputs.size());
    if (!whole && call.reduction != Reduction::max) bound.error[i] = roundings * half_ulp(call.type, sum);
    if (whole) bound.error[i] = half_ulp(call.type, bound.exact[i]) * (call.factor == 0.375 ? 1 : 0);
  }
  return bound;
}

}  // namespace sdp4bit::model
