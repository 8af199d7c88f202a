// A group of the program on one rank: what plugin/group*.cpp, all_gather.cpp and gather_class.cpp do around
// the decisions, without memory and devices.
#include "rank.h"

#include <algorithm>
#include <optional>

#include "plugin/agreed_words.h"
#include "plugin/gather_step.h"
#include "plugin/policy.h"
#include "verdicts.h"

namespace agreement {
namespace {

using namespace sdp4bit;

constexpr std::size_t kElements = std::size_t{1} << 24;  // far above SDP4BIT_MIN_BYTES
constexpr std::uint8_t kOwnRefresh = 3;                  // for a mistake

/// A group under way.
class GroupOfRank {
 public:
  GroupOfRank(World& world, std::uint32_t rank, const Setting& setting, Choices& choices)
      : world_(world), index_(rank), rank_(world.rank[rank]), setting_(setting), choices_(choices) {}

  [[nodiscard]] bool run();
  [[nodiscard]] bool finish_votes();

 private:
  struct Taken {
    ProgramCall call;
    Reason reason = Reason::compressed;
    GatherKind gather = GatherKind::native;
    bool counts = true;
    bool tracked = false;
  };

  /// 0, or a fact that is not the usual one.
  [[nodiscard]] std::uint32_t deviate(std::uint32_t options) {
    return setting_.scenario.endless ? choices_.pick(options) : choices_.deviate(options, world_.deviations);
  }
  [[nodiscard]] bool is(Mistake mistake) const { return setting_.mistake == mistake; }
  [[nodiscard]] const ProgramGroup& choose_group();
  [[nodiscard]] bool take(const ProgramCall& call);
  [[nodiscard]] bool enter_group();
  void check_agreement() const;
  void launch();
  void enroll(const Taken& taken);
  void enroll_record(const Taken& taken, RankClass& gathers);
  void enroll_difference(const Taken& taken, RankClass& gathers);
  void issue(Operation::Kind kind, std::uint8_t count) { issued_.push_back({.kind = kind, .count = count}); }
  void maybe_fail();
  void commit(std::uint64_t part);
  void tell_group() const;

  [[nodiscard]] RankClass* find(std::uint8_t count);
  [[nodiscard]] bool can_be_made();
  /// Nothing where words have not arrived.
  [[nodiscard]] std::optional<WeightKind> kind_of(RankClass& gathers);
  [[nodiscard]] std::optional<std::vector<AgreedWords>> words_for(const RankClass& gathers);
  void follow(RankClass& gathers, WeightEvent event);
  [[nodiscard]] const void* address_of(const ProgramCall& call);
  [[nodiscard]] Operation numbered(Operation::Kind kind, RankClass& gathers);
  [[nodiscard]] std::uint64_t epoch() const { return rank_.groups_done + 1; }

