// What an execution left, held against what it should have: values, bits, and bytes that had to stay.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "comm_model.h"
#include "gradient_bound.h"
#include "plan.h"
#include "program.h"
#include "trace.h"
#include "weight_model.h"

namespace sdp4bit::model {

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Functions that look throw Wrong.
class Result {
 public:
  Result(const Program& program, const Plan& plan, const Trace& trace, const Execution& execution,
         const CommModel& comm, Fate fate);

  [[noreturn]] void wrong(int place, const std::string& text) const;
  [[nodiscard]] int ranks() const { return comm_.communicator.ranks(); }
  [[nodiscard]] int member(int place) const {
    return comm_.communicator.members[static_cast<std::size_t>(place)];
  }

  void look_at_untouched() const;
  /// Of a ReduceScatter, AllReduce, broadcast or ring.
  void look_at_numbers() const;
  /// What ranks gave to an AllGather and where, with what is in their own slices now.
  [[nodiscard]] Gather gather() const;
  /// Everything arrived exactly; own slices hold what `shards` say.
  void look_at_exact(const Gather& gather) const;
  /// All but owners hold the same: shards within the bound of coding their distance from `before`.
  void look_at_coded(const Gather& gather, const std::vector<Values>& before, const CodecSettings& codec,
                     std::size_t group) const;
  /// Whether an owner's slice is what the others hold; else bit by bit `exact`.
  [[nodiscard]] bool own_slice_is_held(int sender) const;
  [[nodiscard]] bool own_slice_is(int sender, const Values& exact) const;
  /// In words.
  [[nodiscard]] std::string difference(int sender, const Values& expected) const;
  /// What the ledger holds behind a difference, by sender.
  [[nodiscard]] std::vector<Values> held() const;

 private:
  [[nodiscard]] const Record& record(int place) const;
  [[nodiscard]] const std::byte* snapshot(int place) const;
  [[nodiscard]] const std::byte* output(int place) const {
    return snapshot(place) + record(place).output_offset;
  }
  [[nodiscard]] const std::byte* slice(int place, int sender) const;
  [[nodiscard]] std::vector<std::byte> bytes_of_shard(const Values& shard) const;
  /// A rank whose copy of `sender`'s shard is what the ledger holds.
  [[nodiscard]] static int holder(int sender) { return sender == 0 ? 1 : 0; }
  [[nodiscard]] GradientBound bound(const std::vector<Values>& inputs, int owner) const;
  void look_at_shard(int sender, const Values& shard, const Values& before, const CodecSettings& codec,
                     std::size_t group) const;

  const Program& program_;
  const Plan& plan_;
  const Trace& trace_;
  const Execution& execution_;
  const Call& call_;
  const CommModel& comm_;
  const Fate fate_;
  const std::size_t count_;
  const ncclDataType_t type_;
  const std::size_t shard_bytes_;
};

}  // namespace sdp4bit::model
