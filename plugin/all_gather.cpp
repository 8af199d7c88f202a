// How a weight travels: finds the class of each gather of a communicator, and makes the call that carries it
// out.
//
//   decide()   gather_class.*       the kind of a group's calls, from what earlier calls said (call_words.*,
//                                   weight_class.*)
//   enroll()   weight_record.*      a native call's record: slots, samples, entries (ledger.*)
//              weight_difference.*  a difference, or a stateless direct call
//              weight_vote.*        a difference that is voted on first
#include "plugin/all_gather.h"

#include <deque>
#include <optional>
#include <vector>

#include "plugin/call_words.h"
#include "plugin/comm_state.h"
#include "plugin/gather_class.h"
#include "plugin/gather_step.h"
#include "plugin/log.h"
#include "plugin/probe_call.h"
#include "plugin/weight_difference.h"
#include "plugin/weight_layout.h"
#include "plugin/weight_record.h"
#include "plugin/weight_tables.h"
#include "plugin/weight_vote.h"

namespace sdp4bit {
namespace {

constexpr std::size_t kMostClasses = 64;

/// Calls of one kind, reused from group to group.
template <typename Call>
class CallPool {
 public:
  Call& next() {
    if (used_ == calls_.size()) calls_.emplace_back();
    return calls_[used_++];
  }
  void reuse() { used_ = 0; }

 private:
  std::deque<Call> calls_;
  std::size_t used_ = 0;
};

void warn_workspace_too_small(std::size_t count) {
  static Once once;
  if (!once.first()) return;
  log_warn(
      "SDP4BIT_WORKSPACE of %llu bytes is too small for AllGathers of %zu elements per rank: they stay "
      "with NCCL; set a larger one on all ranks (said once)",
      static_cast<unsigned long long>(config().workspace), count);
}

}  // namespace

struct WeightState::Impl {
  explicit Impl(CommState& of_comm)
      : comm(of_comm),
        ledger_tables(weight_path(of_comm.topology, config()), of_comm.topology),
        direct_tables(config().weight_direct ? direct_path(of_comm.topology) : WeightPath::none,
                      of_comm.topology) {}

  [[nodiscard]] GatherClass* find(std::size_t count, ElementType type);
  [[nodiscard]] bool takes_class(std::size_t count, ElementType type) const;
  [[nodiscard]] bool goes_direct(std::size_t count, ElementType type) const;
  void begin_group(std::uint64_t epoch);
  [[nodiscard]] std::uint64_t other_ledger_bytes(const GatherClass& gathers) const;
  [[nodiscard]] DifferencePlan plan_direct(GatherClass* gathers, const AllGatherArgs& args);
  PhasedCall* enroll_native(GatherClass& gathers, const AllGatherArgs& args);
  PhasedCall* enroll_record(GatherClass& gathers, const AllGatherArgs& args);
  PhasedCall* enroll_difference(DifferencePlan plan, const Ledger* voted, std::uint64_t epoch);

