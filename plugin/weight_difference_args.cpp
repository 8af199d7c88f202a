// What the kernels of a difference call are given: where each thing lies.
#include "plugin/comm_state.h"
#include "plugin/weight_difference.h"

namespace sdp4bit {

EncodeDifference DifferenceCall::encode_args(const Step& step) const {
  const CommState& comm = *plan_.comm;
  std::byte* const workspace = step.workspace.data();
  const WeightChunk chunk = chunk_of(step.chunk);
  const auto senders = static_cast<std::uint32_t>(plan_.tables->holdings.size());
  const std::uint32_t place = plan_.tables->own_place;
  std::byte* const staged = has_second_exchange() ? workspace + layout_.staged : nullptr;
  auto* const maxima = reinterpret_cast<GroupMaxima*>(workspace + layout_.maxima);
  return {.encode = {.chunk = chunk,
                     .shard = plan_.args.send,
                     .entry = plan_.own_entry,
                     .message = workspace + layout_.message,
                     .maxima = maxima,
                     .replica = plan_.replica ? own_slice() : nullptr,
                     .staged = staged ? staged + staged_chunk_offset(senders, place, chunk.count, chunk.type)
                                      : nullptr,
                     .nonfinite = &comm.counters()->weights},
          .seal = {.chunk = chunk,
                   .maxima = maxima,
                   .sums = plan_.words ? &plan_.words->sums : nullptr,
                   .slot = plan_.slot,
                   .sender = comm.rank,
                   .flags = plan_.own_flags,
                   .own_flags = plan_.probe && plan_.words ? &plan_.probe->flags : nullptr,
                   .message = workspace + layout_.message,
                   .staged_header = staged ? staged + place * sizeof(MessageHeader) : nullptr}};
}

std::byte* DifferenceCall::own_slice() const {
  return static_cast<std::byte*>(plan_.args.receive) +
         plan_.comm->rank * plan_.shard.shard * element_bytes(plan_.shard.type);
}

/// In place only: the own slice is what the program gave.
ProbeArgs DifferenceCall::probe_args() const {
  return {.type = plan_.shard.type,
          .shard_count = plan_.shard.shard,
          .shard = own_slice(),
          .entry = plan_.own_entry,
          .answer = plan_.visit.answer,
          .moved = plan_.visit.moved,
          .start = plan_.visit.start,
          .seed = plan_.shard.class_call,
          .probe = plan_.probe};
}

AddDifference DifferenceCall::add_args(const Step& step) const {
  const CommState& comm = *plan_.comm;
  std::byte* const workspace = step.workspace.data();
  const bool full = plan_.tables->path == WeightPath::full;
  return {.add = {.chunk = chunk_of(step.chunk),
                  .messages = {workspace + layout_.received, layout_.message_stride},
                  .message_count = static_cast<std::uint32_t>(plan_.tables->message_senders.size()),
                  .skipped = full ? comm.rank : ~0u,
                  .senders = plan_.tables->device_senders(),
                  .places = plan_.tables->device_places(),
                  .ledger = plan_.ledger,
                  .receive = plan_.args.receive,
                  .staging = has_second_exchange() ? workspace + layout_.staged : nullptr,
                  .staged_senders = static_cast<std::uint32_t>(plan_.tables->holdings.size()),
                  .error = comm.error_flag(),
                  .nonfinite = &comm.counters()->weights},
          .publish = has_second_exchange() ? PublishArgs{} : publish_args(step)};
}

ScatterShards DifferenceCall::scatter_args(const Step& step) const {
  return {.scatter = {.chunk = chunk_of(step.chunk),
                      .messages = {step.workspace.data() + layout_.arriving, layout_.staged_stride},
                      .message_count = static_cast<std::uint32_t>(plan_.tables->local_peers.size()),
                      .senders_per_message = static_cast<std::uint32_t>(plan_.tables->holdings.size()),
                      .senders = plan_.tables->device_staged(),
                      .receive = plan_.args.receive,
                      .error = plan_.comm->error_flag()},
          .publish = publish_args(step)};
}

/// Behind the last chunk, where somebody wants to know.
PublishArgs DifferenceCall::publish_args(const Step& step) const {
  PublishArgs args;
  if (!plan_.words || !is_last(step)) return args;
  const std::byte* const workspace = step.workspace.data();
  args = {.tables = {},
          .class_call = plan_.shard.class_call,
          .words = plan_.words,
          .mirror = plan_.comm->counter_mirror()};
  args.tables[0] = {.data = workspace + layout_.received,
                    .row_stride = layout_.message_stride,
                    .rows = static_cast<std::uint32_t>(plan_.tables->message_senders.size())};
  if (plan_.tables->path == WeightPath::node) {
    args.tables[1] = {.data = workspace + layout_.message, .rows = 1};
    args.tables[2] = {.data = workspace + layout_.arriving,
                      .row_stride = layout_.staged_stride,
                      .rows = static_cast<std::uint32_t>(plan_.tables->local_peers.size()),
                      .columns = static_cast<std::uint32_t>(plan_.tables->holdings.size())};
  }
  return args;
}

}  // namespace sdp4bit
