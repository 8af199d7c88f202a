// States that go on alike have equal fingerprints: calls are counted from the present one.
#pragma once

#include <cstdint>

#include "world.h"

namespace agreement {

/// 128 bits: with 2^27 states the chance that any two share one is below 2^-74.
struct Fingerprint {
  std::uint64_t low = 0, high = 0;
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};
/// `ends`: lives end after some groups, so that they count.
[[nodiscard]] Fingerprint fingerprint(const World& world, bool ends);

}  // namespace agreement
