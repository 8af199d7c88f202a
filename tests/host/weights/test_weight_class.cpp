// The life of a weight class: exams, rounds, jumps and refreshes, driven by words that stand for whole
// programs.
#include "plugin/weight_class.h"

#include <algorithm>
#include <functional>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "catch.h"

using namespace sdp4bit;

namespace {

/// A program as its records and headers would describe it, and what the class made of it.
class Program {
 public:
  explicit Program(std::uint64_t refresh = 0) : machine(refresh) {}

  WeightClass machine;
  std::vector<WeightKind> kinds;                        // by call
  std::vector<WeightEvent> events;                      // by call: of the group that begins with it
  std::function<AgreedWords(std::uint64_t call)> says;  // but for all_ready
  std::uint64_t ready_delay = 0;                        // calls from the allocation until all say ready

  /// One outermost group of `calls` calls.
  void group(std::size_t calls = 1) {
    const std::uint64_t call = kinds.size();
    const std::uint64_t begin = machine.words_begin(), end = machine.words_end(call);
    REQUIRE(begin <= end);
    REQUIRE((end == begin || end <= call));  // never the present group
    std::vector<AgreedWords> words;
    for (std::uint64_t c = begin; c < end; ++c) words.push_back(said_[c]);
    const WeightDecision decision = machine.decide(call, words);
    WeightClass again = machine;  // a group that is only simulated asks twice
    CHECK(again.words_end(call) == again.words_begin());
    CHECK(again.decide(call, {}).kind == decision.kind);
    CHECK(again == machine);
    if (decision.event == WeightEvent::exam_passed) allocated_ = call;
    for (std::size_t i = 0; i < calls; ++i) {
      AgreedWords word = says(kinds.size());
      word.all_ready = machine.slots() != 0 && kinds.size() >= allocated_ + ready_delay && !word.any_refused;
      said_.push_back(word);
      kinds.push_back(decision.kind);
      events.push_back(i == 0 ? decision.event : WeightEvent::none);
    }
  }
  void run(std::size_t calls) {
    while (kinds.size() < calls) group();
  }
  [[nodiscard]] std::size_t first(WeightEvent event) const {
    return static_cast<std::size_t>(std::find(events.begin(), events.end(), event) - events.begin());
  }
  [[nodiscard]] std::size_t count(WeightKind kind) const {
    return static_cast<std::size_t>(std::count(kinds.begin(), kinds.end(), kind));
  }
  [[nodiscard]] std::size_t count(WeightEvent event) const {
    return static_cast<std::size_t>(std::count(events.begin(), events.end(), event));
  }

 private:
  std::vector<AgreedWords> said_;
  std::uint64_t allocated_ = 0;
};

/// `slots` buffers in turn, whose contents change a little: what an optimizer makes.
AgreedWords steady(std::uint64_t call, std::uint32_t slots) {
  AgreedWords word;
  word.all_seen = word.all_small = call >= slots;
  word.max_slots = static_cast<std::uint32_t>(std::min<std::uint64_t>(call + 1, slots));
  return word;
}

}  // namespace

TEST_CASE("A buffer that comes again unchanged is in difference from call 8 on") {
  Program program;
  program.says = [](std::uint64_t call) { return steady(call, 1); };
  program.run(100);
  CHECK(program.first(WeightEvent::exam_passed) == 4);
  CHECK(program.first(WeightEvent::ledger_agreed) == 8);
  CHECK(program.machine.slots() == 1);
  CHECK(program.count(WeightKind::recorded) == 8);
  CHECK(program.count(WeightKind::difference) == 92);
}

TEST_CASE("S is the largest number of slots, and the exam that sees all of them twice decides") {
  for (const std::uint32_t slots : {2u, 3u, 7u, 32u, 256u}) {
    Program program;
    program.says = [&](std::uint64_t call) { return steady(call, slots); };
    program.run(5000);
    CHECK(program.machine.slots() == slots);
    const std::size_t passed = program.first(WeightEvent::exam_passed);
    CHECK(passed / 4 + 1 >= slots);
    CHECK(passed / 8 + 1 < slots);
    CHECK(program.first(WeightEvent::ledger_agreed) == 2 * passed);
  }
}

