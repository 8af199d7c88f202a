// What design and documentation say of weights: which gathers of a class are native, recorded or differences,
// which slot each rank uses, and what the ledger holds. Host data only; nothing of the library's code.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "own_shards.h"
#include "settings.h"
#include "values.h"

namespace sdp4bit::model {

enum class GatherKind { native, recorded, difference };

/// One gather of a class, by rank.
struct Gather {
  std::vector<OwnSlice> ranks;
  std::vector<Values> shards;  // what reaches the others; until a step is answered what ranks gave

  [[nodiscard]] std::size_t size() const { return ranks.size(); }
};

/// All gathers of one count and type on a communicator.
class WeightClass {
 public:
  /// `asked`: how often each rank asked to learn anew until now.
  WeightClass(const Settings& settings, ncclDataType_t type, const std::vector<std::uint64_t>& asked);

  /// At the first call of a group.
  void begin_group(const std::vector<std::uint64_t>& asked);
  [[nodiscard]] GatherKind kind() const { return kind_; }
  [[nodiscard]] OwnShards& own() { return own_; }

  /// A recorded call has run: everything arrived exactly. What is left of the own slices then is in `shards`.
  /// `starved`: ranks whose next allocation fails; those that made one are starved no more.
  void record(Gather& gather, const std::vector<std::uint64_t>& asked, std::vector<bool>& starved);
  /// A call of a class that is native for good.
  void pass(Gather& gather);
  /// A difference is about to run: steps are answered. What each rank's shard is coded against, by rank; NaNs
  /// read as zero.
  [[nodiscard]] std::vector<Values> start_difference(Gather& gather, const std::vector<std::uint64_t>& asked);
  /// With votes: whether a rank's difference is a jump, so that the call is native.
  [[nodiscard]] bool voted_down() const { return voted_down_; }
  /// Of the difference under way: "" or what is wrong with a rank's slice.
  [[nodiscard]] std::string look_for_step(std::size_t rank, const Gather& gather, const Values& before);
  /// It ran; `results` by sender.
  void end_difference(const std::vector<Values>& results);

 private:
  enum class Stage { learning, difference, given_up };
  struct Word {
    bool seen = false, small = false, ready = false, refused = false, jump = false, reset = false;
    OwnShards::Said said = {};
    std::size_t slots = 0;
  };
  struct Slot {
    std::uint64_t address, last_use;
  };

  std::size_t find(std::size_t rank, std::uint64_t address, bool& seen);
  [[nodiscard]] bool is_small(std::size_t rank, std::size_t slot, const Values& shard,
                              std::vector<bool>& starved);
  void allocate_ledger(std::vector<bool>& starved);
  [[nodiscard]] bool wants_reset(const std::vector<std::uint64_t>& asked) const;
  [[nodiscard]] OwnShards::Said said_by_all() const;
  void examine(std::uint64_t exam, const std::vector<std::uint64_t>& asked);
  void read_flags(const std::vector<std::uint64_t>& asked);
  void close_round(bool jumped) { history_ = history_ << 1 | (jumped ? 1u : 0u); }
  void start_native_round();
  void learn_again();
  void reset(const std::vector<std::uint64_t>& asked);
  void start_learning();
  [[nodiscard]] std::uint64_t calls() const { return words_.size() + passed_; }
  [[nodiscard]] std::uint64_t round_length() const { return settings_.refresh * slots_; }

  const Settings& settings_;
  Stage stage_ = Stage::learning;
  GatherKind kind_ = GatherKind::recorded;
  std::vector<Word> words_;                              // by call of the class
  std::uint64_t start_ = 0, next_exam_ = 4, heard_ = 0;  // heard_: words that exams have read
  std::size_t slots_ = 0;                                // agreed
  std::uint64_t native_until_ = 0, next_refresh_ = 0, rounds_start_ = 0, read_ = 0, round_ = 0, history_ = 0;
  bool native_round_ = false;
  std::size_t failed_slots_ = 0;
  int failures_ = 0;

  std::vector<std::vector<Slot>> slots_of_;                       // by rank
  std::vector<std::map<std::size_t, Values>> samples_;            // by rank and slot
  std::vector<std::set<std::size_t>> sample_memory_;              // slots that have some, by rank
  std::map<std::pair<std::size_t, std::size_t>, Values> ledger_;  // by sender and slot
  std::vector<std::size_t> ledger_memory_;                        // slots that it is for, by rank; 0: none
  std::vector<bool> probe_memory_;                                // by rank
  bool wants_ledger_ = false, refused_ = false;                   // on some rank
  std::vector<std::size_t> current_;                              // slots of the call under way
  std::uint64_t uses_ = 0, passed_ = 0;                           // passed_: calls that were native for good
  bool jumps_ = false, voted_down_ = false, reset_wanted_ = false;
  std::vector<std::uint64_t> resets_done_;  // by rank
  OwnShards own_;
};

}  // namespace sdp4bit::model
