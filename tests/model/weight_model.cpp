// Classes, slots and the ledger, as design section 3 has them; see weight_model.h.
#include "weight_model.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

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

/// False, and no longer starved, where the allocation fails.
bool allocate(std::vector<bool>& starved, std::size_t rank) {
  const bool fails = starved[rank];
  starved[rank] = false;
  return !fails;
}

}  // namespace

WeightClass::WeightClass(const Settings& settings, ncclDataType_t type,
                         const std::vector<std::uint64_t>& asked)
    : settings_(settings),
      slots_of_(asked.size()),
      samples_(asked.size()),
      sample_memory_(asked.size()),
      ledger_memory_(asked.size(), 0),
      probe_memory_(asked.size(), false),
      resets_done_(asked),
      own_(settings.own_shard, type, asked.size()) {}

void WeightClass::begin_group(const std::vector<std::uint64_t>& asked) {
  const std::uint64_t call = words_.size();
  if (stage_ == Stage::learning) {
    kind_ = GatherKind::recorded;
    const std::uint64_t age = call - start_;
    if (age >= next_exam_) examine(std::bit_floor(age), asked);
  } else if (stage_ == Stage::difference) {
    kind_ = GatherKind::difference;
    read_flags(asked);
  } else {
    kind_ = GatherKind::native;
  }
}

void WeightClass::examine(std::uint64_t exam, const std::vector<std::uint64_t>& asked) {
  const std::uint64_t first = start_ + exam / 4 + 1, last = start_ + exam / 2;
  bool seen = true, small = true, refused = false, wants_reset = false;
  std::size_t most = 1;
  for (std::uint64_t i = std::exchange(heard_, std::max(heard_, last + 1)); i <= last; ++i) {
    wants_reset = wants_reset || words_[i].reset;
    if (i < first) continue;
    seen = seen && words_[i].seen;
    small = small && words_[i].small;
    refused = refused || words_[i].refused;
    most = std::max(most, words_[i].slots);
  }
  if (wants_reset) return reset(asked);
  next_exam_ = 2 * exam;
  if (slots_ != 0) {
    if (refused) {
      stage_ = Stage::given_up;
      kind_ = GatherKind::native;
    } else if (words_[last].ready) {
      stage_ = Stage::difference;
      kind_ = GatherKind::difference;
      read_ = rounds_start_ = words_.size();
      round_ = history_ = 0;
      native_round_ = false;
      next_refresh_ = words_.size() + round_length();
    }
    return;
  }
  if (!seen || !small) return;
  slots_ = most;
  ledger_.clear();
  wants_ledger_ = true;
}

void WeightClass::read_flags(const std::vector<std::uint64_t>& asked) {
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
    own_.hear(word.said, call + slots_ - (call - rounds_start_) % slots_);
    if (word.reset) return reset(asked);
    for (const std::uint64_t round = (read_++ - rounds_start_) / slots_; round_ < round; ++round_)
      close_round(false);
    if (!word.jump || settings_.vote) continue;
    close_round(true);
    if ((history_ & 7) == 7 || std::popcount(history_) > 16) return learn_again();
    return start_native_round();
  }
  own_.begin_group(call);
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
  if (failures_ <= 2) return start_learning();
  start_learning();
  stage_ = Stage::given_up;
  kind_ = GatherKind::native;
}

void WeightClass::reset(const std::vector<std::uint64_t>& asked) {
  failures_ = 0;
  failed_slots_ = 0;
  resets_done_ = asked;
  start_learning();
}

