// Counter-based noise: which 16 random bits belong to which element. Part of the definition of every coded
// message.
//
// Philox4x32 with 7 rounds (Salmon et al., SC 2011). One call serves the 32 elements of a block. The key says
// who draws (seed, job-wide rank, communicator); the counter says what for (draw, phase, segment, block).
// No two uses share a counter: elements below 2^49, draws below 2^48, kinds below 16.
//
// 128 random bits are stretched to 32 x 16: each half word below is the exclusive or of an odd number of the
// call's eight half words, and no two are the same such sum. Two different sums, and three (three odd numbers
// of halves never cancel), are linearly independent: any three elements' bits are independent of each other
// and uniform. So every mean, variance and covariance, of single errors as of their sums over blocks and
// groups, is that of independent noise. (Fourth moments are not: a sum over a block has heavier tails.)
#pragma once

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/wire_format.h"

namespace sdp4bit {

struct Philox4 {
  std::uint32_t x0, x1, x2, x3;
};
struct PhiloxKey {
  std::uint32_t k0, k1;
};

inline constexpr int kNoiseRounds = 7;

/// A key as each round uses it, for kernels that are given it ready-made.
struct PhiloxSchedule {
  PhiloxKey round[kNoiseRounds];
};
inline constexpr std::size_t kElementsPerNoise = kBlock;

SDP4BIT_HOST_DEVICE Philox4 philox_round(Philox4 counter, PhiloxKey key) {
  const std::uint64_t first = std::uint64_t{0xD2511F53u} * counter.x0;
  const std::uint64_t second = std::uint64_t{0xCD9E8D57u} * counter.x2;
  return {static_cast<std::uint32_t>(second >> 32) ^ counter.x1 ^ key.k0, static_cast<std::uint32_t>(second),
          static_cast<std::uint32_t>(first >> 32) ^ counter.x3 ^ key.k1, static_cast<std::uint32_t>(first)};
}
SDP4BIT_HOST_DEVICE PhiloxKey next_round(PhiloxKey key) {
  return {key.k0 + 0x9E3779B9u, key.k1 + 0xBB67AE85u};
}

SDP4BIT_HOST_DEVICE Philox4 philox4x32(Philox4 counter, PhiloxKey key, int rounds) {
  SDP4BIT_UNROLL
  for (int round = 0; round < rounds; ++round) {
    counter = philox_round(counter, key);
    key = next_round(key);
  }
  return counter;
}

SDP4BIT_HOST_DEVICE PhiloxSchedule noise_schedule(PhiloxKey key) {
  PhiloxSchedule schedule;
  SDP4BIT_UNROLL
  for (int round = 0; round < kNoiseRounds; ++round) {
    schedule.round[round] = key;
    key = next_round(key);
  }
  return schedule;
}

/// The key of one rank on one communicator: the seed's own random function of both.
SDP4BIT_HOST_DEVICE PhiloxKey noise_key(std::uint64_t seed, std::uint32_t rank, std::uint32_t communicator) {
  const Philox4 mixed =
      philox4x32({rank, communicator, 0x73647034u, 0x62697421u},
                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}, 10);
  return {mixed.x0, mixed.x1};
}

/// What the blocks of a segment have in common of the first two rounds: words of the counter after them,
/// without what the block's number puts there.
struct alignas(16) NoiseStart {
  std::uint32_t first_x2;
  std::uint32_t second_x0, second_x2, second_x3;
};
/// The rounds that NoiseStart is of; the later ones take the key alone.
inline constexpr int kRoundsOfStart = 2;

SDP4BIT_HOST_DEVICE NoiseStart noise_start(const PhiloxSchedule& key, std::uint64_t draw, MessageKind kind,
                                           std::uint32_t segment) {
  const std::uint32_t high = static_cast<std::uint32_t>(draw >> 32) << 16 | static_cast<std::uint32_t>(kind)
                                                                                << 12;
  const Philox4 one = philox_round({0, segment, static_cast<std::uint32_t>(draw), high}, key.round[0]);
  const Philox4 two = philox_round({one.x0, one.x1, 0, 0}, key.round[1]);
  return {one.x2, two.x0, two.x2, two.x3};
}

/// What a block brings into the first round, whoever draws.
struct NoiseBlock {
  std::uint32_t x2, x3;
};
SDP4BIT_HOST_DEVICE NoiseBlock noise_block(std::uint64_t block) {
  const Philox4 one = philox_round({static_cast<std::uint32_t>(block), 0, 0, 0}, {0, 0});
  return {one.x2 ^ static_cast<std::uint32_t>(block >> 32), one.x3};
}

/// 128 random bits for the 32 elements of a block: Philox of the counter {low word of the block's number,
/// segment, low word of the draw, all else}. `late`: the keys of the rounds after kRoundsOfStart.
SDP4BIT_HOST_DEVICE Philox4 block_noise(const NoiseStart& start, const PhiloxKey* late,
                                        const NoiseBlock& block) {
  const Philox4 two = philox_round({0, 0, start.first_x2 ^ block.x2, 0}, {0, 0});
  Philox4 bits{two.x0 ^ start.second_x0, two.x1, start.second_x2 ^ block.x3, start.second_x3};
  SDP4BIT_UNROLL
  for (int round = kRoundsOfStart; round < kNoiseRounds; ++round) {
    bits = philox_round(bits, late[round - kRoundsOfStart]);
  }
  return bits;
}

/// The same for the block that begins at `element`.
SDP4BIT_HOST_DEVICE Philox4 noise(PhiloxKey key, std::uint64_t draw, MessageKind kind, std::uint32_t segment,
                                  std::uint64_t element) {
  const PhiloxSchedule schedule = noise_schedule(key);
  return block_noise(noise_start(schedule, draw, kind, segment), schedule.round + kRoundsOfStart,
                     noise_block(element / kElementsPerNoise));
}

/// The random bits of elements 2 * pair (low half) and 2 * pair + 1 (high half) of a block.
SDP4BIT_HOST_DEVICE std::uint32_t noise_word(const Philox4& bits, unsigned pair) {
  const auto [a, b, c, d] = bits;
  const std::uint32_t turned_a = a << 16 | a >> 16;
  const std::uint32_t turned_b = b << 16 | b >> 16;
  switch (pair) {
    case 0:
      return a;
    case 1:
      return b;
    case 2:
      return c;
    case 3:
      return d;
    case 4:
      return a ^ b ^ c;
    case 5:
      return a ^ b ^ d;
    case 6:
      return a ^ c ^ d;
    case 7:
      return b ^ c ^ d;
    case 8:
      return turned_a ^ a ^ c;
    case 9:
      return turned_a ^ a ^ d;
    case 10:
      return turned_a ^ b ^ c;
    case 11:
      return turned_a ^ c ^ d;
    case 12:
      return turned_b ^ a ^ d;
    case 13:
      return turned_b ^ b ^ c;
    case 14:
      return turned_b ^ b ^ d;
    default:
      return turned_b ^ c ^ d;
  }
}

/// The 16 random bits of element `i` (0 to 31) of a block.
SDP4BIT_HOST_DEVICE std::uint32_t noise16(const Philox4& bits, unsigned i) {
  const std::uint32_t word = noise_word(bits, i / 2);
  return i % 2 != 0 ? word >> 16 : word & 0xffffu;
}

}  // namespace sdp4bit
