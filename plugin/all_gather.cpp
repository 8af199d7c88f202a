// How a weight travels: classes of gathers, what they decide, and the calls that carry it out.
//
//   decide()   weight_class.*       the kind of a group's calls, from what earlier calls said (call_words.*)
//   enroll()   weight_record.*      a native call's record: slots, samples, entries (ledger.*)
//              weight_difference.*  a difference, or a stateless direct call
//              weight_vote.*        a difference that is voted on first
#include "plugin/all_gather.h"

#include <deque>
#include <vector>

#include "plugin/agreement.h"
#include "plugin/call_words.h"
#include "plugin/comm_state.h"
#include "plugin/ledger.h"
#include "plugin/log.h"
#include "plugin/weight_class.h"
#include "plugin/weight_difference.h"
#include "plugin/weight_layout.h"
#include "plugin/weight_record.h"
#include "plugin/weight_tables.h"
#include "plugin/weight_vote.h"

namespace sdp4bit {
namespace {

constexpr std::size_t kMostClasses = 64;
constexpr std::uint32_t kDirectClass = ~0u;  // the class number of stateless calls
constexpr std::uint32_t kDirectGroup =
    128;  // elements that share a scale where nothing corrects the error later
constexpr double kMebibyte = 1024.0 * 1024.0;

const char* type_name(ElementType type) {
  return type == ElementType::bfloat16 ? "bf16" : type == ElementType::float16 ? "fp16" : "fp32";
}

OwnSlices own_slices_of(OwnShard option) {
  return option == OwnShard::automatic ? OwnSlices::unknown
         : option == OwnShard::exact   ? OwnSlices::exact
                                       : OwnSlices::replica;
}

bool is_in_place(const AllGatherArgs& call, const CommState& comm, ElementType type) {
  return call.send ==
         static_cast<const std::byte*>(call.receive) + comm.rank * call.count * element_bytes(type);
}

/// All gathers of one count and type on a communicator.
struct GatherClass {
  GatherClass(std::uint32_t class_number, const LedgerShape& ledger_shape, WordsPool& pool,
              ClassStats& class_stats)
      : number(class_number),
        shape(ledger_shape),
        machine(config().weight_refresh, own_slices_of(config().own_shard)),
        ledger(ledger_shape),
        queue(pool),
        stats(class_stats) {}

