// The transform: its matrix, its inverse, and what it does with what is not finite.
#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "catch.h"
#include "kernels/hadamard.h"

using sdp4bit::hadamard32;
using sdp4bit::inverse_hadamard32;

TEST_CASE("Hadamard.IsTheSylvesterMatrix") {
  for (unsigned column = 0; column < 32; ++column) {
    float value[32] = {};
    value[column] = 1.0f;
    hadamard32(value);
    for (unsigned row = 0; row < 32; ++row) {
      REQUIRE(value[row] == (std::popcount(row & column) % 2 == 0 ? 1.0f : -1.0f));
    }
  }
}

TEST_CASE("Hadamard.InverseRestoresIntegersExactly") {
  std::mt19937 generator(1);
  std::uniform_int_distribution<int> integers(-1000, 1000);
  float value[32];
  float original[32];
  for (unsigned i = 0; i < 32; ++i) value[i] = original[i] = static_cast<float>(integers(generator));
  hadamard32(value);
  inverse_hadamard32(value);
  for (unsigned i = 0; i < 32; ++i) CHECK(value[i] == original[i]);
}

TEST_CASE("Hadamard.OneNanReachesTheWholeBlock") {
  float value[32] = {};
  value[17] = std::numeric_limits<float>::quiet_NaN();
  hadamard32(value);
  for (const float result : value) CHECK(std::isnan(result));
}
