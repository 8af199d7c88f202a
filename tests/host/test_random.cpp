// The noise: known answers, uniform, and independent in every part of its key.
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <set>
#include <vector>

#include "catch.h"
#include "kernels/random.h"

namespace {

using namespace sdp4bit;

struct Source {
  std::uint64_t seed = 1;
  std::uint32_t rank = 0;
  std::uint32_t communicator = 0;
  std::uint64_t draw = 0;
  MessageKind kind = MessageKind::gradient_in_node;
  std::uint32_t segment = 0;
  std::uint64_t first = 0;
};

std::vector<float> draw_uniforms(const Source& source, std::size_t count) {
  const PhiloxKey key = noise_key(source.seed, source.rank, source.communicator);
  std::vector<float> values;
  for (std::size_t element = 0; element < count; element += kElementsPerNoise) {
    const Philox4 bits = noise(key, source.draw, source.kind, source.segment, source.first + element);
    for (unsigned i = 0; i < kElementsPerNoise; ++i)
      values.push_back(static_cast<float>(noise16(bits, i)) * 0x1p-16f);
  }
  return values;
}

double correlation(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - 0.5) * (b[i] - 0.5);
  return sum / static_cast<double>(a.size()) * 12;
}

}  // namespace

TEST_CASE("Random.PhiloxGivesThePublishedAnswers") {
  // Known answers of Random123 (kat_vectors): philox4x32 with 7 and 10 rounds.
  const auto same = [](Philox4 a, Philox4 b) {
    return a.x0 == b.x0 && a.x1 == b.x1 && a.x2 == b.x2 && a.x3 == b.x3;
  };
  CHECK(same(philox4x32({0, 0, 0, 0}, {0, 0}, 7), {0x5f6fb709u, 0x0d893f64u, 0x4f121f81u, 0x4f730a48u}));
  CHECK(same(philox4x32({0, 0, 0, 0}, {0, 0}, 10), {0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u}));
  CHECK(same(philox4x32({0xffffffffu, 0xffffffffu, 0xffffffffu, 0xffffffffu}, {0xffffffffu, 0xffffffffu}, 10),
             {0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu}));
}