  World& world_;
  const std::uint32_t index_;
  Rank& rank_;
  const Setting& setting_;
  Choices& choices_;
  std::vector<Taken> calls_;
  std::vector<Operation> issued_;
  std::vector<std::uint16_t> decisions_;
};

const ProgramGroup& GroupOfRank::choose_group() {
  const std::span groups = setting_.scenario.groups;
  const std::size_t place = rank_.groups_done - world_.first_group;
  if (place == world_.program.size()) {
    world_.program.push_back(
        static_cast<std::uint8_t>(choices_.pick(static_cast<std::uint32_t>(groups.size()))));
  }
  return groups[world_.program[place]];
}

bool GroupOfRank::run() {
  const ProgramGroup& group = choose_group();
  if (setting_.scenario.resets && deviate(2) != 0) {
    ++rank_.resets_asked;
    setting_.tell("rank " + std::to_string(index_) + ": its program asks to learn anew");
  }
  for (std::size_t i = 0; i < group.size; ++i) {
    if (!take(group.calls[i])) return false;
    if (rank_.status == Rank::Status::refused) break;
  }
  if (rank_.status != Rank::Status::refused) launch();
  maybe_fail();
  commit(0);
  if (rank_.status == Rank::Status::runs && !rank_.voted.empty()) rank_.status = Rank::Status::votes;
  if (rank_.status != Rank::Status::votes) ++rank_.groups_done;
  return true;
}

/// As Group::classify() does for the first call of a group on the communicator.
bool GroupOfRank::enter_group() {
  if (!rank_.clock.is_new(epoch())) return true;
  rank_.clock.enter(epoch());
  if (!rank_.handshake_under_way) return true;
  if (is(Mistake::handshake_read_on_arrival) ? !rank_.handshake_arrived : !rank_.clock.reads_handshake())
    return true;
  if (!rank_.handshake_arrived) return false;
  rank_.handshake_under_way = false;
  const ShortVerdict verdict = verdict_of(world_, index_, is(Mistake::workspace_missing_alone));
  rank_.agreement = verdict.agreement;
  rank_.carried = verdict.carried;
  if (is(Mistake::workspace_missing_alone) && !rank_.has_memory) rank_.agreement = Agreement::off;
  setting_.cover(rank_.agreement);
  check_agreement();
  decisions_.push_back(static_cast<std::uint16_t>(0x100u + static_cast<unsigned>(rank_.agreement)));
  if (verdict.abort) rank_.status = Rank::Status::refused;
  return true;
}

/// A communicator that is compressed is one to which every rank has said yes, and alike.
void GroupOfRank::check_agreement() const {
  if (rank_.agreement != Agreement::on) return;
  for (std::uint32_t r = 0; r < world_.ranks; ++r) {
    const Rank& rank = world_.rank[r];
    const bool yes = wants_workspace(rank.answer) && rank.has_memory;
    if (!yes || rank.version != world_.rank[0].version || rank.settings != world_.rank[0].settings)
      throw Violation{"the communicator is compressed though rank " + std::to_string(r) + " cannot"};
  }
}

/// As Group::all_gather() and reduce_scatter(): the decision, and natives are passed on.
bool GroupOfRank::take(const ProgramCall& call) {
  const bool gather = call.kind != CallKind::reduce_scatter;
  CallFacts facts{.collective = gather ? Collective::all_gather : Collective::reduce_scatter,
                  .count = call.kind == CallKind::empty ? 0 : kElements + call.count,
                  .type = ncclBfloat16,
                  .capturing = call.kind == CallKind::captured_gather};
  Taken taken{.call = call, .counts = facts.count > 0 && !facts.capturing && world_.ranks > 1};
  if (taken.counts && !enter_group()) return false;
  if (rank_.status == Rank::Status::refused) return true;
  taken.reason = decide(facts,
                        {.ranks = world_.ranks,
                         .agreement = rank_.agreement,
                         .calls_before_group = rank_.clock.before_group(),
                         .carried = rank_.carried},
                        config_of(rank_));
  if (gather && taken.reason == Reason::compressed) {
    RankClass* const gathers = find(call.count);
    std::optional<WeightKind> kind;
    if (gathers && !(kind = kind_of(*gathers))) return false;
    taken.gather = gather_kind(
        kind, [&] { return can_be_made(); }, [&] { return setting_.scenario.direct; });
    taken.tracked = true;
    if (taken.gather != GatherKind::difference) taken.reason = Reason::weight_native;
    decisions_.push_back(static_cast<std::uint16_t>(taken.gather));
  }
  if (taken.reason != Reason::compressed && facts.count > 0 && !facts.capturing) {
    issue(gather ? Operation::Kind::native_gather : Operation::Kind::native_reduce_scatter, call.count);
  }
  calls_.push_back(taken);
  return true;
}

RankClass* GroupOfRank::find(std::uint8_t count) {
  for (RankClass& gathers : rank_.classes) {
    if (gathers.count == count) return &gathers;
  }
  return nullptr;
}

bool GroupOfRank::can_be_made() {
  if (is(Mistake::class_made_by_free_memory) && deviate(2) != 0) return false;
  return rank_.classes.size() < setting_.scenario.most_classes;
}

std::optional<std::vector<AgreedWords>> GroupOfRank::words_for(const RankClass& gathers) {
  const GatherLife& life = gathers.life;
  const std::uint64_t begin = life.words_begin(), end = life.words_end();
  if (end > begin && end > life.calls())
    throw Violation{"the host of a rank waits for a call that it has not made yet"};
  const std::uint64_t lag = std::max(life.slots(), setting_.scenario.rules.least_lag);
  if (life.stage() == WeightStage::difference && end > begin && end + lag > life.calls() + 1)
    throw Violation{"the host of a rank waits for a call that is younger than agreed"};
  std::vector<AgreedWords> words;
  for (std::uint64_t call = begin; call < end; ++call) {
    const SaidByCall& said = gathers.said.at(call - gathers.said.front().call);
    if (!said.arrived) {
      if (is(Mistake::reads_what_has_arrived)) {
        words.emplace_back();
        continue;
      }
      return std::nullopt;
    }
    words.push_back(agreed_words(said.words));
  }
  return words;
}

/// As GatherClass::kind_in().
std::optional<WeightKind> GroupOfRank::kind_of(RankClass& gathers) {
  GatherLife& life = gathers.life;
  if (!life.begins(epoch())) return life.kind();
  std::optional<std::vector<AgreedWords>> words = words_for(gathers);
  if (!words) return std::nullopt;
  const std::uint64_t begin = life.words_begin();
  const WeightDecision decision = life.decide(epoch(), *words, rank_.resets_asked);
  if (decision.event == WeightEvent::jump_round) {
    const auto jumped =
        std::find_if(words->begin(), words->end(), [](const AgreedWords& word) { return word.any_jump; });
    if (begin + static_cast<std::uint64_t>(jumped - words->begin()) < gathers.records_end)
      throw Violation{"a native round follows a flag that an earlier native round has answered"};
  }
  setting_.cover(decision.event, life.own_slices());
  while (!gathers.said.empty() && gathers.said.front().call < life.words_begin())
    gathers.said.erase(gathers.said.begin());
  follow(gathers, decision.event);
  decisions_.push_back(static_cast<std::uint16_t>(0x200u + static_cast<unsigned>(decision.event) * 16 +
                                                  static_cast<unsigned>(life.own_slices())));
  if (is(Mistake::native_where_allocation_fails) && gathers.ledger.refused()) return WeightKind::native;
  if (is(Mistake::reset_alone) && life.wants_reset(rank_.resets_asked)) return WeightKind::recorded;
  if (is(Mistake::refreshes_by_own_count) && decision.kind == WeightKind::difference &&
      gathers.own_count % kOwnRefresh == kOwnRefresh - 1)
    return WeightKind::recorded;
  return decision.kind;
}

void GroupOfRank::follow(RankClass& gathers, WeightEvent event) {
  switch (ledger_step(event)) {
    case LedgerStep::none:
    case LedgerStep::allocate:
      return;
    case LedgerStep::restart:
    case LedgerStep::release:
      gathers.slots.clear();
      gathers.ledger.restart();
  }
}

/// As Group::launch().
void GroupOfRank::launch() {
  for (const Taken& taken : calls_) {
    const LaunchSteps steps = launch_steps({.first = taken.counts && rank_.clock.launches_first(),
                                            .counts = taken.counts,
                                            .tracked = taken.tracked,
                                            .compressed = taken.reason == Reason::compressed,
                                            .agreement = rank_.agreement,
                                            .connected = rank_.connected});
    if (steps.handshake && !(is(Mistake::handshake_by_own_settings) && !rank_.answer.enabled)) {
      issue(Operation::Kind::handshake, 0);
      rank_.handshake_under_way = true;
    }
    if (steps.connecting) {
      issue(Operation::Kind::connect, 0);
      rank_.connected = true;
    }
    if (steps.gather) enroll(taken);
    if (steps.gradient) issue(Operation::Kind::gradient, taken.call.count);
  }
}

/// As WeightState::enroll().
void GroupOfRank::enroll(const Taken& taken) {
  RankClass* gathers = find(taken.call.count);
  const GatherStep step =
      gather_step(taken.gather, gathers ? std::optional(gathers->life.stage()) : std::nullopt,
                  [&] { return can_be_made(); });
  setting_.cover(step);
  switch (step) {
    case GatherStep::nothing:
    case GatherStep::native:
      return;
    case GatherStep::first_record: {
      const Scenario& scenario = setting_.scenario;
      const WeightClass machine(scenario.refresh_rounds,
                                scenario.verdicts ? OwnSlices::unknown : OwnSlices::replica, scenario.rules);
      gathers = &rank_.classes.emplace_back(taken.call.count,
                                            GatherLife(machine, scenario.votes, epoch(), rank_.resets_asked));
      return enroll_record(taken, *gathers);
    }
    case GatherStep::record:
      return enroll_record(taken, *gathers);
    case GatherStep::difference:
      return enroll_difference(taken, *gathers);
    case GatherStep::direct:
      return issue(Operation::Kind::direct, taken.call.count);
  }
}

const void* GroupOfRank::address_of(const ProgramCall& call) {
  constexpr std::uintptr_t kNeverAgain = 16;
  if (call.buffer == kFreshBuffer)
    return reinterpret_cast<const void*>(kNeverAgain + find(call.count)->life.calls());
  std::uint32_t buffer = call.buffer;
  if (const std::uint8_t addresses = setting_.scenario.addresses; addresses != 0)
    buffer = (buffer + deviate(addresses)) % addresses;
  return reinterpret_cast<const void*>(std::uintptr_t{buffer} + 1);
}

Operation GroupOfRank::numbered(Operation::Kind kind, RankClass& gathers) {
  Operation operation{.kind = kind,
                      .count = gathers.count,
                      .number = static_cast<std::uint8_t>(&gathers - rank_.classes.data()),
                      .slots = gathers.ledger.ready() ? gathers.ledger.slots() : 0,
                      .call = gathers.life.take_number()};
  gathers.said.push_back({.call = operation.call});
  return operation;
}

/// As WeightState::Impl::enroll_record() and GatherClass::plan_record().
void GroupOfRank::enroll_record(const Taken& taken, RankClass& gathers) {
  GatherLife& life = gathers.life;
  if (life.wants_ledger()) {
    const bool held = !setting_.scenario.memory || deviate(2) == 0;
    gathers.ledger.asked(life.slots(), held);
    life.ledger_was_asked_for();
    gathers.needs_zeroing = held;
  }
  const SlotTable::Found found =
      gathers.slots.find(address_of(taken.call), gathers.ledger.slot_limit(SlotTable::kMost));
  const std::uint32_t flags = life.record_flags(gathers.ledger, found.seen, rank_.resets_asked);
  const bool compared = life.compares() && found.seen;
  Operation record = numbered(Operation::Kind::record, gathers);
  gathers.records_end = record.call + 1;
  record.slot = found.slot;
  record.slot_count = gathers.slots.count();
  record.flags = flags;
  record.compared = compared;
  record.has_ledger = (flags & kReady) != 0;
  record.zeroes = gathers.needs_zeroing;
  gathers.needs_zeroing = false;
  if (is(Mistake::ready_without_memory) && gathers.ledger.refused()) {
    record.flags = (flags & ~kRefused) | kReady;
    record.slots = gathers.ledger.slots();
  }
  issued_.push_back(record);
}

/// As GatherClass::plan_difference().
void GroupOfRank::enroll_difference(const Taken& taken, RankClass& gathers) {
  const std::uint32_t limit =
      is(Mistake::slots_beyond_the_agreed) ? SlotTable::kMost : gathers.ledger.slot_limit(SlotTable::kMost);
  const std::uint32_t slot = gathers.slots.find(address_of(taken.call), limit).slot;
  if (slot == 0) gathers.own_count = static_cast<std::uint8_t>((gathers.own_count + 1) % kOwnRefresh);
  const std::uint32_t flags = gathers.life.difference_flags(setting_.scenario.verdicts, rank_.resets_asked);
  Operation difference = numbered(Operation::Kind::difference, gathers);
  difference.slot = slot;
  difference.flags = flags;
  difference.has_ledger = gathers.ledger.ready();
  difference.replica = gathers.life.own_slices() == OwnSlices::replica;
  if (!setting_.scenario.votes) {
    issued_.push_back(difference);
    return;
  }
  Operation vote = difference;
  vote.kind = Operation::Kind::vote;
  vote.flags = kReady;
  vote.slot_count = gathers.slots.count();
  issued_.push_back(vote);
  rank_.voted.push_back(difference);
}

/// As VotedCall::read_vote(): each call is what all ranks want.
bool GroupOfRank::finish_votes() {
  if (rank_.answers.size() < rank_.voted.size()) return false;
  for (std::size_t i = 0; i < rank_.voted.size(); ++i) {
    Operation operation = rank_.voted[i];
    if (rank_.answers[i]) operation.kind = Operation::Kind::voted_native;
    issued_.push_back(operation);
  }
  rank_.voted.clear();
  rank_.answers.clear();
  rank_.status = Rank::Status::runs;
  maybe_fail();
  commit(1);
  ++rank_.groups_done;
  return true;
}

/// An error of CUDA, of memory or of NCCL before any of the operations: none of the later ones is issued.
void GroupOfRank::maybe_fail() {
  if (!setting_.scenario.failures || rank_.status == Rank::Status::refused) return;
  const std::uint32_t cut = deviate(static_cast<std::uint32_t>(issued_.size()) + 1);
  if (cut == 0) return;
  if (is(Mistake::native_after_a_failure)) {
    rank_.agreement = Agreement::off;
    for (std::size_t i = cut - 1; i < issued_.size(); ++i) issued_[i].kind = Operation::Kind::native_gather;
    rank_.voted.clear();
    return;
  }
  issued_.resize(cut - 1);
  rank_.voted.clear();
  rank_.status = Rank::Status::failed;
}

void GroupOfRank::tell_group() const {
  std::string text =
      "rank " + std::to_string(index_) + ", group " + std::to_string(rank_.groups_done) + ": issues";
  for (const Operation& operation : issued_) text += " " + text_of(operation);
  if (issued_.empty()) text += " nothing";
  for (const RankClass& gathers : rank_.classes) {
    text += "; class " + std::to_string(gathers.count) + " has " + std::to_string(gathers.life.slots()) +
            " slots";
    if (gathers.ledger.ready()) text += ", a ledger";
    if (gathers.ledger.refused()) text += ", no memory for one";
  }
  if (rank_.status == Rank::Status::failed) text += "; fails";
  setting_.tell(text);
}

/// Compares with what the first rank issued and decided in this group.
void GroupOfRank::commit(std::uint64_t part) {
  rank_.issued.insert(rank_.issued.end(), issued_.begin(), issued_.end());
  const bool whole = rank_.status != Rank::Status::failed;
  if (setting_.told) tell_group();
  const std::uint64_t group = rank_.groups_done * 2 + part;
  const auto first = std::find_if(world_.done.begin(), world_.done.end(),
                                  [&](const GroupDone& done) { return done.group == group; });
  if (first == world_.done.end()) {
    if (whole)
      world_.done.push_back(
          {group, static_cast<std::uint8_t>(index_), std::move(issued_), std::move(decisions_)});
    return;
  }
  const auto same = [](const Operation& a, const Operation& b) { return a.matches(b); };
  const bool equal =
      std::equal(issued_.begin(), issued_.end(), first->operations.begin(), first->operations.end(), same);
  if (whole && !equal) {
    std::string text = "ranks issue different operations in one group: rank " + std::to_string(first->rank);
    for (const Operation& operation : first->operations) text += " " + text_of(operation);
    text += "; rank " + std::to_string(index_);
    for (const Operation& operation : issued_) text += " " + text_of(operation);
    throw Violation{text};
  }
  if (whole && decisions_ != first->decisions) {
    throw Violation{"ranks " + std::to_string(first->rank) + " and " + std::to_string(index_) +
                    " decide differently in one group"};
  }
}

}  // namespace

std::uint64_t least_groups_done(const World& world) {
  std::uint64_t least = ~std::uint64_t{0};
  for (std::uint32_t r = 0; r < world.ranks; ++r) {
    if (!world.rank[r].is_over()) least = std::min(least, world.rank[r].groups_done);
  }
  return least;
}

bool step_host(World& world, std::uint32_t rank, const Setting& setting, Choices& choices) {
  GroupOfRank group(world, rank, setting, choices);
  const bool done = world.rank[rank].status == Rank::Status::votes ? group.finish_votes() : group.run();
  if (!done) return false;
  // What all ranks have left behind need not be remembered.
  const std::uint64_t least = least_groups_done(world);
  while (world.first_group < least && !world.program.empty()) {
    world.program.erase(world.program.begin());
    ++world.first_group;
  }
  std::erase_if(world.done, [&](const GroupDone& one) { return one.group / 2 < least; });
  return true;
}

void deliver(Rank& rank, const Operation& operation, const CallWords& words) {
  switch (operation.kind) {
    case Operation::Kind::handshake:
      rank.handshake_arrived = true;
      return;
    case Operation::Kind::vote:
      rank.answers.push_back((words.any_flags & kJump) != 0);
      return;
    case Operation::Kind::record:
    case Operation::Kind::difference:
    case Operation::Kind::voted_native:
      for (SaidByCall& said : rank.classes.at(operation.number).said) {
        if (said.call != operation.call) continue;
        said.arrived = true;
        said.words = words;
      }
      return;
    case Operation::Kind::native_gather:
    case Operation::Kind::native_reduce_scatter:
    case Operation::Kind::connect:
    case Operation::Kind::direct:
    case Operation::Kind::gradient:
      return;
  }
}

}  // namespace agreement
