// The life of one class of weight gathers, step by step; see weight_class.h.
#include "plugin/weight_class.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace sdp4bit {
namespace {

constexpr std::uint64_t ones(int bits) {
  return ~std::uint64_t{0} >> (64 - bits);
}

}  // namespace

const char* event_name(WeightEvent event) {
  switch (event) {
    case WeightEvent::none:
      return "none";
    case WeightEvent::exam_passed:
      return "exam_passed";
    case WeightEvent::ledger_agreed:
      return "ledger_agreed";
    case WeightEvent::ledger_refused:
      return "ledger_refused";
    case WeightEvent::never_repeats:
      return "never_repeats";
    case WeightEvent::never_small:
      return "never_small";
    case WeightEvent::jump_round:
      return "jump_round";
    case WeightEvent::refresh_round:
      return "refresh_round";
    case WeightEvent::learning_again:
      return "learning_again";
    case WeightEvent::too_many_jumps:
      return "too_many_jumps";
    case WeightEvent::reset:
      return "reset";
  }
  return "unknown";
}

std::uint64_t WeightClass::due_exam(std::uint64_t call) const {
  const std::uint64_t age = call - learning_start_;
  if (age < next_exam_) return 0;
  return std::bit_floor(age);  // exams are powers of two: a large group may step over some
}

std::uint64_t WeightClass::words_end(std::uint64_t call) const {
  std::uint64_t end = 0;
  if (stage_ == WeightStage::learning) {
    const std::uint64_t exam = due_exam(call);
    // Half of an exam is counted inclusively: the call that first said "ready", made at the exam that was
    // passed, is then the last record of the next exam.
    if (exam != 0) end = learning_start_ + exam / 2 + 1;
  } else if (stage_ == WeightStage::difference && !in_native_round_ && call + 1 > lag()) {
    end = call + 1 - lag();
  }
  return std::max(end, words_taken_);
}

WeightDecision WeightClass::decide(std::uint64_t call, std::span<const AgreedWords> words) {
  switch (stage_) {
    case WeightStage::learning: {
      const std::uint64_t exam = due_exam(call);
      return exam == 0 ? WeightDecision{WeightKind::recorded, WeightEvent::none}
                       : take_exam(exam, call, words);
    }
    case WeightStage::difference:
      return next_difference(call, words);
    case WeightStage::native:
      break;
  }
  return {WeightKind::native, WeightEvent::none};
}

WeightDecision WeightClass::take_exam(std::uint64_t exam, std::uint64_t call,
                                      std::span<const AgreedWords> words) {
  const std::uint64_t later_half = learning_start_ + exam / 4 + 1;
  bool all_seen = true, all_small = true, any_small = false, any_refused = false, reset = false;
  std::uint32_t max_slots = 1;
  for (const AgreedWords& word : words) {
    reset |= word.all_reset;
    if (words_taken_++ < later_half) continue;
    all_seen &= word.all_seen;
    all_small &= word.all_small;
    any_small |= word.all_small;
    any_refused |= word.any_refused;
    max_slots = std::max(max_slots, word.max_slots);
  }
  if (reset) return start_learning(call, WeightEvent::reset);
  next_exam_ = 2 * exam;

  if (slots_ != 0) {
    if (any_refused) return give_up(WeightEvent::ledger_refused);
    if (!words.empty() && words.back().all_ready) {
      stage_ = WeightStage::difference;
      words_taken_ = rounds_start_ = call;
      round_ = history_ = 0;
      next_refresh_ = call + refresh_rounds_ * slots_;
      return {WeightKind::difference, WeightEvent::ledger_agreed};
    }
  } else if (all_seen && all_small) {
    slots_ = max_slots;
    return {WeightKind::recorded, WeightEvent::exam_passed};
  } else if (exam >= rules_.large_exam && all_seen && !any_small) {
    return give_up(WeightEvent::never_small);
  } else if (exam >= rules_.last_exam) {
    return give_up(WeightEvent::never_repeats);
  }
  return {WeightKind::recorded, WeightEvent::none};
}