TEST_CASE("Random.ABlocksNoiseIsPhiloxOfItsCounter") {
  // What kernels keep ready of the first rounds changes no bit.
  const PhiloxKey key = noise_key(7, 3, 11);
  for (const std::uint64_t block : {0ull, 1ull, 0xffffffffull, 0x5'1234'5678ull, 0x7ff'ffff'ffffull}) {
    for (const std::uint64_t draw : {0ull, 0xffff'ffffull, 0xabcd'0123'4567ull}) {
      for (const std::uint32_t segment : {0u, 5u, 0x80000001u}) {
        const auto kind = MessageKind::gradient_between_nodes;
        const auto high = static_cast<std::uint32_t>(draw >> 32) << 16 |
                          static_cast<std::uint32_t>(kind) << 12 | static_cast<std::uint32_t>(block >> 32);
        const Philox4 direct =
            philox4x32({static_cast<std::uint32_t>(block), segment, static_cast<std::uint32_t>(draw), high},
                       key, kNoiseRounds);
        const Philox4 bits = noise(key, draw, kind, segment, block * kElementsPerNoise + 31);
        CHECK(std::array{bits.x0, bits.x1, bits.x2, bits.x3} ==
              std::array{direct.x0, direct.x1, direct.x2, direct.x3});
      }
    }
  }
}

TEST_CASE("Random.UniformsAreSixteenBitsInZeroToOne") {
  const std::vector<float> values = draw_uniforms({}, 1 << 18);
  std::array<unsigned, 256> histogram{};
  double sum = 0;
  for (const float value : values) {
    REQUIRE((value >= 0.0f && value < 1.0f));
    REQUIRE(value * 65536.0f == std::floor(value * 65536.0f));
    ++histogram[static_cast<std::size_t>(value * 256.0f)];
    sum += value;
  }
  const double expected = static_cast<double>(values.size()) / 256;
  double chi_squared = 0;
  for (const unsigned bin : histogram) chi_squared += (bin - expected) * (bin - expected) / expected;
  CHECK(chi_squared > 255 - 4 * std::sqrt(2 * 255.0));
  CHECK(chi_squared < 255 + 4 * std::sqrt(2 * 255.0));
  const double mean = sum / static_cast<double>(values.size());
  CHECK(std::abs(mean - (0.5 - 0x1p-17)) < 4 * std::sqrt(1 / 12.0 / static_cast<double>(values.size())));
}

TEST_CASE("Random.EveryPartOfTheKeyGivesIndependentNoise") {
  constexpr std::size_t count = 1 << 15;
  const std::vector<float> base = draw_uniforms({}, count);
  std::vector<Source> others;
  for (const std::uint32_t i : {1u, 2u, 255u, 0x10000u}) {
    others.push_back({.seed = 1 + i});
    others.push_back({.rank = i});
    others.push_back({.communicator = i});
    others.push_back({.draw = i});
    others.push_back({.segment = i});
    others.push_back({.first = std::uint64_t{i} * count});
  }
  others.push_back({.seed = std::uint64_t{1} << 32 | 1});
  others.push_back({.draw = std::uint64_t{1} << 32});
  others.push_back({.kind = MessageKind::gradient_between_nodes});
  others.push_back({.kind = MessageKind::weight_difference});
  others.push_back({.first = std::uint64_t{1} << 37});  // beyond 32 bits of noise calls
  others.push_back({.first = std::uint64_t{1} << 48});
  for (const Source& other : others) {
    const std::vector<float> values = draw_uniforms(other, count);
    std::size_t equal = 0;
    for (std::size_t i = 0; i < count; ++i) equal += base[i] == values[i];
    CHECK(equal < 8);  // 0.5 expected
    CHECK(std::abs(correlation(base, values)) < 4 / std::sqrt(static_cast<double>(count)));
  }
}

TEST_CASE("Random.NeighbouringElementsAreIndependent") {
  const std::vector<float> values = draw_uniforms({}, 1 << 17);
  for (std::size_t lag = 1; lag <= 33; ++lag) {
    const std::vector<float> early(values.begin(), values.end() - static_cast<std::ptrdiff_t>(lag));
    const std::vector<float> late(values.begin() + static_cast<std::ptrdiff_t>(lag), values.end());
    CHECK(std::abs(correlation(early, late)) < 4.5 / std::sqrt(static_cast<double>(late.size())));
  }
}

TEST_CASE("Random.AnyThreeElementsOfABlockAreExactlyIndependent") {
  // Their bits are exclusive ors of a call's 128 bits: rows of a matrix, read off at the unit vectors. Three
  // elements are uniform and independent if their 48 rows have full rank.
  std::array<std::array<std::array<std::uint64_t, 2>, 16>, kElementsPerNoise> rows{};
  for (unsigned column = 0; column < 128; ++column) {
    std::array<std::uint32_t, 4> words{};
    words[column / 32] = 1u << column % 32;
    for (unsigned i = 0; i < kElementsPerNoise; ++i) {
      const std::uint32_t bits = noise16({words[0], words[1], words[2], words[3]}, i);
      for (unsigned bit = 0; bit < 16; ++bit) {
        rows[i][bit][column / 64] |= std::uint64_t{bits >> bit & 1} << column % 64;
      }
    }
  }
  const auto rank_of = [&](std::array<unsigned, 3> elements) {
    std::vector<std::array<std::uint64_t, 2>> reduced;
    for (const unsigned element : elements) {
      for (std::array<std::uint64_t, 2> row : rows[element]) {
        for (const auto& other : reduced) {
          const std::size_t part = other[1] != 0;
          if (row[part] >> (63 - std::countl_zero(other[part])) & 1)
            row = {row[0] ^ other[0], row[1] ^ other[1]};
        }
        if (row[0] != 0 || row[1] != 0) reduced.push_back(row);
      }
    }
    return reduced.size();
  };
  unsigned dependent = 0;
  for (unsigned i = 0; i < kElementsPerNoise; ++i) {
    for (unsigned j = 0; j < i; ++j) {
      for (unsigned k = 0; k < j; ++k) dependent += rank_of({i, j, k}) != 48;
    }
  }
  CHECK(dependent == 0);
}

TEST_CASE("Random.SumsOverBlocksAndGroupsVaryAsThoseOfIndependentNoise") {
  // Also with alternating signs, as an inverse transform adds them.
  const std::vector<float> values = draw_uniforms({}, 1 << 21);
  for (const std::size_t length : {std::size_t{2}, std::size_t{8}, std::size_t{32}, std::size_t{128}}) {
    for (const unsigned row : {0u, 1u, 5u, 16u, 31u}) {
      double squares = 0, fourths = 0, total = 0;
      for (std::size_t begin = 0; begin < values.size(); begin += length) {
        double sum = 0;
        for (std::size_t i = begin; i < begin + length; ++i) {
          const double centred = double{values[i]} - (0.5 - 0x1p-17);
          sum += std::popcount(static_cast<unsigned>(i) & row) % 2 == 0 ? centred : -centred;
        }
        squares += sum * sum;
        fourths += sum * sum * sum * sum;
        total += sum;
      }
      const double samples = static_cast<double>(values.size() / length);
      const double variance = static_cast<double>(length) / 12;
      const double error = std::sqrt((fourths / samples - variance * variance) / samples);
      CHECK(std::abs(squares / samples - variance) < 4.5 * error);
      CHECK(error < 0.01 * std::sqrt(static_cast<double>(length) / 8) * variance);
      CHECK(std::abs(total) < 4.5 * std::sqrt(samples * variance));
    }
  }
}

TEST_CASE("Random.RanksOfOneSeedHaveDifferentKeys") {
  std::set<std::uint64_t> keys;
  for (std::uint32_t rank = 0; rank < 512; ++rank) {
    for (std::uint32_t communicator = 0; communicator < 32; ++communicator) {
      const PhiloxKey key = noise_key(1, rank, communicator);
      keys.insert(std::uint64_t{key.k1} << 32 | key.k0);
    }
  }
  CHECK(keys.size() == 512 * 32);
}