void WeightClass::start_learning() {
  slots_ = 0;
  ledger_.clear();
  for (auto& slots : slots_of_) slots.clear();
  for (auto& samples : samples_) samples.clear();
  stage_ = Stage::learning;
  kind_ = GatherKind::recorded;
  start_ = heard_ = words_.size();
  next_exam_ = 4;
  wants_ledger_ = refused_ = false;
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

bool WeightClass::is_small(std::size_t rank, std::size_t slot, const Values& shard,
                           std::vector<bool>& starved) {
  if (!sample_memory_[rank].contains(slot)) {
    if (!allocate(starved, rank)) return false;
    sample_memory_[rank].insert(slot);
  }
  const auto known = samples_[rank].find(slot);
  bool small = false;
  if (known != samples_[rank].end()) {
    const Sizes sum = sizes(shard, known->second, settings_.weight_group, kSampled);
    small = sum.difference * 16 <= sum.weight;
  }
  samples_[rank][slot] = shard;
  return small;
}

void WeightClass::allocate_ledger(std::vector<bool>& starved) {
  wants_ledger_ = false;
  own_.forget_answers();
  const bool probes = settings_.own_shard == "auto";
  for (std::size_t rank = 0; rank < ledger_memory_.size(); ++rank) {
    if (ledger_memory_[rank] != slots_) ledger_memory_[rank] = allocate(starved, rank) ? slots_ : 0;
    if (probes && ledger_memory_[rank] != 0 && !probe_memory_[rank])
      probe_memory_[rank] = allocate(starved, rank);
    refused_ = refused_ || ledger_memory_[rank] == 0 || (probes && !probe_memory_[rank]);
  }
}

bool WeightClass::wants_reset(const std::vector<std::uint64_t>& asked) const {
  for (std::size_t rank = 0; rank < asked.size(); ++rank) {
    if (asked[rank] == resets_done_[rank]) return false;
  }
  return true;
}

OwnShards::Said WeightClass::said_by_all() const {
  OwnShards::Said all{.replica = true, .perhaps_replica = true, .master = false};
  for (std::size_t rank = 0; rank < slots_of_.size(); ++rank) {
    const OwnShards::Said said = own_.said(rank);
    all.replica = all.replica && said.replica;
    all.perhaps_replica = all.perhaps_replica && said.perhaps_replica;
    all.master = all.master || said.master;
  }
  return all;
}

void WeightClass::record(Gather& gather, const std::vector<std::uint64_t>& asked,
                         std::vector<bool>& starved) {
  if (wants_ledger_) allocate_ledger(starved);
  const bool agreed = slots_ != 0;
  Word word{.seen = true, .small = true, .ready = agreed && !refused_, .refused = refused_, .jump = false};
  word.reset = wants_reset(asked);
  for (std::size_t rank = 0; rank < gather.size(); ++rank) {
    OwnSlice& slice = gather.ranks[rank];
    const std::size_t slot = find(rank, slice.address, slice.seen);
    if (!agreed && !slice.seen) samples_[rank].erase(slot);
    const bool small = !agreed && is_small(rank, slot, slice.given, starved);
    if (agreed) ledger_[{rank, slot}] = slice.given;
    gather.shards[rank] = own_.answer(rank, calls(), std::max<std::size_t>(slots_, 1), slice, false);
    word.seen = word.seen && slice.seen;
    word.small = word.small && small;
    word.slots = std::max(word.slots, slots_of_[rank].size());
  }
  words_.push_back(word);
}

void WeightClass::pass(Gather& gather) {
  for (std::size_t rank = 0; rank < gather.size(); ++rank)
    gather.shards[rank] = own_.answer(rank, calls(), 1, gather.ranks[rank], false);
  ++passed_;
}

std::vector<Values> WeightClass::start_difference(Gather& gather, const std::vector<std::uint64_t>& asked) {
  std::vector<Values> before;
  current_.clear();
  jumps_ = voted_down_ = false;
  reset_wanted_ = wants_reset(asked);
  for (std::size_t rank = 0; rank < gather.size(); ++rank) {
    OwnSlice& slice = gather.ranks[rank];
    current_.push_back(find(rank, slice.address, slice.seen));
    Values& entry = ledger_[{rank, current_.back()}];
    if (entry.empty()) entry.assign(slice.given.size(), 0.0);
    before.push_back(finite(entry));
    const auto jumps = [&](const Values& shard) {
      const Sizes sum = sizes(shard, before.back(), settings_.weight_group, 1);
      return !(sum.difference * 4 <= sum.weight);
    };
    voted_down_ = voted_down_ || (settings_.vote && jumps(slice.given));
    gather.shards[rank] = own_.answer(rank, calls(), slots_, slice, true);
    jumps_ = jumps_ || jumps(gather.shards[rank]);
  }
  return before;
}

std::string WeightClass::look_for_step(std::size_t rank, const Gather& gather, const Values& before) {
  return own_.look_for_step(rank, calls(), slots_, gather.ranks[rank], gather.shards[rank], before);
}

void WeightClass::end_difference(const std::vector<Values>& results) {
  for (std::size_t rank = 0; rank < results.size(); ++rank) ledger_[{rank, current_[rank]}] = results[rank];
  Word word{.seen = true, .ready = true, .jump = jumps_};
  // Where a vote made it native, ranks have said no more than their votes.
  if (!voted_down_) {
    word.reset = reset_wanted_;
    word.said = said_by_all();
  }
  words_.push_back(word);
}

}  // namespace sdp4bit::model