WeightDecision WeightClass::next_difference(std::uint64_t call, std::span<const AgreedWords> words) {
  const auto refresh_due = [&] { return refresh_rounds_ != 0 && call >= next_refresh_; };

  if (in_native_round_) {
    if (call < native_until_) {
      while (refresh_due()) next_refresh_ += refresh_rounds_ * slots_;  // this round is the refresh
      return {WeightKind::recorded, WeightEvent::none};
    }
    // Flags of before and during the native round speak of entries that it has replaced.
    in_native_round_ = false;
    words_taken_ = rounds_start_ = call;
    round_ = 0;
  }

  for (const AgreedWords& word : words) {
    judge_own_slices(call, word);
    const std::uint64_t round = (words_taken_++ - rounds_start_) / slots_;
    if (word.all_reset) return start_learning(call, WeightEvent::reset);
    for (; round_ < round; ++round_) close_round(false);
    if (!word.any_jump) continue;
    close_round(true);
    const bool always = std::countr_one(history_) >= rules_.jumps_in_a_row;
    const bool often = std::popcount(history_) > rules_.jumps_in_window;
    return always || often ? learn_again(call) : start_native_round(call, WeightEvent::jump_round);
  }
  if (replica_from_ != 0 && call >= replica_from_ && own_ == OwnSlices::unknown) own_ = OwnSlices::replica;
  if (refresh_due()) return start_native_round(call, WeightEvent::refresh_round);
  return {WeightKind::difference, WeightEvent::none};
}

/// A master is one for good; replicas begin with a round, so that all slots of a rank do.
void WeightClass::judge_own_slices(std::uint64_t call, const AgreedWords& word) {
  if (own_ != OwnSlices::unknown) return;
  if (word.any_master) {
    own_ = OwnSlices::exact;
  } else if (word.all_replica && replica_from_ == 0) {
    replica_from_ = call + slots_ - (call - rounds_start_) % slots_;
  }
}

void WeightClass::close_round(bool jumped) {
  history_ = (history_ << 1 | (jumped ? 1u : 0u)) & ones(rules_.window);
}

WeightDecision WeightClass::start_native_round(std::uint64_t call, WeightEvent event) {
  in_native_round_ = true;
  native_until_ = call + slots_;
  while (refresh_rounds_ != 0 && call >= next_refresh_) next_refresh_ += refresh_rounds_ * slots_;
  return {WeightKind::recorded, event};
}

WeightDecision WeightClass::learn_again(std::uint64_t call) {
  failures_ = slots_ == failed_slots_ ? failures_ + 1 : 1;
  failed_slots_ = slots_;
  if (failures_ > rules_.failures_allowed) return give_up(WeightEvent::too_many_jumps);
  return start_learning(call, WeightEvent::learning_again);
}

WeightDecision WeightClass::start_learning(std::uint64_t call, WeightEvent event) {
  if (event == WeightEvent::reset) failures_ = failed_slots_ = 0;
  stage_ = WeightStage::learning;
  slots_ = 0;
  words_taken_ = learning_start_ = call;
  next_exam_ = rules_.first_exam;
  return {WeightKind::recorded, event};
}

WeightDecision WeightClass::give_up(WeightEvent event) {
  stage_ = WeightStage::native;
  slots_ = 0;
  return {WeightKind::native, event};
}

WeightClass::Outlook WeightClass::outlook(std::uint64_t call) const {
  const auto ahead = [&](std::uint64_t of) { return static_cast<std::int64_t>(of - call); };
  const bool differs = stage_ == WeightStage::difference;
  const bool learns = stage_ == WeightStage::learning;
  // A call that has passed is as good as any other that has.
  const std::int64_t replica =
      own_ != OwnSlices::unknown || replica_from_ == 0 ? -1 : std::max<std::int64_t>(ahead(replica_from_), 0);
  return {static_cast<std::int64_t>(stage_) | static_cast<std::int64_t>(own_) << 8,
          slots_,
          stage_ == WeightStage::native ? 0 : ahead(words_taken_),
          replica,
          learns    ? ahead(learning_start_)
          : differs ? ahead(rounds_start_ + round_ * slots_)  // rounds before it were judged
                    : 0,
          learns                            ? static_cast<std::int64_t>(next_exam_)
          : differs && refresh_rounds_ != 0 ? ahead(next_refresh_)
                                            : 0,
          differs && in_native_round_ ? ahead(native_until_) : std::numeric_limits<std::int64_t>::min(),
          differs ? static_cast<std::int64_t>(history_) : 0,
          stage_ == WeightStage::native ? 0 : failed_slots_,
          stage_ == WeightStage::native ? 0 : failures_};
}

}  // namespace sdp4bit
