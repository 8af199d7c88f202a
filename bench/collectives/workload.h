// The data: a pure function of seed, rank, index and step, so that every rank knows what every other one
// holds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace collectives {

// Gradients: independent standard normal values.
void fill_gradient(std::uint64_t seed, int rank, std::size_t first_index, std::span<float> values);

// Weights before the first step: normal, with the spread of a trained layer (0.02).
void fill_weights(std::uint64_t seed, int rank, std::span<float> values);

// Moves weights one optimizer step on: each by about 1/200 of the weights' spread.
void advance_weights(std::uint64_t seed, int rank, std::uint64_t step, std::span<float> values);

}  // namespace collectives
