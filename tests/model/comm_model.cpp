// The handshake's verdict, and the rules in order; see comm_model.h.
#include "comm_model.h"

#include <algorithm>

namespace sdp4bit::model {
namespace {

bool listed(const std::string& list, ncclDataType_t type) {
  return ("," + list + ",").find(std::string(",") + name_of(type) + ",") != std::string::npos;
}

constexpr unsigned kGradients = 1, kWeights = 2;  // of a hint

}  // namespace

const char* name_of(Fate fate) {
  switch (fate) {
    case Fate::native:
      return "native";
    case Fate::compressed:
      return "compressed";
    case Fate::recorded:
      return "recorded";
    case Fate::difference:
      return "difference";
    default:
      return "direct";
  }
}

Shape shape_of(const Program& program, const Call& call) {
  if (call.function != Function::all_gather) return {call.count, call.type};
  const Weight& weight = program.weights[static_cast<std::size_t>(call.buffer)];
  return {weight.count, weight.type};
}

CommModel::CommModel(const Program& program, const Communicator& of)
    : communicator(of),
      settings(settings_of(program, program.process_of(of.members[0]))),
      nodes(nodes_of(program, of, settings)),
      program_(program),
      hints_(of.members.size()),
      resets_asked_(of.members.size(), 0) {}

/// Before the first call; later ones come too late.
void CommModel::hint(RankSet ranks, unsigned carries) {
  for (std::size_t place = 0; launched_ == 0 && place < hints_.size(); ++place) {
    if (has(ranks, communicator.members[place])) hints_[place] = {carries};
  }
}

void CommModel::ask_for_reset(RankSet ranks) {
  // Before the first call there is nothing to forget.
  for (std::size_t place = 0; launched_ != 0 && place < resets_asked_.size(); ++place) {
    if (has(ranks, communicator.members[place])) ++resets_asked_[place];
  }
}

/// With the first call. A hint counts where all ranks gave one; then it says more than name and size do.
void CommModel::agree(RankSet starved) {
  const bool hinted =
      std::none_of(hints_.begin(), hints_.end(), [](const auto& hint) { return hint.empty(); });
  const auto all_carry = [&](unsigned what) {
    return !hinted ||
           std::all_of(hints_.begin(), hints_.end(), [&](const auto& hint) { return (hint[0] & what) != 0; });
  };
  carries_gradients_ = all_carry(kGradients);
  carries_weights_ = all_carry(kWeights);
  agreed_ = (carries_gradients_ || carries_weights_) && same_settings(program_, communicator) &&
            settings.enable && communicator.nonblocking == 0;
  for (const int member : communicator.members) {
    agreed_ = agreed_ && !has(starved, member) && (hinted || selects(program_, communicator, member));
  }
  if (needs_nodes(settings)) agreed_ = agreed_ && nodes.count() > 1;
}

Fate CommModel::decide(const Call& call, std::size_t step, bool captured) {
  if (!is_ours(call.function)) return Fate::native;
  const bool gradient = call.function == Function::reduce_scatter;
  const Shape shape = shape_of(program_, call);
  const auto& [count, type] = shape;
  const auto ranks = static_cast<std::size_t>(communicator.ranks());
  if (count == 0 || ranks == 1) return Fate::native;
  if (!captured && group_ != step) {
    group_ = step;
    before_group_ = launched_;
    if (launched_ >= 3) read_ = true;
  }
  if (captured && !(gradient && gradients_before_)) return Fate::native;
  if (!read_ || !agreed_) return Fate::native;
  if (!(gradient ? settings.reduce_scatter : settings.all_gather)) return Fate::native;
  if (!(gradient ? carries_gradients_ : carries_weights_)) return Fate::native;
  if (!listed(gradient ? settings.gradient_types : settings.weight_types, type)) return Fate::native;
  if (gradient && call.reduction == Reduction::max) return Fate::native;
  if (count * bytes_of(type) * ranks < settings.min_bytes) return Fate::native;
  if (before_group_ < settings.start_call) return Fate::native;
  return gradient ? Fate::compressed : decide_gather(shape, step);
}

bool CommModel::holds_ledgers() const {
  return settings.ledger == "full" || (settings.ledger == "node" && nodes.equal && nodes.count() > 1);
}

Fate CommModel::decide_gather(const Shape& shape, std::size_t step) {
  const auto found = classes_.find(shape);
  const bool direct = settings.direct != 0 && shape.second != ncclFloat32;
  if (found == classes_.end()) {
    return holds_ledgers() ? Fate::recorded : direct ? Fate::direct : Fate::native;
  }
  if (class_group_[shape] != step) {
    class_group_[shape] = step;
    found->second->begin_group(resets_asked_);
  }
  switch (found->second->kind()) {
    case GatherKind::recorded:
      return Fate::recorded;
    case GatherKind::difference:
      return Fate::difference;
    default:
      return direct ? Fate::direct : Fate::native;
  }
}

void CommModel::launch(const Call& call, std::size_t step, Fate fate, RankSet starved) {
  const Shape shape = shape_of(program_, call);
  if (is_ours(call.function) && shape.first > 0 && communicator.ranks() > 1 && launched_++ == 0)
    agree(starved);
  if (fate == Fate::compressed) gradients_before_ = true;
  if (fate == Fate::recorded && !classes_.contains(shape)) {
    classes_[shape] = std::make_unique<WeightClass>(settings, shape.second, resets_asked_);
    class_group_[shape] = step;
  }
}

WeightClass* CommModel::weights_of(const Call& call) {
  const auto found = classes_.find(shape_of(program_, call));
  return call.function == Function::all_gather && found != classes_.end() ? found->second.get() : nullptr;
}

}  // namespace sdp4bit::model
