// Steps of a difference call; see weight_difference.h.
#include "plugin/weight_difference.h"

#include <algorithm>

#include "plugin/comm_state.h"
#include "plugin/real_nccl.h"

namespace sdp4bit {

void DifferenceCall::set(const DifferencePlan& plan) {
  plan_ = plan;
  checksum_call_ = {.use = plan.comm->checksums.next_use(),
                    .number = plan.shard.class_call,
                    .class_number = plan.shard.class_number};
  const Topology& topology = plan.comm->topology;
  const WeightChunk& shard = plan.shard;
  chunk_length_ = weight_chunk_length(shard.shard, shard.type, plan.tables->path, shard.codec, topology,
                                      config().workspace);
}

std::size_t DifferenceCall::chunk_count() const {
  return (plan_.shard.shard + chunk_length_ - 1) / chunk_length_;
}

WeightChunk DifferenceCall::chunk_of(std::size_t chunk) const {
  WeightChunk part = plan_.shard;
  part.chunk = static_cast<std::uint32_t>(chunk);
  part.offset = chunk * chunk_length_;
  part.count = std::min(chunk_length_, part.shard - part.offset);
  return part;
}

WeightLayout DifferenceCall::layout_of(std::size_t chunk) const {
  return weight_layout(chunk_of(chunk).count, plan_.shard.type, plan_.tables->path, plan_.shard.codec,
                       plan_.comm->topology);
}

void DifferenceCall::launch_step(const Step& step) {
  if (step.step == 0) {
    launch_encode(step);
    return;
  }
  if (step.step == 1) launch_add(step);
  if (step.step == 2) launch_scatter(step);
  if (step.step + 1 < step_count() || step.chunk + 1 < chunk_count()) return;
  if (plan_.words) launch_publish(step);
  if (!plan_.replica) keep_exact(step);
}

void DifferenceCall::launch_encode(const Step& step) {
  const WeightLayout layout = layout_of(step.chunk);
  const CommState& comm = *plan_.comm;
  std::byte* const workspace = step.workspace.data();
  const WeightChunk chunk = chunk_of(step.chunk);
  const auto senders = static_cast<std::uint32_t>(plan_.tables->holdings.size());
  const std::uint32_t place = plan_.tables->own_place;
  std::byte* const staged = has_second_exchange() ? workspace + layout.staged : nullptr;
  auto* const maxima = reinterpret_cast<GroupMaxima*>(workspace + layout.maxima);
  plan_.tables->upload(step.stream);
  const bool probes = plan_.visit.answer || plan_.visit.start;
  if (probes && step.chunk == 0) check(answer_probe(probe_args(), step.stream));
  const EncodeDifferenceArgs args{
      .chunk = chunk,
      .shard = plan_.args.send,
      .entry = plan_.own_entry,
      .message = workspace + layout.message,
      .maxima = maxima,
      .replica = plan_.replica ? own_slice() : nullptr,
      .staged = staged ? staged + staged_chunk_offset(senders, place, chunk.count, chunk.type) : nullptr,
      .nonfinite = &comm.counters()->weights};
  if (plan_.sampled) {
    check(sample_difference(args,
                            comm.sampling.target(SampleKind::weight, comm.counter_mirror(), step.chunk == 0,
                                                 step.chunk + 1 == chunk_count()),
                            step.stream));
  }
  check(encode_difference(args, step.stream));
  check(seal_difference({.chunk = chunk,
                         .maxima = maxima,
                         .sums = plan_.words ? &plan_.words->sums : nullptr,
                         .slot = plan_.slot,
                         .sender = comm.rank,
                         .flags = plan_.own_flags,
                         .own_flags = plan_.probe && plan_.words ? &plan_.probe->flags : nullptr,
                         .message = workspace + layout.message,
                         .staged_header = staged ? staged + place * sizeof(MessageHeader) : nullptr},
                        step.stream));
  comm.checksums.seal(
      checksummed_messages(workspace + layout.message, layout.message_stride, layout.message_stride, 1),
      step.stream);
  const bool last = step.chunk + 1 == chunk_count();
  if (plan_.visit.start && last) check(apply_probe(probe_args(), step.stream));
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

void DifferenceCall::only_answer_probe(const Step& step) {
  if (!plan_.visit.answer) return;
  ProbeArgs args = probe_args();
  args.start = false;
  check(answer_probe(args, step.stream));
}

/// Before the data is read.
void DifferenceCall::verify(Exchange exchange, const Step& step) {
  if (!plan_.comm->checksums.on()) return;
  const WeightLayout layout = layout_of(step.chunk);
  const WeightTables& tables = *plan_.tables;
  std::byte* const workspace = step.workspace.data();
  Arrived arrived{.exchange = exchange, .parts = {}, .chunk = static_cast<std::uint32_t>(step.chunk)};
  if (exchange == Exchange::weights_in_node) {
    arrived.parts =
        checksummed_messages(workspace + layout.arriving, layout.staged_stride, layout.staged_stride,
                             static_cast<std::uint32_t>(tables.local_peers.size()));
    arrived.headers_per_part = static_cast<std::uint32_t>(tables.holdings.size());
    arrived.passed_on = Exchange::weights_passed_on;
  } else {
    arrived.parts =
        checksummed_messages(workspace + layout.received, layout.message_stride, layout.message_stride,
                             static_cast<std::uint32_t>(tables.message_senders.size()));
  }
  plan_.comm->checksums.verify(*plan_.comm, arrived, checksum_call_, step.stream);
}

void DifferenceCall::launch_add(const Step& step) {
  const WeightLayout layout = layout_of(step.chunk);
  const CommState& comm = *plan_.comm;
  std::byte* const workspace = step.workspace.data();
  const bool full = plan_.tables->path == WeightPath::full;
  verify(full ? Exchange::difference_all : Exchange::difference_column, step);
  check(add_difference({.chunk = chunk_of(step.chunk),
                        .messages = {workspace + layout.received, layout.message_stride},
                        .message_count = static_cast<std::uint32_t>(plan_.tables->message_senders.size()),
                        .skipped = full ? comm.rank : ~0u,
                        .senders = plan_.tables->device_senders(),
                        .places = plan_.tables->device_places(),
                        .ledger = plan_.ledger,
                        .receive = plan_.args.receive,
                        .staging = has_second_exchange() ? workspace + layout.staged : nullptr,
                        .staged_senders = static_cast<std::uint32_t>(plan_.tables->holdings.size()),
                        .error = comm.error_flag(),
                        .nonfinite = &comm.counters()->weights},
                       step.stream));
  if (!has_second_exchange() || !comm.checksums.on()) return;
  comm.checksums.seal(
      checksummed_messages(workspace + layout.staged, layout.staged_stride, layout.staged_stride, 1),
      step.stream);
}

void DifferenceCall::launch_scatter(const Step& step) {
  const WeightLayout layout = layout_of(step.chunk);
  verify(Exchange::weights_in_node, step);
  check(scatter_shards({.chunk = chunk_of(step.chunk),
                        .messages = {step.workspace.data() + layout.arriving, layout.staged_stride},
                        .message_count = static_cast<std::uint32_t>(plan_.tables->local_peers.size()),
                        .senders_per_message = static_cast<std::uint32_t>(plan_.tables->holdings.size()),
                        .senders = plan_.tables->device_staged(),
                        .receive = plan_.args.receive,
                        .error = plan_.comm->error_flag()},
                       step.stream));
}

void DifferenceCall::launch_publish(const Step& step) {
  const WeightLayout layout = layout_of(step.chunk);
  const std::byte* const workspace = step.workspace.data();
  PublishArgs args{.tables = {},
                   .class_call = plan_.shard.class_call,
                   .words = plan_.words,
                   .mirror = plan_.comm->counter_mirror()};
  args.tables[0] = {.data = workspace + layout.received,
                    .row_stride = layout.message_stride,
                    .rows = static_cast<std::uint32_t>(plan_.tables->message_senders.size())};
  if (plan_.tables->path == WeightPath::node) {
    args.tables[1] = {.data = workspace + layout.message, .rows = 1};
    args.tables[2] = {.data = workspace + layout.arriving,
                      .row_stride = layout.staged_stride,
                      .rows = static_cast<std::uint32_t>(plan_.tables->local_peers.size()),
                      .columns = static_cast<std::uint32_t>(plan_.tables->holdings.size())};
  }
  check(publish_words(args, step.stream));
}

/// Out of place, the own slice is written whatever the owner keeps.
void DifferenceCall::keep_exact(const Step& step) {
  if (own_slice() == plan_.args.send) return;
  check(cudaMemcpyAsync(own_slice(), plan_.args.send, plan_.shard.shard * element_bytes(plan_.shard.type),
                        cudaMemcpyDeviceToDevice, step.stream));
}

void DifferenceCall::exchange_step(const Step& step) {
  const WeightLayout layout = layout_of(step.chunk);
  const WeightTables& tables = *plan_.tables;
  const RealNccl& real = real_nccl();
  std::byte* const workspace = step.workspace.data();
  const WeightChunk chunk = chunk_of(step.chunk);
  const auto swap = [&](const std::byte* send, std::byte* receive, std::size_t bytes, std::uint32_t peer) {
    check(real.send(send, bytes, ncclUint8, static_cast<int>(peer), plan_.comm->handle, step.stream));
    check(real.recv(receive, bytes, ncclUint8, static_cast<int>(peer), plan_.comm->handle, step.stream));
  };
  if (step.step == 0 && tables.path == WeightPath::full) {
    check(real.all_gather(workspace + layout.message, workspace + layout.received, layout.message_stride,
                          ncclUint8, plan_.comm->handle, step.stream));
  } else if (step.step == 0) {
    const std::size_t bytes = message_bytes(chunk.count, 1, chunk.codec);
    for (std::size_t i = 0; i < tables.message_senders.size(); ++i) {
      swap(workspace + layout.message, workspace + layout.received + i * layout.message_stride, bytes,
           tables.message_senders[i]);
    }
  } else if (step.step == 1) {
    const std::size_t bytes = staged_message_bytes(tables.holdings.size(), chunk.count, chunk.type);
    for (std::size_t i = 0; i < tables.local_peers.size(); ++i) {
      swap(workspace + layout.staged, workspace + layout.arriving + i * layout.staged_stride, bytes,
           tables.local_peers[i]);
    }
  }
}

LinkBytes DifferenceCall::sent_bytes() const {
  const bool full = plan_.tables->path == WeightPath::full;
  LinkBytes bytes;
  for (std::size_t chunk = 0; chunk < chunk_count(); ++chunk) {
    const std::size_t length = chunk_of(chunk).count;
    if (full) {
      const LinkBytes gathered =
          plan_.comm->native(Collective::all_gather).of(layout_of(chunk).message_stride);
      bytes.in_node += gathered.in_node;
      bytes.between_nodes += gathered.between_nodes;
    } else {
      bytes.between_nodes +=
          plan_.tables->message_senders.size() * message_bytes(length, 1, plan_.shard.codec);
      bytes.in_node += plan_.tables->local_peers.size() *
                       staged_message_bytes(plan_.tables->holdings.size(), length, plan_.shard.type);
    }
  }
  return bytes;
}

std::uint64_t DifferenceCall::sends() const {
  if (plan_.tables->path == WeightPath::full) return 0;
  return chunk_count() * (plan_.tables->message_senders.size() + plan_.tables->local_peers.size());
}

std::uint64_t DifferenceCall::gathers() const {
  return plan_.tables->path == WeightPath::full ? chunk_count() : 0;
}

}  // namespace sdp4bit
