// Steps in own slices, and what follows from what became of them; see own_shards.h.
#include "own_shards.h"

#include <algorithm>
#include <cmath>

namespace sdp4bit::model {
namespace {

constexpr int kAnswersNeeded = 2;
constexpr std::uint64_t kPatience = 8;  // rounds that a step is looked for
constexpr double kLargestError = 0.08;  // of a regression that is an answer

enum class Answer { unclear, unmoved, gone, kept };

/// How much of the step is still there, by regression, and how sure that is.
Answer judge(const Values& before, const Values& after, const Values& now) {
  double steps = 0, products = 0, moves = 0;
  for (std::size_t i = 0; i < now.size(); ++i) {
    const double step = after[i] - before[i], move = now[i] - before[i];
    steps += step * step;
    products += step * move;
    moves += move * move;
  }
  if (!(steps > 0) || !std::isfinite(moves)) return Answer::unclear;
  if (same(now, after)) return Answer::unmoved;
  const double part = products / steps;
  const double error =
      std::sqrt(std::max(0.0, moves / steps - part * part) / static_cast<double>(now.size()));
  if (error > kLargestError) return Answer::unclear;
  if (std::abs(part - 1) <= 0.25) return Answer::kept;
  return std::abs(part) <= 0.25 ? Answer::gone : Answer::unclear;
}

}  // namespace

OwnShards::OwnShards(const std::string& option, ncclDataType_t type, std::size_t ranks)
    : type_(type),
      asked_(option == "auto"),
      rule_(option == "auto"      ? Rule::asks
            : option == "replica" ? Rule::replica
                                  : Rule::exact),
      ranks_(ranks) {}

void OwnShards::hear(const Said& of_all, std::uint64_t next_round) {
  if (rule_ != Rule::asks) return;
  if (of_all.master) {
    rule_ = Rule::exact;
    may_be_replica_ = false;
  } else {
    if (of_all.replica && replica_from_ == 0) replica_from_ = next_round;
    if (of_all.perhaps_replica && perhaps_from_ == 0) perhaps_from_ = next_round;
  }
}

void OwnShards::begin_group(std::uint64_t call) {
  if (rule_ != Rule::asks) return;
  may_be_replica_ = perhaps_from_ != 0 && call >= perhaps_from_;
  if (replica_from_ != 0 && call >= replica_from_) rule_ = Rule::replica;
}

void OwnShards::forget_answers() {
  for (Asking& rank : ranks_) {
    rank.step.reset();
    rank.surely_gone = rank.perhaps_gone = 0;
    rank.master = false;
  }
}

Values OwnShards::answer(std::size_t rank, std::uint64_t call, std::size_t slots, const OwnSlice& slice,
                         bool difference) {
  Asking& asking = ranks_[rank];
  asking.ever_in_place = asking.ever_in_place || slice.in_place;
  if (!asking.step) return slice.given;
  const Step step = *asking.step;
  const bool moved = slice.address != step.address;
  if (!moved || call >= step.forgotten_at) asking.step.reset();
  if (!slice.in_place || (moved && slice.seen)) return slice.given;

  const Answer answer = judge(step.before, step.after, slice.given);
  const bool here = answer == Answer::kept || answer == Answer::unmoved;
  if (moved && !here) return slice.given;
  asking.step.reset();
  if (answer != Answer::unmoved) {
    const bool gone = answer == Answer::gone;
    asking.surely_gone = gone ? asking.surely_gone + 1 : 0;
    asking.perhaps_gone = gone ? asking.perhaps_gone + 1 : 0;
    asking.master = asking.master || answer == Answer::kept;
  }
  if (answer == Answer::gone) return slice.given;
  if (answer == Answer::unmoved && difference && rule_ == Rule::asks && same(slice.left, slice.given)) {
    asking.step = step;  // there it stays, for another answer
    asking.step->forgotten_at = call + kPatience * slots;
    return slice.given;
  }
  Values without = slice.given;
  for (std::size_t i = 0; i < without.size(); ++i) {
    if (without[i] == step.after[i]) {
      without[i] = step.before[i];
    } else if (answer == Answer::kept) {
      without[i] = rounded(type_, without[i] - (step.after[i] - step.before[i]));
    }
  }
  return without;
}

OwnShards::Said OwnShards::said(std::size_t rank) const {
  const Asking& asking = ranks_[rank];
  return {.replica = !asking.ever_in_place || asking.surely_gone >= kAnswersNeeded,
          .perhaps_replica = !asking.ever_in_place || asking.perhaps_gone >= kAnswersNeeded,
          .master = asking.master};
}

std::string OwnShards::look_for_step(std::size_t rank, std::uint64_t call, std::size_t slots,
                                     const OwnSlice& slice, const Values& given, const Values& before) {
  Asking& asking = ranks_[rank];
  double differences = 0, weights = 0;
  for (std::size_t i = 0; i < given.size(); ++i) {
    differences += (given[i] - before[i]) * (given[i] - before[i]);
    weights += given[i] * given[i];
  }
  const double size =
      16 * differences <= weights ? std::sqrt(differences / static_cast<double>(given.size())) : 0;
  if (same(slice.left, given)) {
    const bool too_small = std::all_of(given.begin(), given.end(), [&](double value) {
      return rounded(type_, value + size) == value && rounded(type_, value - size) == value;
    });
    // Perhaps it asked with a step that changes nothing: that has no answer, and ends a row of others.
    if (too_small && slice.in_place) asking.surely_gone = 0;
    return {};
  }
  if (!slice.in_place) return "a slice out of place is not what the owner gave";
  if (asking.master || asking.surely_gone >= kAnswersNeeded) return "a step though the rank has its answer";
  if (asking.step) return "a step though another buffer has one";
  for (std::size_t i = 0; i < given.size(); ++i) {
    const double step = std::abs(slice.left[i] - given[i]);
    const double error = half_ulp(type_, std::abs(given[i]) + size) * 1.01 + size * 1e-6;
    if (std::abs(step - size) <= error) continue;
    return "element " + std::to_string(i) + " of the own slice moved by " + std::to_string(step) +
           ", a step is " + std::to_string(size);
  }
  asking.step = Step{slice.address, call + kPatience * slots, given, slice.left};
  return {};
}

}  // namespace sdp4bit::model
