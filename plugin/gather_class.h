// One class of weight gathers on this rank: all of one count and type, their ledger, and what their calls are
// told.
//
// WeightClass is the part that all ranks step through alike, GatherLife what this rank says of itself; here
// is what they mean for its memory, log and counters.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plugin/all_gather.h"
#include "plugin/call_words.h"
#include "plugin/gather_life.h"
#include "plugin/ledger.h"
#include "plugin/probe_schedule.h"
#include "plugin/stats.h"
#include "plugin/weight_difference.h"
#include "plugin/weight_record.h"
#include "plugin/weight_tables.h"

namespace sdp4bit {

class GatherClass {
 public:
  /// `tables` say who holds its entries; the words of its calls come from `pool`. Made in the outermost group
  /// `epoch`, whose calls are recorded.
  GatherClass(CommState& comm, std::uint32_t number, std::size_t count, ElementType type,
              WeightTables& tables, WordsPool& pool, std::uint64_t epoch);

  [[nodiscard]] bool holds(std::size_t count, ElementType type) const {
    return shape_.count == count && shape_.type == type;
  }
  [[nodiscard]] ClassStanding standing() const {
    return {number_ + 1, life_.slots(), static_cast<std::uint32_t>(life_.stage())};
  }
  [[nodiscard]] WeightStage stage() const { return life_.stage(); }
  [[nodiscard]] const Ledger& ledger() const { return ledger_; }

  /// The kind of the class's calls in the outermost group `epoch`: its first question reads what earlier
  /// calls said, and waits for words that are due.
  [[nodiscard]] WeightKind kind_in(std::uint64_t epoch);

  /// The number of slots was agreed, and memory for them was not asked for yet.
  [[nodiscard]] bool wants_ledger() const { return life_.wants_ledger(); }
  /// `other_bytes`: what the ledgers of other classes take.
  void allocate_ledger(std::uint64_t other_bytes);

  /// Each gives the call the class's next number.
  [[nodiscard]] RecordPlan plan_record(const AllGatherArgs& args);
  [[nodiscard]] DifferencePlan plan_difference(const AllGatherArgs& args);
  /// What is left to do for a call of a class that is native for good; `answer` is false if nothing is.
  [[nodiscard]] ProbeArgs plan_native(const AllGatherArgs& args);

 private:
  void wait_for(std::uint64_t call);
  void follow(WeightEvent event);
  void tell(WeightEvent event);
  void say(const char* what) const;
  void note_event(WeightEvent event);
  void note_memory();
  /// The whole shard, as its next call.
  [[nodiscard]] WeightChunk shard() const;
  [[nodiscard]] bool is_in_place(const AllGatherArgs& args) const;
  [[nodiscard]] ProbeSchedule::Visit visit_probe(const AllGatherArgs& args, bool seen, bool may_start);

  CommState& comm_;
  WeightTables& tables_;
  WordsPool& pool_;
  const std::uint32_t number_;
  const LedgerShape shape_;
  const std::string title_;  // for the log
  GatherLife life_;
  Ledger ledger_;
  CallQueue queue_;
  ProbeSchedule probes_;
  std::vector<AgreedWords> read_;  // scratch
  bool was_in_place_ = false;      // some call was
  bool has_jumped_ = false;
  ClassStats& stats_;
};

}  // namespace sdp4bit
