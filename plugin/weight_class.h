// The life of one class of weight gathers: a pure function from call numbers and agreed words to kinds of
// calls.
//
// Nothing here is of one rank: words are what an earlier call said over all ranks, so every rank's machine
// takes the same steps. Stages, exams, rounds, jumps and refreshes: docs/how_it_works.md, "The ledger"; calls
// are numbered within the class.
#pragma once

#include <array>
#include <cstdint>
#include <span>

namespace sdp4bit {

/// What one earlier call of the class said, over all ranks.
struct AgreedWords {
  bool all_seen = false;        // records: every rank knows the slot from before
  bool all_small = false;       // every rank's difference was small
  bool all_ready = false;       // records: every rank holds its part of the ledger
  bool any_refused = false;     // records: some rank will never hold it
  bool any_jump = false;        // some rank's difference was large
  bool all_replica = false;     // differences: no rank loses anything where its own shard is a replica
  bool any_master = false;      // differences: some rank's own shard is the program's master copy
  bool all_reset = false;       // every rank's program asked to learn anew
  std::uint32_t max_slots = 0;  // records: the largest number of slots a rank used so far

  friend bool operator==(const AgreedWords&, const AgreedWords&) = default;
};

enum class WeightStage : std::uint8_t { learning, difference, native };
enum class WeightKind : std::uint8_t {
  native,
  recorded,
  difference
};  // recorded: native, followed by a record

/// Why a class changed its stage or started a native round; for the log and the counters.
enum class WeightEvent : std::uint8_t {
  none,
  exam_passed,     // S is agreed: allocate the ledger
  ledger_agreed,   // all ranks hold it: differences from now on
  ledger_refused,  // a rank cannot hold it
  never_repeats,   // no pass by the last exam
  never_small,     // slots come again, but with other weights
  jump_round,      // one native round after a jump
  refresh_round,   // one native round because it is time
  learning_again,  // jumps are the rule
  too_many_jumps,  // ... the third time with the same slots
  reset,           // the program asked for it, on all ranks
};

[[nodiscard]] const char* event_name(WeightEvent event);

/// What owners do with their own slices.
enum class OwnSlices : std::uint8_t {
  unknown,  // exact, and asking
  replica,  // they store what the others hold
  exact,    // they keep what the program wrote
};

/// One group's decision for a class.
struct WeightDecision {
  WeightKind kind = WeightKind::recorded;
  WeightEvent event = WeightEvent::none;

  friend bool operator==(const WeightDecision&, const WeightDecision&) = default;
};

/// The numbers behind the decisions. Everybody uses these; a model that tries all ways of a class takes
/// smaller ones.
struct WeightRules {
  std::uint64_t first_exam = 4;    // a power of two, as all exams are
  std::uint64_t large_exam = 512;  // from here on, never small is enough to give up
  std::uint64_t last_exam = 4096;
  std::uint32_t least_lag = 4;  // calls from a flag to what follows from it, where S is smaller
  int jumps_in_a_row = 3;       // rounds, up to `window`
  int window = 64;              // rounds, 1 to 64
  int jumps_in_window = 16;     // more than these are too many
  std::uint32_t failures_allowed = 2;

  friend constexpr bool operator==(const WeightRules&, const WeightRules&) = default;
};

class WeightClass {
 public:
  /// refresh_rounds 0: never. `own`: settled by an option, or unknown. The class's first call is number
  /// `first`.
  explicit WeightClass(std::uint64_t refresh_rounds, OwnSlices own = OwnSlices::replica,
                       const WeightRules& rules = {}, std::uint64_t first = 0)
      : rules_(rules),
        refresh_rounds_(refresh_rounds),
        words_taken_(first),
        own_(own),
        learning_start_(first),
        next_exam_(rules.first_exam) {}

  [[nodiscard]] WeightStage stage() const { return stage_; }
  /// S, the agreed number of slots; 0 while nothing is agreed. A ledger exists exactly while it is above 0.
  [[nodiscard]] std::uint32_t slots() const { return slots_; }

  /// Of the group that decide() was asked for last.
  [[nodiscard]] OwnSlices own_slices() const { return own_; }

  /// Words are asked for in order of calls: [words_begin(), words_end(call)) must be given to decide(call,
  /// ...). Those calls are older than `call` by at least half of an exam or by the lag.
  [[nodiscard]] std::uint64_t words_begin() const { return words_taken_; }
  [[nodiscard]] std::uint64_t words_end(std::uint64_t call) const;

  /// The kind of all calls of the class in the outermost group whose first one is `call`.
  WeightDecision decide(std::uint64_t call, std::span<const AgreedWords> words);

  /// All that the decisions from `call` on depend on, with calls counted from there: of two machines with
  /// equal outlooks each does what the other does, for ever. For models, whose states would never come again
  /// otherwise.
  using Outlook = std::array<std::int64_t, 10>;
  [[nodiscard]] Outlook outlook(std::uint64_t call) const;

  friend bool operator==(const WeightClass&, const WeightClass&) = default;

 private:
  [[nodiscard]] std::uint64_t lag() const { return slots_ > rules_.least_lag ? slots_ : rules_.least_lag; }
  [[nodiscard]] std::uint64_t due_exam(std::uint64_t call) const;
  WeightDecision take_exam(std::uint64_t exam, std::uint64_t call, std::span<const AgreedWords> words);
  WeightDecision next_difference(std::uint64_t call, std::span<const AgreedWords> words);
  WeightDecision start_native_round(std::uint64_t call, WeightEvent event);
  WeightDecision learn_again(std::uint64_t call);
  WeightDecision start_learning(std::uint64_t call, WeightEvent event);
  WeightDecision give_up(WeightEvent event);
  void close_round(bool jumped);
  void judge_own_slices(std::uint64_t call, const AgreedWords& word);

  WeightRules rules_;
  std::uint64_t refresh_rounds_;
  WeightStage stage_ = WeightStage::learning;
  std::uint32_t slots_ = 0;
  std::uint64_t words_taken_;
  OwnSlices own_;
  std::uint64_t replica_from_ = 0;  // call; 0: not agreed

  // learning
  std::uint64_t learning_start_;
  std::uint64_t next_exam_;

  // difference
  std::uint64_t next_refresh_ = 0;
  std::uint64_t native_until_ = 0;  // first call that need not be native
  bool in_native_round_ = false;
  std::uint64_t rounds_start_ = 0;  // first call of the round numbered 0 since the last native round
  std::uint64_t round_ = 0;         // the round whose words are being read
  std::uint64_t history_ = 0;       // one bit a judged round, the youngest lowest; 1: it jumped
  std::uint32_t failed_slots_ = 0;  // S when jumps last led back to learning
  std::uint32_t failures_ = 0;      // how often in a row with that S
};

}  // namespace sdp4bit
