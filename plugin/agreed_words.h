// What the published words of a call mean for all ranks.
#pragma once

#include "kernels/launch_weight.h"
#include "plugin/weight_class.h"

namespace sdp4bit {

[[nodiscard]] AgreedWords agreed_words(const CallWords& words);

}  // namespace sdp4bit