  CommState& comm;
  WeightTables ledger_tables;
  WeightTables direct_tables;
  WordsPool words;
  std::deque<GatherClass> classes;
  std::uint64_t direct_calls = 0;
  CallPool<RecordCall> records;
  CallPool<DifferenceCall> differences;
  CallPool<VotedCall> votes;
  CallPool<ProbeCall> probe_calls;
  std::vector<CallWords*> vote_answers;  // of the last group: read by now
  std::uint64_t pool_epoch = 0;
};

GatherClass* WeightState::Impl::find(std::size_t count, ElementType type) {
  for (GatherClass& gathers : classes) {
    if (gathers.holds(count, type)) return &gathers;
  }
  return nullptr;
}

bool WeightState::Impl::takes_class(std::size_t count, ElementType type) const {
  const Config& options = config();
  if (ledger_tables.path == WeightPath::none || classes.size() >= kMostClasses) return false;
  const bool fits = weight_chunk_length(count, type, ledger_tables.path, options.weight_codec(),
                                        comm.topology, options.workspace) != 0 &&
                    record_layout(count, options.weight_group, comm.ranks).bytes <= options.workspace &&
                    (!options.weight_vote ||
                     VotedCall::vote_bytes(count, options.weight_group, comm.ranks) <= options.workspace);
  if (!fits) warn_workspace_too_small(count);
  return fits;
}

bool WeightState::Impl::goes_direct(std::size_t count, ElementType type) const {
  if (direct_tables.path == WeightPath::none || type == ElementType::float32) return false;
  const bool fits = weight_chunk_length(count, type, direct_tables.path, config().direct_codec(),
                                        comm.topology, config().workspace) != 0;
  if (!fits) warn_workspace_too_small(count);
  return fits;
}

/// The last group's calls have run.
void WeightState::Impl::begin_group(std::uint64_t epoch) {
  if (pool_epoch == epoch) return;
  records.reuse();
  differences.reuse();
  votes.reuse();
  probe_calls.reuse();
  for (CallWords* const answer : vote_answers) words.give_back(answer);
  vote_answers.clear();
  pool_epoch = epoch;
}

std::uint64_t WeightState::Impl::other_ledger_bytes(const GatherClass& gathers) const {
  std::uint64_t bytes = 0;
  for (const GatherClass& other : classes) {
    if (&other != &gathers) bytes += other.ledger().bytes();
  }
  return bytes;
}

/// `gathers`: the class, if there is one, which is native for good; some buffer may still carry a step.
DifferencePlan WeightState::Impl::plan_direct(GatherClass* gathers, const AllGatherArgs& args) {
  const ProbeArgs probe = gathers ? gathers->plan_native(args) : ProbeArgs{};
  return {.comm = &comm,
          .tables = &direct_tables,
          .shard = {.type = element_type(args.type).value(),
                    .codec = config().direct_codec(),
                    .shard = args.count,
                    .offset = 0,
                    .count = args.count,
                    .chunk = 0,
                    .class_number = kDirectClass,
                    .class_call = direct_calls++,
                    .slots = 0},
          .args = args,
          .replica = config().own_shard == OwnShard::replica,
          .probe = probe.probe,
          .visit = {.answer = probe.answer, .moved = probe.moved}};
}

/// Native for good, but some buffer may still carry a step.
PhasedCall* WeightState::Impl::enroll_native(GatherClass& gathers, const AllGatherArgs& args) {
  const ProbeArgs probe = gathers.plan_native(args);
  if (!probe.answer) return nullptr;
  ProbeCall& call = probe_calls.next();
  call.set(comm, args.stream, probe);
  return &call;
}

PhasedCall* WeightState::Impl::enroll_record(GatherClass& gathers, const AllGatherArgs& args) {
  if (gathers.wants_ledger()) gathers.allocate_ledger(other_ledger_bytes(gathers));
  RecordCall& record = records.next();
  record.set(gathers.plan_record(args));
  return &record;
}

/// With a ledger to vote on: each gather is voted on first.
PhasedCall* WeightState::Impl::enroll_difference(DifferencePlan plan, const Ledger* voted,
                                                 std::uint64_t epoch) {
  plan.sampled = comm.sampling.takes(Collective::all_gather, epoch);
  const auto count = [&](const DifferenceCall& call) {
    const LinkBytes native =
        comm.native(Collective::all_gather).of(plan.args.count * element_bytes(plan.shard.type));
    count_sent(*comm.stats, Collective::all_gather, native, call.sent_bytes());
  };
  if (voted) {
    CallWords* const answer = words.take();
    vote_answers.push_back(answer);
    VotedCall& call = votes.next();
    call.set(plan, voted->slot_count(), answer);
    count(call.difference());
    return &call;
  }
  DifferenceCall& call = differences.next();
  call.set(plan);
  count(call);
  return &call;
}

WeightState::WeightState(CommState& comm) : impl_(std::make_unique<Impl>(comm)) {
  static Once once;
  if (config().weight_direct == 4 && once.first()) {
    log_warn("SDP4BIT_WEIGHT_DIRECT=4 loses accuracy at every gather: it is for comparison only");
  }
}
WeightState::~WeightState() = default;

GatherKind WeightState::decide(const AllGatherArgs& call, std::uint64_t epoch) {
  const ElementType type = element_type(call.type).value();
  GatherClass* const gathers = impl_->find(call.count, type);
  return gather_kind(
      gathers ? std::optional(gathers->kind_in(epoch)) : std::nullopt,
      [&] { return impl_->takes_class(call.count, type); },
      [&] { return impl_->goes_direct(call.count, type); });
}

ClassStanding WeightState::standing(const AllGatherArgs& call) const {
  const GatherClass* const gathers = impl_->find(call.count, element_type(call.type).value());
  return gathers ? gathers->standing() : ClassStanding{};
}

PhasedCall* WeightState::enroll(const AllGatherArgs& call, GatherKind kind, std::uint64_t epoch) {
  impl_->begin_group(epoch);
  const ElementType type = element_type(call.type).value();
  GatherClass* gathers = impl_->find(call.count, type);
  switch (gather_step(kind, gathers ? std::optional(gathers->stage()) : std::nullopt,
                      [&] { return impl_->takes_class(call.count, type); })) {
    case GatherStep::nothing:
      break;
    case GatherStep::native:
      return impl_->enroll_native(*gathers, call);
    case GatherStep::first_record:
      gathers = &impl_->classes.emplace_back(impl_->comm, static_cast<std::uint32_t>(impl_->classes.size()),
                                             call.count, type, impl_->ledger_tables, impl_->words, epoch);
      return impl_->enroll_record(*gathers, call);
    case GatherStep::record:
      return impl_->enroll_record(*gathers, call);
    case GatherStep::difference:
      return impl_->enroll_difference(gathers->plan_difference(call),
                                      config().weight_vote ? &gathers->ledger() : nullptr, epoch);
    case GatherStep::direct:
      return impl_->enroll_difference(impl_->plan_direct(gathers, call), nullptr, epoch);
  }
  return nullptr;
}

}  // namespace sdp4bit
