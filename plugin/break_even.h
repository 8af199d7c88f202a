// From which size on a call gains by being taken: what SDP4BIT_MIN_BYTES=auto stands for on a communicator.
//
// A pure function of the topology, the codecs and the type, in whole numbers, so that every rank gets the
// same one. docs/choosing_settings.md has the model and a table.
#pragma once

#include <array>
#include <cstdint>
#include <limits>

#include "kernels/wire_format.h"
#include "plugin/policy.h"
#include "plugin/topology.h"

namespace sdp4bit {

inline constexpr std::uint64_t kNeverPays = std::numeric_limits<std::uint64_t>::max();

/// Bytes as SDP4BIT_MIN_BYTES counts them: of the input of a ReduceScatter, of the output of an AllGather.
[[nodiscard]] std::uint64_t break_even_bytes(Collective collective, ElementType type,
                                             const Topology& topology, const Config& config);

/// For all functions and types, worked out once a communicator; SDP4BIT_MIN_BYTES where that is a number.
[[nodiscard]] LeastBytes least_bytes(const Topology& topology, const Config& config);

}  // namespace sdp4bit
