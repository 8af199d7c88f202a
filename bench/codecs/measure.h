// What a codec loses: error, bias, and the error of a whole ReduceScatter on two levels.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kernels/wire_format.h"

namespace sdp4bit::bench {

/// Bits an element on the wire, scales included, without header and padding.
double bits_per_element(const Codec& codec);

/// As options and the other tables name it: int4-sr g128 fp32.
std::string describe(const Codec& codec);

/// Squared error over squared values, transformed where the codec is, the mean of `draws` codings.
double squared_error(const Codec& codec, std::span<const float> values, unsigned draws);

/// The mean error of each of 256 elements over `draws` codings, in standard errors of that mean: the largest.
/// Of 256 of a normal distribution one is 2.8 on average, and above 4 in 1.6 % of all trials. Infinite where
/// the codec draws nothing.
double largest_bias(const Codec& codec, unsigned draws);

/// Squared error over squared sum of a ReduceScatter of Gaussian numbers: 8 ranks a node and 4 nodes, coded
/// as the kernels do it (the own segment is never coded).
double two_level_error(const Codec& in_node, const Codec& between, std::size_t count);

}  // namespace sdp4bit::bench