TEST_CASE("Calls in large groups step over exams and still get there") {
  Program program;
  program.says = [](std::uint64_t call) { return steady(call, 10); };
  for (int step = 0; step < 60; ++step) program.group(10);
  CHECK(program.machine.stage() == WeightStage::difference);
  CHECK(program.machine.slots() == 10);
  for (std::size_t call = 0; call < program.kinds.size(); ++call) {
    CHECK(program.kinds[call] == program.kinds[call / 10 * 10]);  // one kind a group
  }
}

TEST_CASE("A ledger that is ready late waits for the next exam") {
  Program program;
  program.says = [](std::uint64_t call) { return steady(call, 1); };
  program.ready_delay = 1;
  program.run(40);
  CHECK(program.first(WeightEvent::ledger_agreed) == 16);
}

TEST_CASE("A ledger that one rank cannot hold makes the class native for good, once") {
  Program program;
  program.says = [](std::uint64_t call) {
    AgreedWords word = steady(call, 1);
    word.any_refused = call >= 4;
    return word;
  };
  program.run(100);
  CHECK(program.first(WeightEvent::ledger_refused) == 8);
  CHECK(program.count(WeightEvent::ledger_refused) == 1);
  CHECK(program.machine.slots() == 0);
  CHECK(program.count(WeightKind::native) == 92);
}

TEST_CASE("Fresh temporaries never pass and end native at the last exam") {
  Program program;
  program.says = [](std::uint64_t) { return AgreedWords{.max_slots = 256}; };
  program.run(5000);
  CHECK(program.count(WeightKind::difference) == 0);
  CHECK(program.first(WeightEvent::never_repeats) == WeightRules{}.last_exam);
}

TEST_CASE("A rotating pool, known addresses with other weights, never passes and ends native at exam 512") {
  Program program;
  program.says = [](std::uint64_t call) {
    AgreedWords word = steady(call, 4);
    word.all_small = false;
    return word;
  };
  program.run(1000);
  CHECK(program.count(WeightKind::difference) == 0);
  CHECK(program.first(WeightEvent::never_small) == WeightRules{}.large_exam);
  CHECK(program.kinds.back() == WeightKind::native);
}

TEST_CASE("One call that is not small in the later half fails an exam") {
  for (const std::uint64_t bad : {5u, 6u, 7u, 8u}) {
    Program program;
    program.says = [&](std::uint64_t call) {
      AgreedWords word = steady(call, 1);
      word.all_small &= call > 2 && call != bad;  // fails 4 and 8
      if (call == 3) word.all_small = false;
      return word;
    };
    program.run(40);
    CHECK(program.first(WeightEvent::exam_passed) == 32);
  }
}

TEST_CASE("One slot that was never seen before in the later half fails an exam") {
  Program program;
  program.says = [&](std::uint64_t call) {
    AgreedWords word = steady(call, 1);
    word.all_seen = call != 2 && call != 3;  // fails 4 and 8, whatever is small
    return word;
  };
  program.run(40);
  CHECK(program.first(WeightEvent::exam_passed) == 16);
}

TEST_CASE("A jump makes one round native, max(S, 4) calls later") {
  for (const std::uint32_t slots : {1u, 3u, 4u, 6u}) {
    Program program;
    std::size_t jump = 0;
    program.says = [&](std::uint64_t call) {
      AgreedWords word = steady(call, slots);
      word.any_jump = call == jump;
      return word;
    };
    program.run(200);
    jump = 210;
    program.run(400);
    const std::size_t lag = std::max(slots, 4u);
    CHECK(program.count(WeightEvent::jump_round) == 1);
    CHECK(program.first(WeightEvent::jump_round) == jump + lag);
    for (std::size_t call = 200; call < 400; ++call) {
      const bool native = call >= jump + lag && call < jump + lag + slots;
      CHECK(program.kinds[call] == (native ? WeightKind::recorded : WeightKind::difference));
    }
  }
}

