// Records of native gathers; see weight_record.h.
#include "plugin/weight_record.h"

#include "plugin/comm_state.h"
#include "plugin/real_nccl.h"
#include "plugin/weight_checksums.h"

namespace sdp4bit {

void RecordCall::set(const RecordPlan& plan) {
  plan_ = plan;
  checksum_call_ = {.use = plan.comm->checksums.next_use(),
                    .number = plan.shard.class_call,
                    .class_number = plan.shard.class_number};
  layout_ = record_layout(plan.shard.shard, plan.shard.codec.group_size, plan.comm->ranks);
}

void RecordCall::launch_step(const Step& step) {
  std::byte* const workspace = step.workspace.data();
  const WeightChunk& shard = plan_.shard;
  const bool is_ready = (plan_.flags & kReady) != 0;
  if (step.step == 0) {
    plan_.tables->upload(step.stream);
    plan_.ledger->prepare(step.stream);
    auto* const maxima = reinterpret_cast<GroupMaxima*>(workspace + layout_.maxima);
    if (plan_.compares && plan_.sample.data) {
      check(compare_sample({.type = shard.type,
                            .group_size = shard.codec.group_size,
                            .shard_count = shard.shard,
                            .shard = plan_.args.send,
                            .sample = plan_.sample.data,
                            .known = plan_.sample.known,
                            .maxima = maxima},
                           step.stream));
    }
    const bool compared = plan_.compares && plan_.sample.known;
    check(write_record({.chunk = shard,
                        .maxima = compared ? maxima : nullptr,
                        .maxima_count = sample_group_count(shard.shard, shard.codec.group_size),
                        .flags = plan_.flags,
                        .slot = plan_.slot,
                        .slot_count = plan_.slot_count,
                        .sender = plan_.comm->rank,
                        .record = workspace + layout_.own},
                       step.stream));
    seal_record(*plan_.comm, shard, plan_.args, workspace + layout_.own, is_ready, step.stream);
    return;
  }
  verify_records(*plan_.comm, Exchange::weight_record, workspace + layout_.all, checksum_call_, step.stream);
  if (is_ready) {
    verify_shards(*plan_.comm, *plan_.tables, shard, plan_.args, workspace + layout_.all, checksum_call_,
                  step.stream);
  }
  check(set_entries({.chunk = shard,
                     .records = workspace + layout_.all,
                     .ranks = plan_.comm->ranks,
                     .all_ready = reinterpret_cast<std::uint32_t*>(workspace + layout_.all_ready),
                     .senders = plan_.tables->device_holdings(),
                     .sender_count = static_cast<std::uint32_t>(plan_.tables->holdings.size()),
                     .receive = plan_.args.receive,
                     .ledger = is_ready ? plan_.ledger->entries() : nullptr,
                     .words = plan_.words,
                     .error = plan_.comm->error_flag()},
                    step.stream));
  // Behind the entries: what was gathered is what the others hold.
  if (!plan_.visit.answer) return;
  std::byte* const own_slice = static_cast<std::byte*>(plan_.args.receive) +
                               plan_.comm->rank * shard.shard * element_bytes(shard.type);
  check(answer_probe({.type = shard.type,
                      .shard_count = shard.shard,
                      .shard = own_slice,
                      .answer = true,
                      .moved = plan_.visit.moved,
                      .probe = plan_.ledger->probe()},
                     step.stream));
}

void RecordCall::exchange_step(const Step& step) {
  if (step.step != 0) return;
  check(real_nccl().all_gather(step.workspace.data() + layout_.own, step.workspace.data() + layout_.all,
                               sizeof(MessageHeader), ncclUint8, plan_.comm->handle, step.stream));
}

}  // namespace sdp4bit
