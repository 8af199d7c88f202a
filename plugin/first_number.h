// What counters begin with: zero, unless a test has put another definition in the place of this one.
//
// A job of a day makes some 10^8 calls, and numbers have 64 bits; a test that begins near 2^32 shows that
// none is cut to 32 on its way through headers, kernels, records and files.
#pragma once

#include <cstdint>

namespace sdp4bit {

/// Numbers of groups, of a communicator's calls, draws, looks, records and checksums, of a class's calls, and
/// counters of statistics. Equal on all ranks.
[[nodiscard]] std::uint64_t first_number() noexcept;

}  // namespace sdp4bit
