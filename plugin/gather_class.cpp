// What becomes of the calls of one class of weight gathers: words read, events followed, plans made.
#include "plugin/gather_class.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "plugin/bounded_wait.h"
#include "plugin/comm_state.h"
#include "plugin/error.h"
#include "plugin/first_number.h"
#include "plugin/log.h"
#include "plugin/options.h"

namespace sdp4bit {
namespace {

constexpr double kMebibyte = 1024.0 * 1024.0;

const char* type_name(ElementType type) {
  return type == ElementType::bfloat16 ? "bf16" : type == ElementType::float16 ? "fp16" : "fp32";
}

const char* stage_name(WeightStage stage) {
  return stage == WeightStage::learning     ? "learning"
         : stage == WeightStage::difference ? "difference"
                                            : "native";
}

OwnSlices own_slices_of(OwnShard option) {
  return option == OwnShard::automatic ? OwnSlices::unknown
         : option == OwnShard::exact   ? OwnSlices::exact
                                       : OwnSlices::replica;
}

const char* own_shard_name(OwnSlices own) {
  return own == OwnSlices::unknown ? "asking" : own == OwnSlices::exact ? "exact" : "replica";
}

/// Bytes that all ledgers of a communicator may take on this rank.
std::uint64_t ledger_bound() {
  const MemoryBound& bound = config().weight_memory;
  if (bound.percent == 0) return bound.bytes;
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total));
  return total / 100 * bound.percent;
}

}  // namespace

GatherClass::GatherClass(CommState& comm, std::uint32_t number, std::size_t count, ElementType type,
                         WeightTables& tables, WordsPool& pool, std::uint64_t epoch)
    : comm_(comm),
      tables_(tables),
      pool_(pool),
      number_(number),
      shape_({.count = count,
              .type = type,
              .place_count = static_cast<std::uint32_t>(tables.holdings.size()),
              .own_place = tables.own_place,
              .group_size = config().weight_group,
              .probes = config().own_shard == OwnShard::automatic}),
      title_("AllGather of " + std::to_string(count) + " " + type_name(type) + " per rank"),
      life_(WeightClass(config().weight_refresh, own_slices_of(config().own_shard), {}, first_number()),
            config().weight_vote, epoch, comm.resets_asked.load()),
      ledger_(shape_),
      queue_(pool),
      stats_(comm.stats.add_class(count, type)) {
  stats_.own_shard.store(own_shard_name(life_.own_slices()), std::memory_order_relaxed);
}

WeightKind GatherClass::kind_in(std::uint64_t epoch) {
  if (!life_.begins(epoch)) return life_.kind();
  read_.clear();
  const std::uint64_t end = life_.words_end();
  for (std::uint64_t call = life_.words_begin(); call < end; ++call) {
    if (!queue_.arrived(call)) wait_for(call);
    read_.push_back(queue_.read(call));
  }
  // Words of messages that did not arrive whole decide nothing: this rank would decide alone.
  if (!read_.empty()) comm_.check_usable();
  const OwnSlices own_before = life_.own_slices();
  const WeightDecision decision = life_.decide(epoch, read_, comm_.resets_asked.load());
  if (life_.own_slices() != own_before) {
    stats_.own_shard.store(own_shard_name(life_.own_slices()), std::memory_order_relaxed);
    say(life_.own_slices() == OwnSlices::exact
            ? "own shards are the optimizer's master copies and stay exact"
            : "own shards are written from masters elsewhere: owners store what the others hold");
  }
  queue_.skip_to(life_.words_begin());
  follow(decision.event);
  return life_.kind();
}

/// The call is a round or several calls old. Its device may have failed since: then its words never come.
void GatherClass::wait_for(std::uint64_t call) {
  const RelaxedCapture relaxed;
  const auto reached = [&] {
    if (queue_.arrived(call)) return true;
    if (!comm_.last_use.finished() || queue_.arrived(call)) return false;
    throw Error(
        ncclInternalError,
        "an earlier AllGather of this communicator ended without its record: a kernel of it failed, or "
        "memory of sdp4bit was overwritten; look with compute-sanitizer, or set "
        "SDP4BIT_COLLECTIVES=reduce_scatter on all ranks to go on without compressed AllGathers");
  };
  wait_bounded(comm_, reached, "what an earlier AllGather said");
}

