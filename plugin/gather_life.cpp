// Decisions of a class's groups, and the flags that go with its calls; see gather_life.h.
#include "plugin/gather_life.h"

namespace sdp4bit {

LedgerStep ledger_step(WeightEvent event) {
  switch (event) {
    case WeightEvent::none:
    case WeightEvent::ledger_agreed:
    case WeightEvent::jump_round:
    case WeightEvent::refresh_round:
      return LedgerStep::none;
    case WeightEvent::exam_passed:
      return LedgerStep::allocate;
    case WeightEvent::reset:
    case WeightEvent::learning_again:
      return LedgerStep::restart;
    case WeightEvent::ledger_refused:
    case WeightEvent::never_repeats:
    case WeightEvent::never_small:
    case WeightEvent::too_many_jumps:
      break;
  }
  return LedgerStep::release;
}

WeightDecision GatherLife::decide(std::uint64_t epoch, std::span<AgreedWords> words,
                                  std::uint64_t resets_asked) {
  if (votes_) {
    for (AgreedWords& word : words) word.any_jump = false;  // it went native at once
  }
  const WeightDecision decision = machine_.decide(calls_, words);
  if (decision.event == WeightEvent::reset) resets_done_ = resets_asked;
  const LedgerStep step = ledger_step(decision.event);
  if (step != LedgerStep::none) wants_ledger_ = step == LedgerStep::allocate;
  kind_ = decision.kind;
  epoch_ = epoch;
  return decision;
}

std::uint32_t GatherLife::record_flags(const LedgerStanding& ledger, bool seen,
                                       std::uint64_t resets_asked) const {
  return (seen ? kSeen : 0u) | (ledger.ready() ? kReady : 0u) | (ledger.refused() ? kRefused : 0u) |
         (wants_reset(resets_asked) ? kReset : 0u);
}

std::uint32_t GatherLife::difference_flags(bool was_in_place, std::uint64_t resets_asked) const {
  return (was_in_place ? 0u : kOwnReplica) | (wants_reset(resets_asked) ? kReset : 0u);
}

}  // namespace sdp4bit
