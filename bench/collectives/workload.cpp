// The data: a pure function of seed, rank, index and step, so that every rank knows what every other one
// holds.
#include "workload.h"

#include <cmath>
#include <numbers>

namespace collectives {
namespace {

constexpr float kWeightSpread = 0.02f;
constexpr float kStepSpread = kWeightSpread / 200;

// A 64-bit finalizer (xor, shift, multiply): all output bits depend on all input bits.
std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93u;
  x ^= x >> 32;
  return x;
}

// The key of one stream of random numbers: which data, whose, of which step.
std::uint64_t stream_key(std::uint64_t seed, int rank, std::uint64_t purpose) {
  return mix(mix(seed + 0x9e3779b97f4a7c15u) + static_cast<std::uint64_t>(rank) * 0xbf58476d1ce4e5b9u +
             purpose * 0x94d049bb133111ebu);
}

// Standard normal by Box and Muller.
float normal(std::uint64_t bits) {
  const float u = (static_cast<float>(bits >> 40) + 0.5f) * 0x1p-24f;
  const float angle = static_cast<float>(bits & 0xffffffu) * 0x1p-24f * 2 * std::numbers::pi_v<float>;
  return std::sqrt(-2 * std::log(u)) * std::cos(angle);
}

// Mean 0, variance 1, bell-shaped: the sum of four uniform values. Steps need no tails, and there are many of
// them.
float bell(std::uint64_t bits) {
  const auto sum = (bits & 0xffff) + (bits >> 16 & 0xffff) + (bits >> 32 & 0xffff) + (bits >> 48);
  return (static_cast<float>(sum) * 0x1p-16f - 2) * std::numbers::sqrt3_v<float>;
}

constexpr std::uint64_t kGradients = 0, kWeights = 1, kFirstStep = 2;

}  // namespace

void fill_gradient(std::uint64_t seed, int rank, std::size_t first_index, std::span<float> values) {
  const std::uint64_t key = stream_key(seed, rank, kGradients);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = normal(mix(key + first_index + i));
}

void fill_weights(std::uint64_t seed, int rank, std::span<float> values) {
  const std::uint64_t key = stream_key(seed, rank, kWeights);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = kWeightSpread * normal(mix(key + i));
}

void advance_weights(std::uint64_t seed, int rank, std::uint64_t step, std::span<float> values) {
  const std::uint64_t key = stream_key(seed, rank, kFirstStep + step);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += kStepSpread * bell(mix(key + i));
}

}  // namespace collectives
