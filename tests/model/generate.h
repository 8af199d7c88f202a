// A seed's program.
#pragma once

#include "program.h"

namespace sdp4bit::model {

[[nodiscard]] Program generate(std::uint64_t seed);

}  // namespace sdp4bit::model