TEST_CASE("Flags older than a native round are dropped") {
  Program program;
  program.says = [](std::uint64_t call) {
    AgreedWords word = steady(call, 1);
    word.any_jump = call >= 200 && call < 204;  // all before the native round at 204
    return word;
  };
  program.run(400);
  CHECK(program.count(WeightEvent::jump_round) == 1);
}

TEST_CASE("A refresh comes every so many rounds, and one that falls into a native round is that round") {
  Program program(10);
  std::uint64_t jump = 0;
  program.says = [&](std::uint64_t call) {
    AgreedWords word = steady(call, 2);
    word.any_jump = call == jump;
    return word;
  };
  program.run(1000);
  const std::size_t start = program.first(WeightEvent::ledger_agreed);
  for (std::size_t call = start; call < 1000; ++call) {
    const bool native = call >= start + 20 && (call - start) % 20 < 2;
    CHECK(program.kinds[call] == (native ? WeightKind::recorded : WeightKind::difference));
  }

  const std::size_t due = start + 1000;  // a multiple of 20
  jump = due - 4 - 1;                    // its round begins one call before the refresh is due
  program.run(due + 18);
  CHECK(program.events[due - 1] == WeightEvent::jump_round);
  CHECK(program.kinds[due] == WeightKind::recorded);
  for (std::size_t call = due + 1; call < due + 18; ++call)
    CHECK(program.kinds[call] == WeightKind::difference);
}

TEST_CASE("Refresh 0 never refreshes") {
  Program program(0);
  program.says = [](std::uint64_t call) { return steady(call, 1); };
  program.run(5000);
  CHECK(program.count(WeightEvent::refresh_round) == 0);
}

TEST_CASE("Jumps in three successive rounds lead back to learning; the third time native for good") {
  Program program;
  program.says = [](std::uint64_t call) {
    AgreedWords word = steady(call, 1);
    word.any_jump = true;  // small in learning, large against the ledger
    return word;
  };
  program.run(200);
  CHECK(program.count(WeightEvent::learning_again) == 2);
  CHECK(program.count(WeightEvent::too_many_jumps) == 1);
  CHECK(program.kinds.back() == WeightKind::native);
  const std::size_t again = program.first(WeightEvent::learning_again);
  CHECK(program.events[again + 4] == WeightEvent::exam_passed);  // exams begin anew
  CHECK(program.events[again + 8] == WeightEvent::ledger_agreed);
}

TEST_CASE("A count of slots that changes starts the count of failures anew") {
  Program program;
  std::uint32_t slots = 1;
  program.says = [&](std::uint64_t call) {
    AgreedWords word = steady(call, 1);
    word.max_slots = slots;
    word.any_jump = true;
    return word;
  };
  for (int life = 0; life < 6; ++life) {
    const std::size_t before = program.count(WeightEvent::learning_again);
    while (program.count(WeightEvent::learning_again) == before) program.group();
    ++slots;
  }
  CHECK(program.count(WeightEvent::too_many_jumps) == 0);
}

TEST_CASE("More than 16 jumping rounds of 64 lead back to learning") {
  Program program;
  std::uint64_t start = ~0ull;
  program.says = [&](std::uint64_t call) {
    AgreedWords word = steady(call, 1);
    word.any_jump =
        call >= start && (call - start) % 7 == 0;  // one of three judged rounds, never three in a row
    return word;
  };
  program.run(100);
  start = 100;
  while (program.count(WeightEvent::learning_again) == 0 && program.kinds.size() < 2000) program.group();
  CHECK(program.count(WeightEvent::learning_again) == 1);
  CHECK(program.count(WeightEvent::jump_round) == 16);

  Program rare;
  rare.says = [&](std::uint64_t call) {
    AgreedWords word = steady(call, 1);
    word.any_jump = call >= 100 && call % 100 == 0;
    return word;
  };
  rare.run(5000);
  CHECK(rare.count(WeightEvent::learning_again) == 0);
}