void GatherClass::say(const char* what) const {
  log_info("%s, call %llu: %s", title_.c_str(), static_cast<unsigned long long>(life_.calls()), what);
}

void GatherClass::follow(WeightEvent event) {
  note_event(event);
  tell(event);
  switch (ledger_step(event)) {
    case LedgerStep::none:
    case LedgerStep::allocate:  // by the next record
      return;
    case LedgerStep::restart:
      return ledger_.restart();
    case LedgerStep::release:
      ledger_.release();
      note_memory();
      return;
  }
}

void GatherClass::tell(WeightEvent event) {
  switch (event) {
    case WeightEvent::none:
      return;
    case WeightEvent::exam_passed:
      return say("its buffers come again with small differences; all ranks allocate the ledger");
    case WeightEvent::ledger_agreed:
      return say("all ranks hold the ledger; differences from now on");
    case WeightEvent::jump_round:
      if (!has_jumped_) {
        log_notice(
            "%s: weights were replaced, or a buffer moved; they arrived with 4-bit error, and one round is "
            "native now (said once; SDP4BIT_WEIGHT_VOTE=1 on all ranks avoids the error)",
            title_.c_str());
      }
      has_jumped_ = true;
      return say("a difference was large; one round native");
    case WeightEvent::refresh_round:
      return say("one round native, to refresh");
    case WeightEvent::reset:
      return say("the program asked for it on all ranks; learning again");
    case WeightEvent::learning_again:
      return say("large differences are the rule; learning again");
    case WeightEvent::ledger_refused:
      if (!ledger_.standing().refused()) {
        log_warn(
            "%s stays with NCCL: another rank cannot hold its ledger; that rank's log says how much memory "
            "was missing",
            title_.c_str());
      }
      return;
    case WeightEvent::never_repeats:
      return say("its buffers do not come again (FSDP, ZeRO-3); it stays with NCCL");
    case WeightEvent::never_small:
      return say("its buffers come again with other weights (a rotating pool); it stays with NCCL");
    case WeightEvent::too_many_jumps:
      return say("large differences came back three times; it stays with NCCL");
  }
}

void GatherClass::note_event(WeightEvent event) {
  if (event == WeightEvent::none) return;
  stats_.stage.store(stage_name(life_.stage()), std::memory_order_relaxed);
  stats_.last_event.store(event_name(event), std::memory_order_relaxed);
  stats_.slots.store(life_.slots(), std::memory_order_relaxed);
  if (event == WeightEvent::jump_round) stats_.jumps.fetch_add(1, std::memory_order_relaxed);
  if (event == WeightEvent::refresh_round) stats_.refreshes.fetch_add(1, std::memory_order_relaxed);
  if (event == WeightEvent::reset) stats_.resets.fetch_add(1, std::memory_order_relaxed);
  if (event == WeightEvent::learning_again) stats_.relearned.fetch_add(1, std::memory_order_relaxed);
}

void GatherClass::note_memory() {
  stats_.ledger_bytes.store(ledger_.bytes(), std::memory_order_relaxed);
  stats_.sample_bytes.store(ledger_.samples_bytes(), std::memory_order_relaxed);
  comm_.stats->record_bytes.store(pool_.bytes(), std::memory_order_relaxed);
}

void GatherClass::allocate_ledger(std::uint64_t other_bytes) {
  const RelaxedCapture relaxed;
  const std::uint64_t bound = ledger_bound();
  const std::uint32_t slots = life_.slots();
  life_.ledger_was_asked_for();
  probes_.forget();  // every buffer came again while the class learned
  if (ledger_.allocate(slots, other_bytes < bound ? bound - other_bytes : 0)) return;
  log_warn(
      "%s stays with NCCL on all ranks: this rank has no room for its ledger of %u slots, %.1f MiB "
      "(SDP4BIT_WEIGHT_MEMORY allows %.1f MiB, other ledgers take %.1f); allow more, or free memory of the "
      "device",
      title_.c_str(), slots, static_cast<double>(ledger_.needed_bytes(slots)) / kMebibyte,
      static_cast<double>(bound) / kMebibyte, static_cast<double>(other_bytes) / kMebibyte);
}

