// What becomes of the calls of a communicator that is taken, in words for the log.
#pragma once

#include <string>

#include "plugin/options.h"
#include "plugin/topology.h"

namespace sdp4bit {

/// Such as "gradients 4 bits between nodes, 8 in a node; weight differences 4 bits; preset default: dither4
/// between nodes, int8-sr in a node, groups of 64; compand4, groups of 1024; bf16 scales".
/// `gradients_native`: a framework leaves garbage in their padding.
[[nodiscard]] std::string plan_text(const Topology& topology, const Config& config, bool gradients_native);

}  // namespace sdp4bit
