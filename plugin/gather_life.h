// One class of weight gathers on one rank, but for its memory: the kind of a group's calls, their numbers,
// and what the rank says of itself in records and differences. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "kernels/wire_format.h"
#include "plugin/ledger_standing.h"
#include "plugin/weight_class.h"

namespace sdp4bit {

/// What an event means for the ledger.
enum class LedgerStep : std::uint8_t { none, allocate, restart, release };
[[nodiscard]] LedgerStep ledger_step(WeightEvent event);

class GatherLife {
 public:
  /// Made with its class, in the outermost group `epoch`, whose calls are recorded. `votes`: a jump is sent
  /// natively at once.
  GatherLife(const WeightClass& machine, bool votes, std::uint64_t epoch, std::uint64_t resets_asked)
      : machine_(machine),
        votes_(votes),
        calls_(machine.words_begin()),
        epoch_(epoch),
        resets_done_(resets_asked) {}

  [[nodiscard]] WeightStage stage() const { return machine_.stage(); }
  [[nodiscard]] std::uint32_t slots() const { return machine_.slots(); }
  [[nodiscard]] OwnSlices own_slices() const { return machine_.own_slices(); }
  /// While nothing is agreed, records compare with samples.
  [[nodiscard]] bool compares() const { return machine_.slots() == 0; }

  /// Whether the group asks for the first time: then it decides, from the words of the calls
  /// [words_begin(), words_end()), all of which must have arrived.
  [[nodiscard]] bool begins(std::uint64_t epoch) const { return epoch_ != epoch; }
  [[nodiscard]] std::uint64_t words_begin() const { return machine_.words_begin(); }
  [[nodiscard]] std::uint64_t words_end() const { return machine_.words_end(calls_); }
  /// `resets_asked`: the program's requests so far. The words are changed where votes have settled them.
  WeightDecision decide(std::uint64_t epoch, std::span<AgreedWords> words, std::uint64_t resets_asked);
  /// Of the group that decided last.
  [[nodiscard]] WeightKind kind() const { return kind_; }

  /// S was agreed, and memory for it was not asked for yet.
  [[nodiscard]] bool wants_ledger() const { return wants_ledger_; }
  void ledger_was_asked_for() { wants_ledger_ = false; }

  /// The next call's number.
  [[nodiscard]] std::uint64_t calls() const { return calls_; }
  [[nodiscard]] std::uint64_t take_number() { return calls_++; }

  /// WeightFlag bits of the next record. `seen`: the slot is known from before.
  [[nodiscard]] std::uint32_t record_flags(const LedgerStanding& ledger, bool seen,
                                           std::uint64_t resets_asked) const;
  /// ... of the next difference. `was_in_place`: some call of the class was; else the owner's slice is
  /// nobody's master.
  [[nodiscard]] std::uint32_t difference_flags(bool was_in_place, std::uint64_t resets_asked) const;

  [[nodiscard]] WeightClass::Outlook outlook() const { return machine_.outlook(calls_); }
  [[nodiscard]] bool wants_reset(std::uint64_t resets_asked) const { return resets_asked != resets_done_; }

 private:
  WeightClass machine_;
  bool votes_;
  std::uint64_t calls_;  // the next one's number
  std::uint64_t epoch_;  // the outermost group that `kind_` holds for
  WeightKind kind_ = WeightKind::recorded;
  bool wants_ledger_ = false;
  std::uint64_t resets_done_;  // of the program's requests
};

}  // namespace sdp4bit
