// What the host of a rank does in one step: a group of its program, by the library's own decisions.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "choices.h"
#include "mistakes.h"
#include "plugin/gather_step.h"
#include "plugin/policy.h"
#include "scenario.h"
#include "world.h"

namespace agreement {

/// What was reached, so that nothing passes because it never came up.
struct Coverage {
  std::set<sdp4bit::WeightEvent> events;
  std::set<sdp4bit::GatherStep> steps;
  std::set<sdp4bit::OwnSlices> own_slices;
  std::set<sdp4bit::Agreement> agreements;
};

struct Setting {
  const Scenario& scenario;
  Mistake mistake = Mistake::none;
  bool quick = false;  // fewer deviations, shorter lives
  Coverage* covered = nullptr;
  std::vector<std::string>* told = nullptr;  // what happens, in words: for traces

  /// Of a life; 0: for ever.
  [[nodiscard]] std::uint32_t groups() const {
    return quick && scenario.quick_groups ? scenario.quick_groups : scenario.most_groups;
  }
  void cover(sdp4bit::WeightEvent event, sdp4bit::OwnSlices own) const {
    if (!covered) return;
    covered->events.insert(event);
    covered->own_slices.insert(own);
  }
  void cover(sdp4bit::GatherStep step) const {
    if (covered) covered->steps.insert(step);
  }
  void cover(sdp4bit::Agreement agreement) const {
    if (covered) covered->agreements.insert(agreement);
  }
  void tell(const std::string& text) const {
    if (told) told->push_back(text);
  }
};

/// All ways that a life may begin: the choices are facts of the ranks.
[[nodiscard]] World begin_world(const Setting& setting, std::uint32_t ranks, Choices& choices);
void tell_start(const World& world, const Setting& setting);

/// False: the rank waits for something that has not arrived, and the world is not to be used. Throws
/// Violation.
[[nodiscard]] bool step_host(World& world, std::uint32_t rank, const Setting& setting, Choices& choices);

/// What an operation said reaches the host.
void deliver(Rank& rank, const Operation& operation, const sdp4bit::CallWords& words);

}  // namespace agreement
