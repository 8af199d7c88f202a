// What SDP4BIT_PRESET stands for: sets of defaults of the six variables that choose codecs.
#pragma once

#include <string>

#include "plugin/options.h"

namespace sdp4bit {

inline constexpr const char* kPresetName = "SDP4BIT_PRESET";

/// Gives those six variables the values of a preset; all others stay.
void apply_preset(Preset preset, Config& config);

/// Such as "default", or "paper, changed" where variables of its six were set otherwise.
[[nodiscard]] std::string preset_text(const Config& config);

}  // namespace sdp4bit