TEST_CASE("A reset that all ranks ask for leads back to learning, without counting as a failure") {
  Program program;
  std::uint64_t asked = ~0ull;
  program.says = [&](std::uint64_t call) {
    AgreedWords word = steady(call, 2);
    word.all_reset = call == asked;
    return word;
  };
  for (int life = 0; life < 5; ++life) {
    while (program.machine.stage() != WeightStage::difference) program.group();
    asked = program.kinds.size();
    const std::size_t before = program.count(WeightEvent::reset);
    while (program.count(WeightEvent::reset) == before) program.group();
    CHECK(program.kinds.size() == asked + 4 + 1);  // read at the lag of every flag
    CHECK(program.machine.stage() == WeightStage::learning);
    CHECK(program.kinds.back() == WeightKind::recorded);
    CHECK(program.machine.slots() == 0);
  }
  CHECK(program.count(WeightEvent::too_many_jumps) == 0);
  CHECK(program.count(WeightEvent::learning_again) == 0);
}

TEST_CASE("A reset while learning begins it anew") {
  Program program;
  program.says = [](std::uint64_t call) {
    AgreedWords word = steady(call, 1);
    word.all_reset = call == 3;
    return word;
  };
  program.run(40);
  CHECK(program.first(WeightEvent::reset) == 8);  // the first exam that reads call 3
  CHECK(program.first(WeightEvent::ledger_agreed) == 8 + 8);
  CHECK(program.machine.stage() == WeightStage::difference);
}

TEST_CASE("Classes of equal outlook decide alike from then on, whatever their call numbers") {
  constexpr WeightRules kSmall{.first_exam = 2,
                               .large_exam = 4,
                               .last_exam = 8,
                               .least_lag = 2,
                               .jumps_in_a_row = 2,
                               .window = 4,
                               .jumps_in_window = 2,
                               .failures_allowed = 1};
  std::mt19937 chance(1);
  const auto one_of = [&](unsigned count) { return static_cast<unsigned>(chance() % count); };
  const auto any_words = [&] {
    AgreedWords word;
    word.all_seen = one_of(8) != 0;
    word.all_small = one_of(4) != 0;
    word.all_ready = one_of(8) != 0;
    word.any_jump = one_of(5) == 0;
    word.all_replica = one_of(4) == 0;
    word.any_master = one_of(64) == 0;
    word.all_reset = one_of(32) == 0;
    word.max_slots = 1 + one_of(3);
    return word;
  };
  struct Met {
    WeightClass machine;
    std::uint64_t call;
  };
  // The next group of a class: what it said so far does not matter, for the words are drawn here.
  const auto step = [&](Met& met, const std::vector<AgreedWords>& words, unsigned size) {
    const std::size_t wanted = met.machine.words_end(met.call) - met.machine.words_begin();
    REQUIRE(wanted <= words.size());
    const WeightDecision decision = met.machine.decide(met.call, std::span(words).first(wanted));
    met.call += size;
    return decision;
  };
  std::map<WeightClass::Outlook, Met> met;
  std::size_t pairs = 0;
  for (int life = 0; life < 4000; ++life) {
    Met here{WeightClass(3, OwnSlices::unknown, kSmall), 0};
    for (int group = 0; group < 60; ++group) {
      const auto [known, is_new] = met.try_emplace(here.machine.outlook(here.call), here);
      if (!is_new && known->second.call != here.call) {
        ++pairs;
        Met one = known->second, other = here;
        for (int next = 0; next < 12; ++next) {
          std::vector<AgreedWords> words(64);
          std::generate(words.begin(), words.end(), any_words);
          const unsigned size = 1 + one_of(3);
          REQUIRE(step(one, words, size) == step(other, words, size));
          REQUIRE(one.machine.own_slices() == other.machine.own_slices());
          REQUIRE(one.machine.outlook(one.call) == other.machine.outlook(other.call));
        }
      }
      std::vector<AgreedWords> words(64);
      std::generate(words.begin(), words.end(), any_words);
      (void)step(here, words, 1 + one_of(3));
    }
  }
  CHECK(pairs > 10000);
}
