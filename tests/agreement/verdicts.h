// The verdict of a handshake, by the library's own records and judge.
#pragma once

#include <cstdint>

#include "plugin/handshake.h"
#include "world.h"

namespace agreement {

struct ShortVerdict {
  sdp4bit::Agreement agreement = sdp4bit::Agreement::off;
  bool abort = false;
  sdp4bit::Carried carried;
};

/// The options of a rank.
[[nodiscard]] const sdp4bit::Config& config_of(const Rank& rank);
/// What a rank concludes from what all have said. `all_held`: by mistake, all say that they have memory.
[[nodiscard]] ShortVerdict verdict_of(const World& world, std::uint32_t rank, bool all_held);

}  // namespace agreement