WeightChunk GatherClass::shard() const {
  return {.type = shape_.type,
          .codec = config().weight_codec(),
          .shard = shape_.count,
          .offset = 0,
          .count = shape_.count,
          .chunk = 0,
          .class_number = number_,
          .class_call = life_.calls(),
          .slots = ledger_.standing().ready() ? ledger_.standing().slots() : 0};
}

bool GatherClass::is_in_place(const AllGatherArgs& args) const {
  return args.send ==
         static_cast<const std::byte*>(args.receive) + comm_.rank * shape_.count * element_bytes(shape_.type);
}

ProbeSchedule::Visit GatherClass::visit_probe(const AllGatherArgs& args, bool seen, bool may_start) {
  if (!ledger_.probe()) return {};
  return probes_.visit(life_.calls(), {.address = args.receive, .seen = seen, .in_place = is_in_place(args)},
                       std::max(life_.slots(), 1u), may_start);
}

ProbeArgs GatherClass::plan_native(const AllGatherArgs& args) {
  if (!probes_.under_way()) return {};
  const ProbeSchedule::Visit visit = visit_probe(args, false, false);
  (void)life_.take_number();
  return {
      .type = shape_.type,
      .shard_count = shape_.count,
      .shard = static_cast<std::byte*>(args.receive) + comm_.rank * shape_.count * element_bytes(shape_.type),
      .answer = visit.answer,
      .moved = visit.moved,
      .probe = ledger_.probe()};
}

RecordPlan GatherClass::plan_record(const AllGatherArgs& args) {
  const SlotTable::Found found = ledger_.find_slot(args.receive);
  const std::uint32_t flags = life_.record_flags(ledger_.standing(), found.seen, comm_.resets_asked.load());
  const bool compares = life_.compares();
  Ledger::Sample sample;
  if (compares) {
    const RelaxedCapture relaxed;
    sample = ledger_.take_sample(found.slot, found.seen);
  }
  was_in_place_ = was_in_place_ || is_in_place(args);
  const ProbeSchedule::Visit visit = visit_probe(args, found.seen, false);
  const WeightChunk chunk = shard();
  CallWords* const words = queue_.add(life_.take_number());
  stats_.calls.fetch_add(1, std::memory_order_relaxed);
  note_memory();
  return {.comm = &comm_,
          .tables = &tables_,
          .ledger = &ledger_,
          .shard = chunk,
          .args = args,
          .slot = found.slot,
          .slot_count = ledger_.slot_count(),
          .flags = flags,
          .compares = compares,
          .sample = sample,
          .visit = visit,
          .words = words};
}

DifferencePlan GatherClass::plan_difference(const AllGatherArgs& args) {
  const auto [slot, known] = ledger_.find_slot(args.receive);
  const OwnSlices own = life_.own_slices();
  was_in_place_ = was_in_place_ || is_in_place(args);
  const ProbeSchedule::Visit visit = visit_probe(args, known, own == OwnSlices::unknown);
  const WeightChunk chunk = shard();
  CallWords* const words = queue_.add(life_.take_number());
  comm_.stats->record_bytes.store(pool_.bytes(), std::memory_order_relaxed);
  stats_.calls.fetch_add(1, std::memory_order_relaxed);
  stats_.differences.fetch_add(1, std::memory_order_relaxed);
  return {.comm = &comm_,
          .tables = &tables_,
          .shard = chunk,
          .args = args,
          .slot = slot,
          .own_entry = ledger_.own_entry(slot),
          .ledger = ledger_.entries(),
          .replica = own == OwnSlices::replica,
          .own_flags = life_.difference_flags(was_in_place_, comm_.resets_asked.load()),
          .probe = ledger_.probe(),
          .visit = visit,
          .words = words};
}

}  // namespace sdp4bit
