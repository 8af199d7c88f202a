// What design and documentation say of weights: which gathers of a class are native, recorded or differences,
// which slot each rank uses, and what the ledger holds. Host data only; nothing of the library's code.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "settings.h"
#include "values.h"

namespace sdp4bit::model {

enum class GatherKind { native, recorded, difference, direct };

/// One gather of a class: addresses and shards by rank.
struct Gather {
  std::vector<std::uint64_t> receive;
  std::vector<Values> shards;
};

/// All gathers of one count and type on a communicator.
class WeightClass {
 public:
  WeightClass(const Settings& settings, std::size_t ranks)
      : settings_(settings), slots_of_(ranks), samples_(ranks) {}

  /// At the first call of a group.
  void begin_group();
  [[nodiscard]] GatherKind kind() const { return kind_; }

  /// A recorded or voted-down call has run: everything arrived exactly.
  void record(const Gather& gather);
  /// A difference is about to run. What each rank's shard is coded against, by rank; NaNs read as zero.
  [[nodiscard]] std::vector<Values> start_difference(const Gather& gather);
  /// Whether a rank's difference is a jump: with votes the call is then native.
  [[nodiscard]] bool jumps() const { return jumps_; }
  /// It ran; `results` by sender.
  void end_difference(const std::vector<Values>& results);
  void end_voted_down(const Gather& gather);

 private:
  enum class Stage { learning, difference, given_up };
  struct Word {
    bool seen = false, small = false, ready = false, jump = false;
    std::size_t slots = 0;
  };
  struct Slot {
    std::uint64_t address, last_use;
  };

  std::size_t find(std::size_t rank, std::uint64_t address, bool& seen);
  [[nodiscard]] bool is_small(std::size_t rank, std::size_t slot, const Values& shard);
  void examine(std::uint64_t exam);
  void read_flags();
  void close_round(bool jumped) { history_ = history_ << 1 | (jumped ? 1u : 0u); }
  void start_native_round();
  void learn_again();
  [[nodiscard]] std::uint64_t round_length() const { return settings_.refresh * slots_; }

  const Settings& settings_;
  Stage stage_ = Stage::learning;
  GatherKind kind_ = GatherKind::recorded;
  std::vector<Word> words_;  // by call of the class
  std::uint64_t start_ = 0, next_exam_ = 4;
  std::size_t slots_ = 0;  // agreed
  std::uint64_t native_until_ = 0, next_refresh_ = 0, rounds_start_ = 0, read_ = 0, round_ = 0, history_ = 0;
  bool native_round_ = false;
  std::size_t failed_slots_ = 0;
  int failures_ = 0;

  std::vector<std::vector<Slot>> slots_of_;                       // by rank
  std::vector<std::map<std::size_t, Values>> samples_;            // by rank and slot
  std::map<std::pair<std::size_t, std::size_t>, Values> ledger_;  // by sender and slot
  std::vector<std::size_t> current_;                              // slots of the call under way
  std::uint64_t uses_ = 0;
  bool jumps_ = false;
};

}  // namespace sdp4bit::model
