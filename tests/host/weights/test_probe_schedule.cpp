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
using Buffer = ProbeSchedule::Buffer;

char places[2];  // two addresses
Buffer known(int place) {
  return {.address = &places[place], .seen = true, .in_place = true};
}
Buffer unknown(int place) {
  return {.address = &places[place], .seen = false, .in_place = true};
}

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

TEST_CASE("ProbeSchedule.OneBufferCarriesAStepFromOneOfItsCallsToTheNext") {
  ProbeSchedule schedule;
  CHECK(schedule.visit(8, known(0), 2, true) == Visit{.start = true});
  CHECK(schedule.visit(9, known(1), 2, true) == Visit{});
  CHECK(schedule.visit(10, known(0), 2, true) == Visit{.answer = true});
  CHECK(schedule.visit(11, known(1), 2, true) == Visit{.start = true});  // the other buffer's turn
}

TEST_CASE("ProbeSchedule.AStepIsAnsweredInItsBufferWhateverTheClassForgot") {
  ProbeSchedule schedule;
  CHECK(schedule.visit(8, known(0), 1, true).start);
  CHECK(schedule.visit(9, unknown(0), 1, false) == Visit{.answer = true});
  CHECK(schedule.visit(10, known(0), 1, false) == Visit{});
}

TEST_CASE("ProbeSchedule.OutOfPlaceTheOwnSliceIsWrittenAnyway") {
  ProbeSchedule schedule;
  CHECK(schedule.visit(8, known(0), 1, true).start);
  Buffer out_of_place = known(0);
  out_of_place.in_place = false;
  CHECK(schedule.visit(9, out_of_place, 1, true) == Visit{});
  CHECK(schedule.visit(10, known(0), 1, false) == Visit{});
}

TEST_CASE("ProbeSchedule.AStepIsLookedForInNewBuffersForAWhile") {
  ProbeSchedule schedule;
  CHECK(schedule.visit(8, known(0), 1, true).start);
  CHECK(schedule.visit(9, unknown(1), 1, true) == Visit{.answer = true, .moved = true});
  CHECK(schedule.visit(10, known(1), 1, true) == Visit{});  // it may still be in the old one
  CHECK(schedule.visit(8 + ProbeSchedule::kPatience, known(1), 1, true) == Visit{.start = true});
}

TEST_CASE("ProbeSchedule.AShardThatNeverAnswersIsLeftAlone") {
  ProbeSchedule schedule;
  int steps = 0;
  for (std::uint64_t call = 0; call < 100'000; ++call) steps += schedule.visit(call, known(0), 1, true).start;
  CHECK(steps > 90);
  CHECK(steps < 120);  // ten doublings, then one in 1024 rounds
}

TEST_CASE("Probe.NoStepBehindAJump") {
  StepSums sums;
  for (int i = 0; i < 100; ++i) sums.add(1.0f, 0.8f);
  CHECK(std::abs(probe_step(sums, 100) - 0.2f) < 1e-6f);
  sums.add(1.0f, -20.0f);
  CHECK(probe_step(sums, 101) == 0.0f);
  CHECK(probe_step(StepSums{}, 100) == 0.0f);
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
