// Whose the own shard is: when it is asked, what one answer means, and what all ranks make of the answers.
#include <cmath>
#include <random>
#include <vector>

#include "catch.h"
#include "kernels/probe_answer.h"
#include "plugin/probe_schedule.h"
#include "plugin/weight_class.h"

using namespace sdp4bit;

namespace {

using Visit = ProbeSchedule::Visit;

/// A class whose one slot is in difference from call 8 on, and whose differences say `word`.
WeightClass in_difference(OwnSlices own) {
  WeightClass machine(0, own);
  AgreedWords word{.all_seen = true, .all_small = true, .max_slots = 1};
  for (std::uint64_t call = 0; call < 9; ++call) {
    word.all_ready = machine.slots() != 0;
    const std::vector<AgreedWords> words(machine.words_end(call) - machine.words_begin(), word);
    (void)machine.decide(call, words);
  }
  REQUIRE(machine.stage() == WeightStage::difference);
  return machine;
}

OwnSlices after(WeightClass& machine, std::uint64_t call, const AgreedWords& word) {
  const std::vector<AgreedWords> words(machine.words_end(call) - machine.words_begin(), word);
  (void)machine.decide(call, words);
  return machine.own_slices();
}

/// `kept` of a unit step, and movement of `movement` besides, over 4096 samples.
ProbeAnswer answer(double kept, float movement, float step = 1.0f) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  ProbeSums sums;
  for (std::size_t i = 0; i < kProbeSamples; ++i) {
    const float before = 10.0f, after = before + probe_sign(1, i) * step;
    sums.add({before, after},
             before + static_cast<float>(kept) * (after - before) + movement * normal(random));
  }
  return judge_probe(sums, kProbeSamples);
}

}  // namespace

TEST_CASE("ProbeSchedule.OneSlotCarriesAStepFromOneOfItsCallsToTheNext") {
  ProbeSchedule schedule;
  CHECK(schedule.visit(8, 0, 2, true, true) == Visit{.answer = false, .start = true});
  CHECK(schedule.visit(9, 1, 2, true, true) == Visit{});
  CHECK(schedule.visit(10, 0, 2, true, true) == Visit{.answer = true, .start = false});
  CHECK(schedule.visit(11, 1, 2, true, true) ==
        Visit{.answer = false, .start = true});  // the other slot's turn
}

TEST_CASE("ProbeSchedule.AStepOfAnotherBufferIsNotAskedFor") {
  ProbeSchedule schedule;
  CHECK(schedule.visit(8, 0, 1, true, true).start);
  CHECK(schedule.visit(9, 0, 1, false, false) == Visit{});
  CHECK(schedule.visit(10, 0, 1, true, false) == Visit{});
}

TEST_CASE("ProbeSchedule.AShardThatNeverAnswersIsLeftAlone") {
  ProbeSchedule schedule;
  int steps = 0;
  for (std::uint64_t call = 0; call < 100'000; ++call) steps += schedule.visit(call, 0, 1, true, true).start;
  CHECK(steps > 90);
  CHECK(steps < 120);  // ten doublings, then one in 1024 rounds
}

TEST_CASE("Probe.TellsKeptFromOverwrittenAndAbstainsWhereItCannot") {
  CHECK(answer(1.0, 0.5f) == ProbeAnswer::kept);
  CHECK(answer(0.0, 0.5f) == ProbeAnswer::overwritten);
  CHECK(answer(0.5, 0.5f) == ProbeAnswer::unclear);
  CHECK(answer(1.0, 0.0f) == ProbeAnswer::unmoved);
  CHECK(answer(0.0, 0.0f) == ProbeAnswer::overwritten);    // put back as it was
  CHECK(answer(0.0, 50.0f) == ProbeAnswer::unclear);       // replaced weights
  CHECK(answer(0.0, 1.0f, 0.0f) == ProbeAnswer::unclear);  // no step: nothing had moved when it was chosen
  CHECK(answer(0.0, std::nanf("")) == ProbeAnswer::unclear);
}

TEST_CASE("Probe.OneAnswerDoesNotMakeAReplica") {
  Probe probe{};
  note_answer(probe, ProbeAnswer::overwritten);
  CHECK(probe.flags == 0);
  note_answer(probe, ProbeAnswer::unclear);
  note_answer(probe, ProbeAnswer::overwritten);
  CHECK(probe.flags == 0);
  note_answer(probe, ProbeAnswer::unmoved);
  note_answer(probe, ProbeAnswer::overwritten);
  CHECK(probe.flags == kOwnReplica);
  note_answer(probe, ProbeAnswer::kept);
  CHECK(probe.flags == (kOwnReplica | kOwnMaster));
}

TEST_CASE("Probe.TakesBackTheStepAndNothingElse") {
  const ProbeSample sample{.before = 1.0f, .after = 1.5f};
  CHECK(without_step(sample, 1.5f, ProbeAnswer::unclear) == 1.0f);  // stands still: put back
  CHECK(without_step(sample, 1.25f, ProbeAnswer::unclear) == 1.25f);
  CHECK(without_step(sample, 1.25f, ProbeAnswer::overwritten) == 1.25f);
  CHECK(without_step(sample, 1.5f, ProbeAnswer::overwritten) == 1.5f);  // the program's own value, by chance
  CHECK(without_step(sample, 1.75f, ProbeAnswer::kept) == 1.25f);       // its own movement of 0.25 stays
}

TEST_CASE("A master on any rank keeps all own slices exact for good") {
  WeightClass machine = in_difference(OwnSlices::unknown);
  CHECK(after(machine, 20, {.all_replica = true}) ==
        OwnSlices::unknown);  // replicas begin with the next round
  CHECK(after(machine, 21, {.all_replica = true}) == OwnSlices::replica);
  WeightClass other = in_difference(OwnSlices::unknown);
  CHECK(after(other, 20, {.all_replica = false, .any_master = true}) == OwnSlices::exact);
  CHECK(after(other, 21, {.all_replica = true}) == OwnSlices::exact);
  CHECK(after(other, 200, {.all_replica = true}) == OwnSlices::exact);
}

TEST_CASE("An option settles own slices from the start") {
  for (const OwnSlices own : {OwnSlices::replica, OwnSlices::exact}) {
    WeightClass machine = in_difference(own);
    CHECK(after(machine, 20, {.all_replica = true, .any_master = true}) == own);
  }
}
