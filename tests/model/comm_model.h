// What all ranks of a communicator know of it, and so what becomes of a call: the documentation's rules.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "plan.h"
#include "program.h"
#include "settings.h"
#include "weight_model.h"

namespace sdp4bit::model {

/// What becomes of a call.
enum class Fate { native, compressed, recorded, difference, direct };
[[nodiscard]] const char* name_of(Fate fate);

/// Count and type of a call.
using Shape = std::pair<std::size_t, ncclDataType_t>;
[[nodiscard]] Shape shape_of(const Program& program, const Call& call);

class CommModel {
 public:
  CommModel(const Program& program, const Communicator& of);

  const Communicator& communicator;
  const Settings settings;
  const Nodes nodes;

  void hint(RankSet ranks, unsigned carries);
  void ask_for_reset(RankSet ranks);
  /// The decision on a call of step `step`: all of a step's calls are one group.
  [[nodiscard]] Fate decide(const Call& call, std::size_t step, bool captured);
  /// The call was launched. `starved`: ranks of the job whose next allocation fails; see WeightClass.
  void launch(const Call& call, std::size_t step, Fate fate, RankSet starved);
  /// nullptr where the call is none of a class.
  [[nodiscard]] WeightClass* weights_of(const Call& call);
  [[nodiscard]] const std::vector<std::uint64_t>& resets_asked() const { return resets_asked_; }

 private:
  [[nodiscard]] bool holds_ledgers() const;
  void agree(RankSet starved);
  Fate decide_gather(const Shape& shape, std::size_t step);

  const Program& program_;
  std::vector<std::vector<unsigned>> hints_;  // by place; none or one
  bool agreed_ = false, carries_gradients_ = true, carries_weights_ = true;
  std::uint64_t launched_ = 0, before_group_ = 0;
  std::size_t group_ = ~std::size_t{0};  // step of the last group that counted
  bool read_ = false;                    // the handshake
  bool gradients_before_ = false;
  std::vector<std::uint64_t> resets_asked_;  // by place
  std::map<Shape, std::unique_ptr<WeightClass>> classes_;
  std::map<Shape, std::size_t> class_group_;  // step of the last group that decided
};

}  // namespace sdp4bit::model
