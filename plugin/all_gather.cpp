// How a weight travels. Until its ledger is here: as NCCL sends it.
#include "plugin/all_gather.h"

namespace sdp4bit {

struct WeightState::Impl {};

WeightState::WeightState(CommState&) : impl_(std::make_unique<Impl>()) {}
WeightState::~WeightState() = default;
GatherKind WeightState::decide(const AllGatherArgs&, std::uint64_t) { return GatherKind::native; }
PhasedCall* WeightState::enroll(const AllGatherArgs&, GatherKind, std::uint64_t) { return nullptr; }

}  // namespace sdp4bit
