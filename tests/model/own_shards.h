// What the documentation says of SDP4BIT_OWN_SHARD: what owners leave in their slices, and with "auto" what
// they learn from small steps there. Steps are read from what a program left, answers follow from them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "values.h"

namespace sdp4bit::model {

/// One rank's part in a gather of a class.
struct OwnSlice {
  std::uint64_t address = 0;  // of the receive buffer
  bool in_place = false;
  bool seen = false;  // the class knows the buffer
  Values given;       // the shard, as the program had it when the call ran
  Values left;        // what was in the own slice behind the call
};

/// Of one class, all ranks.
class OwnShards {
 public:
  enum class Rule { asks, replica, exact };
  /// What a rank's differences say.
  struct Said {
    bool replica = false;
    bool perhaps_replica = false;  // whether a step was too small to be seen is not known
    bool master = false;
  };

  OwnShards(const std::string& option, ncclDataType_t type, std::size_t ranks);

  // All ranks alike:
  void hear(const Said& of_all, std::uint64_t next_round);
  void begin_group(std::uint64_t call);
  [[nodiscard]] Rule rule() const { return rule_; }
  [[nodiscard]] bool asked() const { return asked_; }
  /// While it asks: the slices may be replicas already. Then look, and say it.
  [[nodiscard]] bool may_be_replica() const { return may_be_replica_; }
  void saw_replica() { rule_ = Rule::replica; }
  /// The ledger is new, and so is what was known of steps.
  void forget_answers();

  // One rank:
  /// What it gives when the step in its slice, if there is one, was answered. `difference`: else the call is
  /// NCCL's, and the step is taken out behind it.
  Values answer(std::size_t rank, std::uint64_t call, std::size_t slots, const OwnSlice& slice,
                bool difference);
  [[nodiscard]] Said said(std::size_t rank) const;
  /// While it asks: whether the slice is what was given, or that with a step towards `before`'s distance.
  [[nodiscard]] std::string look_for_step(std::size_t rank, std::uint64_t call, std::size_t slots,
                                          const OwnSlice& slice, const Values& given, const Values& before);

 private:
  struct Step {
    std::uint64_t address = 0, forgotten_at = 0;
    Values before, after;
  };
  struct Asking {
    std::optional<Step> step;
    bool ever_in_place = false, master = false;
    int surely_gone = 0, perhaps_gone = 0;  // answers in a row that the step was overwritten
  };

  ncclDataType_t type_;
  bool asked_;  // it began without a rule
  Rule rule_;
  std::uint64_t replica_from_ = 0, perhaps_from_ = 0;  // class calls; 0: never
  bool may_be_replica_ = false;
  std::vector<Asking> ranks_;
};

}  // namespace sdp4bit::model
