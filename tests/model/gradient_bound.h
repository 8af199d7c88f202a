// How far a compressed ReduceScatter may be from the exact one: what follows from the groups and scales of
// the call.
#pragma once

#include <vector>

#include "settings.h"
#include "values.h"

namespace sdp4bit::model {

enum class Expect { number, nan, either };

struct GradientBound {
  Values exact;                // before rounding to the type
  Values error;                // most that the output may be off
  std::vector<Expect> expect;  // where a NaN has to be, may be, must not be
};

/// Of the output of `owner`; `inputs` are all ranks' whole inputs.
[[nodiscard]] GradientBound compressed_bound(const Call& call, const Settings& settings, const Nodes& nodes,
                                             const std::vector<Values>& inputs, int owner);
/// What is only moved.
[[nodiscard]] GradientBound moved_bound(const Values& input);
/// NCCL's own: exact up to rounding.
[[nodiscard]] GradientBound native_bound(const Call& call, const std::vector<Values>& inputs, int owner);

}  // namespace sdp4bit::model
