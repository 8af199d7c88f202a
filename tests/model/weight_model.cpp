// Classes, slots and the ledger, as design section 3 has them; see weight_model.h.
#include "weight_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace sdp4bit::model {
namespace {

constexpr std::size_t kSlotsWhileLearning = 256;
constexpr std::size_t kSampled = 16;  // every 16th group

/// Sums over groups of the largest |shard - before| and the largest |shard|; a NaN stays one.
struct Sizes {
  double difference = 0, weight = 0;
};

Sizes sizes(const Values& shard, const Values& before, std::size_t group, std::size_t stride) {
  Sizes sum;
  for (std::size_t first = 0; first < shard.size(); first += group * stride) {
    double difference = 0, weight = 0;
    for (std::size_t i = first; i < std::min(first + group, shard.size()); ++i) {
      const double d = std::abs(static_cast<double>(static_cast<float>(shard[i] - before[i]))),
                   w = std::abs(shard[i]);
      if (std::isnan(d) || d > difference) difference = std::isnan(difference) ? difference : d;
      if (std::isnan(w) || w > weight) weight = std::isnan(weight) ? weight : w;
    }
    sum.difference += difference;
    sum.weight += weight;
  }
  return sum;
}

Values finite(Values values) {
  for (double& value : values) {
    if (!std::isfinite(value)) value = 0;
  }
  return values;
}

}  // namespace

void WeightClass::begin_group() {
  const std::uint64_t call = words_.size();
  if (stage_ == Stage::learning) {
    kind_ = GatherKind::recorded;
    const std::uint64_t age = call - start_;
    if (age >= next_exam_) examine(std::bit_floor(age));
  } else if (stage_ == Stage::difference) {
    kind_ = GatherKind::difference;
    read_flags();
  } else {
    kind_ = GatherKind::native;
  }
}

void WeightClass::examine(std::uint64_t exam) {
  next_exam_ = 2 * exam;
  const std::uint64_t first = start_ + exam / 4 + 1, last = start_ + exam / 2;
  if (slots_ != 0) {
    if (!words_[last].ready) return;
    stage_ = Stage::difference;
    kind_ = GatherKind::difference;
    read_ = rounds_start_ = words_.size();
    round_ = history_ = 0;
    native_round_ = false;
    next_refresh_ = words_.size() + round_length();
    return;
  }
  bool seen = true, small = true;
  std::size_t most = 1;
  for (std::uint64_t i = first; i <= last; ++i) {
    seen = seen && words_[i].seen;
    small = small && words_[i].small;
    most = std::max(most, words_[i].slots);
  }
  if (!seen || !small) return;
  slots_ = most;
  ledger_.clear();
}

void WeightClass::read_flags() {
  const std::uint64_t call = words_.size();
  const bool refreshes = settings_.refresh != 0;
  if (native_round_ && call < native_until_) {
    while (refreshes && call >= next_refresh_) next_refresh_ += round_length();
    kind_ = GatherKind::recorded;
    return;
  }
  if (native_round_) {
    native_round_ = false;
    read_ = rounds_start_ = call;
    round_ = 0;
  }
  const std::uint64_t lag = std::max<std::uint64_t>(slots_, 4);
  while (read_ + lag <= call) {
    const Word& word = words_[read_];
    for (const std::uint64_t round = (read_++ - rounds_start_) / slots_; round_ < round; ++round_)
      close_round(false);
    if (!word.jump || settings_.vote) continue;
    close_round(true);
    if ((history_ & 7) == 7 || std::popcount(history_) > 16) return learn_again();
    return start_native_round();
  }
  if (refreshes && call >= next_refresh_) start_native_round();
}

void WeightClass::start_native_round() {
  const std::uint64_t call = words_.size();
  native_round_ = true;
  native_until_ = call + slots_;
  while (settings_.refresh != 0 && call >= next_refresh_) next_refresh_ += round_length();
  kind_ = GatherKind::recorded;
}

void WeightClass::learn_again() {
  failures_ = slots_ == failed_slots_ ? failures_ + 1 : 1;
  failed_slots_ = slots_;
  slots_ = 0;
  ledger_.clear();
  for (auto& slots : slots_of_) slots.clear();
  for (auto& samples : samples_) samples.clear();
  stage_ = failures_ > 2 ? Stage::given_up : Stage::learning;
  kind_ = failures_ > 2 ? GatherKind::native : GatherKind::recorded;
  start_ = words_.size();
  next_exam_ = 4;
}

std::size_t WeightClass::find(std::size_t rank, std::uint64_t address, bool& seen) {
  std::vector<Slot>& slots = slots_of_[rank];
  // Buffers that came after what the exam read have no slot.
  if (slots_ != 0 && slots.size() > slots_) slots.resize(slots_);
  auto slot =
      std::find_if(slots.begin(), slots.end(), [&](const Slot& known) { return known.address == address; });
  seen = slot != slots.end();
  if (!seen && slots.size() < (slots_ != 0 ? slots_ : kSlotsWhileLearning)) {
    slot = slots.insert(slots.end(), Slot{});
  } else if (!seen) {
    slot = std::min_element(slots.begin(), slots.end(),
                            [](const Slot& a, const Slot& b) { return a.last_use < b.last_use; });
  }
  *slot = {address, ++uses_};
  return static_cast<std::size_t>(slot - slots.begin());
}

bool WeightClass::is_small(std::size_t rank, std::size_t slot, const Values& shard) {
  const auto known = samples_[rank].find(slot);
  bool small = false;
  if (known != samples_[rank].end()) {
    const Sizes sum = sizes(shard, known->second, settings_.weight_group, kSampled);
    small = sum.difference * 16 <= sum.weight;
  }
  samples_[rank][slot] = shard;
  return small;
}

void WeightClass::record(const Gather& gather) {
  Word word{.seen = true, .small = true, .ready = slots_ != 0, .jump = false, .slots = 0};
  for (std::size_t rank = 0; rank < gather.receive.size(); ++rank) {
    bool seen = false;
    const std::size_t slot = find(rank, gather.receive[rank], seen);
    if (slots_ == 0 && !seen) samples_[rank].erase(slot);
    const bool small = slots_ == 0 && is_small(rank, slot, gather.shards[rank]);
    if (slots_ != 0) ledger_[{rank, slot}] = gather.shards[rank];
    word.seen = word.seen && seen;
    word.small = word.small && small;
    word.slots = std::max(word.slots, slots_of_[rank].size());
  }
  words_.push_back(word);
}

std::vector<Values> WeightClass::start_difference(const Gather& gather) {
  std::vector<Values> before;
  current_.clear();
  jumps_ = false;
  for (std::size_t rank = 0; rank < gather.receive.size(); ++rank) {
    bool seen = false;
    current_.push_back(find(rank, gather.receive[rank], seen));
    const Values& shard = gather.shards[rank];
    Values& entry = ledger_[{rank, current_.back()}];
    if (entry.empty()) entry.assign(shard.size(), 0.0);
    before.push_back(finite(entry));
    const Sizes sum = sizes(shard, before.back(), settings_.weight_group, 1);
    jumps_ = jumps_ || !(sum.difference * 4 <= sum.weight);
  }
  return before;
}

void WeightClass::end_difference(const std::vector<Values>& results) {
  for (std::size_t rank = 0; rank < results.size(); ++rank) ledger_[{rank, current_[rank]}] = results[rank];
  words_.push_back({.seen = true, .small = false, .ready = true, .jump = jumps_, .slots = 0});
}

void WeightClass::end_voted_down(const Gather& gather) {
  end_difference(gather.shards);
}

}  // namespace sdp4bit::model