  const std::uint32_t number;
  const LedgerShape shape;
  WeightClass machine;
  Ledger ledger;
  CallQueue queue;
  std::uint64_t calls = 0;  // enrolled so far
  std::uint64_t epoch = 0;  // the outermost group that `kind` holds for
  GatherKind kind = GatherKind::native_and_record;
  ProbeSchedule probes;
  bool in_place = false;      // some call was
  bool wants_ledger = false;  // S was agreed, memory was not asked for yet
  bool has_jumped = false;
  std::uint64_t resets_done = 0;  // of the communicator's requests
  ClassStats& stats;
};

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

const char* stage_name(WeightStage stage) {
  return stage == WeightStage::learning     ? "learning"
         : stage == WeightStage::difference ? "difference"
                                            : "native";
}

void note_event(ClassStats& stats, const WeightClass& machine, WeightEvent event) {
  if (event == WeightEvent::none) return;
  stats.stage.store(stage_name(machine.stage()), std::memory_order_relaxed);
  stats.last_event.store(event_name(event), std::memory_order_relaxed);
  stats.slots.store(machine.slots(), std::memory_order_relaxed);
  if (event == WeightEvent::jump_round) stats.jumps.fetch_add(1, std::memory_order_relaxed);
  if (event == WeightEvent::refresh_round) stats.refreshes.fetch_add(1, std::memory_order_relaxed);
  if (event == WeightEvent::reset) stats.resets.fetch_add(1, std::memory_order_relaxed);
  if (event == WeightEvent::learning_again) stats.relearned.fetch_add(1, std::memory_order_relaxed);
}

Codec direct_codec() {
  Codec codec = config().weight_codec();
  codec.bits = config().weight_direct;
  codec.group_size = kDirectGroup;
  return codec;
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
  [[nodiscard]] GatherKind without_ledger(std::size_t count, ElementType type) const;
  void wait_for(const CallQueue& queue, std::uint64_t call);
  void advance(GatherClass& gathers);
  void follow(GatherClass& gathers, WeightEvent event);
  static void say_own_slices(const GatherClass& gathers);
  void allocate_ledger(GatherClass& gathers);
  void note_memory(GatherClass& gathers);
  /// Said with every call until all ranks have said it.
  [[nodiscard]] std::uint32_t reset_flag(const GatherClass& gathers) const {
    return comm.resets_asked.load() != gathers.resets_done ? kReset : 0u;
  }
  [[nodiscard]] std::uint64_t ledger_bound() const;
  [[nodiscard]] WeightChunk shard_of(const GatherClass& gathers) const;
  PhasedCall* enroll_record(GatherClass& gathers, const AllGatherArgs& args);
  PhasedCall* enroll_difference(DifferencePlan plan, const Ledger* voted, std::uint64_t epoch);

  CommState& comm;
  WeightTables ledger_tables;
  WeightTables direct_tables;
  WordsPool words;
  std::deque<GatherClass> classes;
  std::uint64_t direct_calls = 0;
  std::vector<AgreedWords> read;  // scratch
  CallPool<RecordCall> records;
  CallPool<DifferenceCall> differences;
  CallPool<VotedCall> votes;
  std::vector<CallWords*> vote_answers;  // of the last group: read by now
  std::uint64_t pool_epoch = 0;
};

GatherClass* WeightState::Impl::find(std::size_t count, ElementType type) {
  for (GatherClass& gathers : classes) {
    if (gathers.shape.count == count && gathers.shape.type == type) return &gathers;
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
  if (!fits) {
    static Once once;
    if (once.first()) {
      log_warn(
          "SDP4BIT_WORKSPACE of %llu bytes is too small for AllGathers of %zu elements: they stay native",
          static_cast<unsigned long long>(options.workspace), count);
    }
  }
  return fits;
}

GatherKind WeightState::Impl::without_ledger(std::size_t count, ElementType type) const {
  const bool direct = direct_tables.path != WeightPath::none && type != ElementType::float32 &&
                      weight_chunk_length(count, type, direct_tables.path, direct_codec(), comm.topology,
                                          config().workspace) != 0;
  return direct ? GatherKind::difference : GatherKind::native;
}

/// The call is a round or several calls old. Its device may have failed since: then its words never come.
void WeightState::Impl::wait_for(const CallQueue& queue, std::uint64_t call) {
  const RelaxedCapture relaxed;
  const auto reached = [&] {
    if (queue.arrived(call)) return true;
    if (!comm.last_use.finished() || queue.arrived(call)) return false;
    throw Error(ncclInternalError,
                "an earlier AllGather of this communicator ended without its record: a kernel of it failed, "
                "or memory of "
                "sdp4bit was overwritten; compute-sanitizer, or SDP4BIT_COLLECTIVES=reduce_scatter to go on "
                "without it");
  };
  wait_bounded(comm, reached, "what an earlier AllGather said");
}

void WeightState::Impl::advance(GatherClass& gathers) {
  read.clear();
  const std::uint64_t end = gathers.machine.words_end(gathers.calls);
  for (std::uint64_t call = gathers.machine.words_begin(); call < end; ++call) {
    if (!gathers.queue.arrived(call)) wait_for(gathers.queue, call);
    read.push_back(gathers.queue.read(call));
    if (config().weight_vote) read.back().any_jump = false;  // it went native at once
  }
  const OwnSlices own_before = gathers.machine.own_slices();
  const WeightDecision decision = gathers.machine.decide(gathers.calls, read);
  if (gathers.machine.own_slices() != own_before) say_own_slices(gathers);
  gathers.queue.skip_to(gathers.machine.words_begin());
  follow(gathers, decision.event);
  switch (decision.kind) {
    case WeightKind::native:
      gathers.kind = without_ledger(gathers.shape.count, gathers.shape.type);
      break;
    case WeightKind::recorded:
      gathers.kind = GatherKind::native_and_record;
      break;
    case WeightKind::difference:
      gathers.kind = GatherKind::difference;
      break;
  }
}

void WeightState::Impl::say_own_slices(const GatherClass& gathers) {
  log_info("AllGather of %zu %s per rank, call %llu: %s", gathers.shape.count, type_name(gathers.shape.type),
           static_cast<unsigned long long>(gathers.calls),
           gathers.machine.own_slices() == OwnSlices::exact
               ? "own shards are the optimizer's master copies and stay exact"
               : "own shards are written from masters elsewhere: owners store what the others hold");
}

void WeightState::Impl::follow(GatherClass& gathers, WeightEvent event) {
  note_event(gathers.stats, gathers.machine, event);
  const auto say = [&](const char* what) {
    log_info("AllGather of %zu %s per rank, call %llu: %s", gathers.shape.count,
             type_name(gathers.shape.type), static_cast<unsigned long long>(gathers.calls), what);
  };
  switch (event) {
    case WeightEvent::none:
      return;
    case WeightEvent::exam_passed:
      gathers.wants_ledger = true;
      return say("its buffers come again with small differences; all ranks allocate the ledger");
    case WeightEvent::ledger_agreed:
      return say("all ranks hold the ledger; differences from now on");
    case WeightEvent::jump_round:
      if (!gathers.has_jumped) {
        log_notice(
            "AllGather of %zu %s per rank: weights were replaced, or a buffer moved; they arrived with 4-bit "
            "error, and one round is native now (said once; SDP4BIT_WEIGHT_VOTE=1 avoids the error)",
            gathers.shape.count, type_name(gathers.shape.type));
      }
      gathers.has_jumped = true;
      return say("a difference was large; one round native");
    case WeightEvent::refresh_round:
      return say("one round native, to refresh");
    case WeightEvent::reset:
      gathers.resets_done = comm.resets_asked.load();
      gathers.ledger.restart();
      return say("the program asked for it on all ranks; learning again");
    case WeightEvent::learning_again:
      gathers.ledger.restart();
      return say("large differences are the rule; learning again");
    case WeightEvent::ledger_refused:
      if (!gathers.ledger.refused()) {
        log_warn("AllGather of %zu %s per rank stays with NCCL: another rank cannot hold its ledger",
                 gathers.shape.count, type_name(gathers.shape.type));
      }
      break;
    case WeightEvent::never_repeats:
      say("its buffers do not come again (FSDP, ZeRO-3); it stays with NCCL");
      break;
    case WeightEvent::never_small:
      say("its buffers come again with other weights (a rotating pool); it stays with NCCL");
      break;
    case WeightEvent::too_many_jumps:
      say("large differences came back three times; it stays with NCCL");
      break;
  }
  gathers.ledger.release();
  note_memory(gathers);
}

void WeightState::Impl::note_memory(GatherClass& gathers) {
  gathers.stats.ledger_bytes.store(gathers.ledger.bytes(), std::memory_order_relaxed);
  gathers.stats.sample_bytes.store(gathers.ledger.samples_bytes(), std::memory_order_relaxed);
  comm.stats->record_bytes.store(words.bytes(), std::memory_order_relaxed);
}

std::uint64_t WeightState::Impl::ledger_bound() const {
  const MemoryBound& bound = config().weight_memory;
  if (bound.percent == 0) return bound.bytes;
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  return total / 100 * bound.percent;
}

void WeightState::Impl::allocate_ledger(GatherClass& gathers) {
  const RelaxedCapture relaxed;
  std::uint64_t others = 0;
  for (const GatherClass& other : classes) {
    if (&other != &gathers) others += other.ledger.bytes();
  }
  const std::uint64_t bound = ledger_bound();
  const std::uint32_t slots = gathers.machine.slots();
  gathers.wants_ledger = false;
  if (gathers.ledger.allocate(slots, others < bound ? bound - others : 0)) return;
  log_warn(
      "AllGather of %zu %s per rank stays with NCCL on all ranks: %.1f MiB for its ledger of %u slots are "
      "not to be "
      "had here (SDP4BIT_WEIGHT_MEMORY allows %.1f MiB, other ledgers take %.1f)",
      gathers.shape.count, type_name(gathers.shape.type),
      static_cast<double>(gathers.ledger.needed_bytes(slots)) / kMebibyte, slots,
      static_cast<double>(bound) / kMebibyte, static_cast<double>(others) / kMebibyte);
}

WeightChunk WeightState::Impl::shard_of(const GatherClass& gathers) const {
  return {.type = gathers.shape.type,
          .codec = config().weight_codec(),
          .shard = gathers.shape.count,
          .offset = 0,
          .count = gathers.shape.count,
          .chunk = 0,
          .class_number = gathers.number,
          .class_call = gathers.calls,
          .slots = gathers.ledger.ready() ? gathers.ledger.slots() : 0};
}

PhasedCall* WeightState::Impl::enroll_record(GatherClass& gathers, const AllGatherArgs& args) {
  if (gathers.wants_ledger) allocate_ledger(gathers);
  Ledger& ledger = gathers.ledger;
  const SlotTable::Found found = ledger.find_slot(args.receive);
  const bool compares = gathers.machine.slots() == 0;
  Ledger::Sample sample;
  if (compares) {
    const RelaxedCapture relaxed;
    sample = ledger.take_sample(found.slot, found.seen);
  }
  const bool in_place = is_in_place(args, comm, gathers.shape.type);
  gathers.in_place = gathers.in_place || in_place;
  const ProbeSchedule::Visit visit =
      ledger.probe()
          ? gathers.probes.visit(gathers.calls, found.slot, ledger.slots(), found.seen && in_place, false)
          : ProbeSchedule::Visit{};
  RecordCall& record = records.next();
  record.set({.comm = &comm,
              .tables = &ledger_tables,
              .ledger = &ledger,
              .shard = shard_of(gathers),
              .args = args,
              .slot = found.slot,
              .slot_count = ledger.slot_count(),
              .flags = (found.seen ? kSeen : 0u) | (ledger.ready() ? kReady : 0u) |
                       (ledger.refused() ? kRefused : 0u) | reset_flag(gathers),
              .compares = compares,
              .sample = sample,
              .answers_probe = visit.answer,
              .words = gathers.queue.add(gathers.calls)});
  ++gathers.calls;
  gathers.stats.calls.fetch_add(1, std::memory_order_relaxed);
  note_memory(gathers);
  return &record;
}

/// With a ledger to vote on: each gather is voted on first.
PhasedCall* WeightState::Impl::enroll_difference(DifferencePlan plan, const Ledger* voted,
                                                 std::uint64_t epoch) {
  plan.comm = &comm;
  plan.sampled = comm.sampling.takes(Collective::all_gather, epoch);
  const auto count = [&](const DifferenceCall& call) {
    const LinkBytes native =
        comm.native(Collective::all_gather).of(plan.args.count * element_bytes(plan.shard.type));
    count_sent(*comm.stats, Collective::all_gather, native, call.sent_bytes());
    FunctionStats& function = comm.stats->of(Collective::all_gather);
    function.add(Counter::sends, call.sends());
    function.add(Counter::gathers, call.gathers());
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
  if (!gathers) {
    return impl_->takes_class(call.count, type) ? GatherKind::native_and_record
                                                : impl_->without_ledger(call.count, type);
  }
  if (gathers->epoch != epoch) {
    impl_->advance(*gathers);
    gathers->epoch = epoch;
  }
  return gathers->kind;
}

PhasedCall* WeightState::enroll(const AllGatherArgs& call, GatherKind kind, std::uint64_t epoch) {
  if (impl_->pool_epoch != epoch) {
    impl_->records.reuse();
    impl_->differences.reuse();
    impl_->votes.reuse();
    for (CallWords* const answer : impl_->vote_answers) impl_->words.give_back(answer);
    impl_->vote_answers.clear();
    impl_->pool_epoch = epoch;
  }
  const ElementType type = element_type(call.type).value();
  GatherClass* gathers = impl_->find(call.count, type);
  switch (kind) {
    case GatherKind::native:
      return nullptr;

    case GatherKind::native_and_record:
      if (!gathers) {
        if (!impl_->takes_class(call.count, type)) return nullptr;  // this group made too many classes
        const WeightTables& tables = impl_->ledger_tables;
        gathers = &impl_->classes.emplace_back(
            static_cast<std::uint32_t>(impl_->classes.size()),
            LedgerShape{.count = call.count,
                        .type = type,
                        .place_count = static_cast<std::uint32_t>(tables.holdings.size()),
                        .own_place = tables.own_place,
                        .group_size = config().weight_group,
                        .probes = config().own_shard == OwnShard::automatic},
            impl_->words, impl_->comm.stats.add_class(call.count, type));
        gathers->resets_done = impl_->comm.resets_asked.load();
        gathers->epoch = epoch;
      }
      return impl_->enroll_record(*gathers, call);

    case GatherKind::difference:
      break;
  }

  if (!gathers || gathers->machine.stage() != WeightStage::difference) {
    return impl_->enroll_difference({.tables = &impl_->direct_tables,
                                     .shard = {.type = type,
                                               .codec = direct_codec(),
                                               .shard = call.count,
                                               .count = call.count,
                                               .class_number = kDirectClass,
                                               .class_call = impl_->direct_calls++},
                                     .args = call,
                                     .replica = config().own_shard == OwnShard::replica},
                                    nullptr, epoch);
  }
  const auto [slot, known] = gathers->ledger.find_slot(call.receive);
  const OwnSlices own = gathers->machine.own_slices();
  const bool in_place = is_in_place(call, impl_->comm, type);
  gathers->in_place = gathers->in_place || in_place;
  Probe* const probe = gathers->ledger.probe();
  const ProbeSchedule::Visit visit =
      probe ? gathers->probes.visit(gathers->calls, slot, gathers->ledger.slots(), known && in_place,
                                    in_place && own == OwnSlices::unknown)
            : ProbeSchedule::Visit{};
  const WeightChunk shard = impl_->shard_of(*gathers);
  CallWords* const words = gathers->queue.add(gathers->calls++);
  gathers->stats.calls.fetch_add(1, std::memory_order_relaxed);
  gathers->stats.differences.fetch_add(1, std::memory_order_relaxed);
  return impl_->enroll_difference(
      {.tables = &impl_->ledger_tables,
       .shard = shard,
       .args = call,
       .slot = slot,
       .own_entry = gathers->ledger.own_entry(slot),
       .ledger = gathers->ledger.entries(),
       .replica = own == OwnSlices::replica,
       .own_flags = (gathers->in_place ? 0u : std::uint32_t{kOwnReplica}) | impl_->reset_flag(*gathers),
       .probe = probe,
       .visit = visit,
       .words = words},
      config().weight_vote ? &gathers->ledger : nullptr, epoch);
}

}  // namespace sdp4bit
