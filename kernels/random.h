// Counter-based noise: which 16 random bits belong to which element. Part of the definition of every coded
// message.
//
// Philox4x32 with 7 rounds (Salmon et al., SC 2011). One call serves 8 neighbouring elements. The key says
// who draws (seed, job-wide rank, communicator); the counter says what for (draw, phase, segment, element).
// No two uses share a counter: elements below 2^47, draws below 2^48, kinds below 16.
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
inline constexpr std::size_t kElementsPerNoise = 8;

SDP4BIT_HOST_DEVICE Philox4 philox4x32(Philox4 counter, PhiloxKey key, int rounds) {
  SDP4BIT_UNROLL
  for (int round = 0; round < rounds; ++round) {
    const std::uint64_t first = std::uint64_t{0xD2511F53u} * counter.x0;
    const std::uint64_t second = std::uint64_t{0xCD9E8D57u} * counter.x2;
    counter = {
        static_cast<std::uint32_t>(second >> 32) ^ counter.x1 ^ key.k0, static_cast<std::uint32_t>(second),
        static_cast<std::uint32_t>(first >> 32) ^ counter.x3 ^ key.k1, static_cast<std::uint32_t>(first)};
    key = {key.k0 + 0x9E3779B9u, key.k1 + 0xBB67AE85u};
  }
  return counter;
}

/// The key of one rank on one communicator: the seed's own random function of both.
SDP4BIT_HOST_DEVICE PhiloxKey noise_key(std::uint64_t seed, std::uint32_t rank, std::uint32_t communicator) {
  const Philox4 mixed =
      philox4x32({rank, communicator, 0x73647034u, 0x62697421u},
                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}, 10);
  return {mixed.x0, mixed.x1};
}

/// 128 random bits for the 8 elements that begin at `element`, a multiple of 8, of `segment`.
SDP4BIT_HOST_DEVICE Philox4 noise(PhiloxKey key, std::uint64_t draw, MessageKind kind, std::uint32_t segment,
                                  std::uint64_t element) {
  const std::uint64_t index = element / kElementsPerNoise;
  const std::uint32_t high = static_cast<std::uint32_t>(draw >> 32) << 16 |
                             static_cast<std::uint32_t>(kind) << 12 | static_cast<std::uint32_t>(index >> 32);
  return philox4x32({static_cast<std::uint32_t>(index), segment, static_cast<std::uint32_t>(draw), high}, key,
                    kNoiseRounds);
}

/// The 16 random bits of element `i` (0 to 7) of a noise call.
SDP4BIT_HOST_DEVICE std::uint32_t noise16(const Philox4& bits, unsigned i) {
  const std::uint32_t word = i < 4 ? (i < 2 ? bits.x0 : bits.x1) : (i < 6 ? bits.x2 : bits.x3);
  return i % 2 != 0 ? word >> 16 : word & 0xffffu;
}

}  // namespace sdp4bit
