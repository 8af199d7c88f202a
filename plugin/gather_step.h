// What becomes of a gather, by what its class is: pure, and the same on every rank.
#pragma once

#include <cstdint>
#include <optional>

#include "plugin/weight_class.h"

namespace sdp4bit {

enum class GatherKind : std::uint8_t {
  native,             // passed on, nothing else
  native_and_record,  // passed on, and a record follows behind the group
  difference,         // ours
};

/// What a gather brings about when its group is launched.
enum class GatherStep : std::uint8_t {
  nothing,
  native,        // of a class that is native for good
  first_record,  // makes the class
  record,
  difference,
  direct,  // stateless
};

/// At the call. `of_class`: its class's kind in this group, if there is a class. `can_be_made()`: whether one
/// may be made; `goes_direct()`: whether calls without a ledger are coded all the same. Asked only where it
/// matters.
template <typename CanBeMade, typename GoesDirect>
[[nodiscard]] GatherKind gather_kind(std::optional<WeightKind> of_class, const CanBeMade& can_be_made,
                                     const GoesDirect& goes_direct) {
  if (of_class == WeightKind::difference) return GatherKind::difference;
  if (of_class == WeightKind::recorded || (!of_class && can_be_made())) return GatherKind::native_and_record;
  return goes_direct() ? GatherKind::difference : GatherKind::native;
}

/// When the group is launched. `stage`: of its class, if there is one by now.
template <typename CanBeMade>
[[nodiscard]] GatherStep gather_step(GatherKind kind, std::optional<WeightStage> stage,
                                     const CanBeMade& can_be_made) {
  switch (kind) {
    case GatherKind::native:
      return stage ? GatherStep::native : GatherStep::nothing;
    case GatherKind::native_and_record:
      if (stage) return GatherStep::record;
      return can_be_made() ? GatherStep::first_record : GatherStep::nothing;  // the group made too many
    case GatherKind::difference:
      break;
  }
  return stage == WeightStage::difference ? GatherStep::difference : GatherStep::direct;
}

}  // namespace sdp4bit
