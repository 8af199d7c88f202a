// Steps of a difference call: kernels and exchanges; see weight_difference.h.
#include "plugin/weight_difference.h"

#include <algorithm>

#include "plugin/comm_state.h"
#include "plugin/real_nccl.h"

namespace sdp4bit {
namespace {

DifferenceCall& difference(const Part& part) {
  return static_cast<DifferenceCall&>(*part.call);
}

}  // namespace

void DifferenceCall::set(const DifferencePlan& plan) {
  plan_ = plan;
  checksum_call_ = {.use = plan.comm->checksums.next_use(),
                    .number = plan.shard.class_call,
                    .class_number = plan.shard.class_number};
  const Topology& topology = plan.comm->topology;
  const WeightChunk& shard = plan.shard;
  chunk_length_ = weight_chunk_length(shard.shard, shard.type, plan.tables->path, shard.codec, topology,
                                      config().workspace);
  full_chunk_ = layout_of(chunk_length_);
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

WeightLayout DifferenceCall::alone(std::size_t chunk) const {
  const std::size_t length = chunk_of(chunk).count;
  return length == chunk_length_ ? full_chunk_ : layout_of(length);
}

WeightLayout DifferenceCall::layout_of(std::size_t length) const {
  return weight_layout(length, plan_.shard.type, plan_.tables->path, plan_.shard.codec, plan_.comm->topology);
}

void DifferenceCall::arrange(std::span<const Part> together) {
  if (together.size() == 1) {
    layout_ = alone(together.front().step.chunk);
    return;
  }
  JointWeightLayout joint;
  for (const Part& part : together) joint.add(difference(part).alone(part.step.chunk));
  for (const Part& part : together) {
    DifferenceCall& call = difference(part);
    call.layout_ = joint.next(call.alone(part.step.chunk), plan_.tables->path, plan_.comm->topology);
  }
}

void DifferenceCall::launch(std::span<const Part> together) {
  const int step = together.front().step.step;
  if (step == 0) return launch_encode(together);
  step == 1 ? launch_add(together) : launch_scatter(together);
  if (step + 1 < step_count()) return;
  for (const Part& part : together) {
    const DifferenceCall& call = difference(part);
    if (!call.plan_.replica && call.is_last(part.step)) call.keep_exact(part.step);
  }
}

/// Calls that probe or are sampled have kernels of their own around the encoding, and a probe is that of its
/// whole class: what was put together before them goes first.
void DifferenceCall::launch_encode(std::span<const Part> together) {
  CommState& comm = *difference(together.front()).plan_.comm;
  const cudaStream_t stream = together.front().step.stream;
  difference(together.front()).plan_.tables->upload(stream);
  std::vector<EncodeDifference>& calls = comm.launches.encode;
  calls.clear();
  const auto launch_them = [&] {
    check(encode_difference_batch(calls, comm.finished_blocks(), stream));
    calls.clear();
  };
  for (const Part& part : together) {
    const DifferenceCall& call = difference(part);
    const DifferencePlan& plan = call.plan_;
    const bool probes = plan.visit.answer || plan.visit.start;
    const EncodeDifference args = call.encode_args(part.step);
    if (probes || plan.sampled) launch_them();
    if (probes && part.step.chunk == 0) check(answer_probe(call.probe_args(), stream));
    if (plan.sampled) {
      check(sample_difference(args.encode,
                              comm.sampling.target(SampleKind::weight, comm.counter_mirror(),
                                                   part.step.chunk == 0, call.is_last(part.step)),
                              stream));
    }
    calls.push_back(args);
    if (!probes) continue;
    launch_them();
    if (plan.visit.start && call.is_last(part.step)) check(apply_probe(call.probe_args(), stream));
  }
  launch_them();
  for (const Part& part : together) {
    const DifferenceCall& call = difference(part);
    const WeightLayout& layout = call.layout_;
    comm.checksums.seal(
        checksummed_messages(part.step.workspace.data() + layout.message, layout.message_stride,
                             call.alone(part.step.chunk).message_stride, 1),
        stream);
  }
}

void DifferenceCall::only_answer_probe(const Step& step) {
  if (!plan_.visit.answer) return;
  ProbeArgs args = probe_args();
  args.start = false;
  check(answer_probe(args, step.stream));
}

/// Before the data is read.
void DifferenceCall::verify(Exchange exchange, const Step& step) const {
  if (!plan_.comm->checksums.on()) return;
  const WeightLayout own = alone(step.chunk);
  const WeightTables& tables = *plan_.tables;
  std::byte* const workspace = step.workspace.data();
  Arrived arrived{.exchange = exchange, .parts = {}, .chunk = static_cast<std::uint32_t>(step.chunk)};
  if (exchange == Exchange::weights_in_node) {
    arrived.parts =
        checksummed_messages(workspace + layout_.arriving, layout_.staged_stride, own.staged_stride,
                             static_cast<std::uint32_t>(tables.local_peers.size()));
    arrived.headers_per_part = static_cast<std::uint32_t>(tables.holdings.size());
    arrived.passed_on = Exchange::weights_passed_on;
  } else {
    arrived.parts =
        checksummed_messages(workspace + layout_.received, layout_.message_stride, own.message_stride,
                             static_cast<std::uint32_t>(tables.message_senders.size()));
  }
  plan_.comm->checksums.verify(*plan_.comm, arrived, checksum_call_, step.stream);
}

void DifferenceCall::launch_add(std::span<const Part> together) {
  const CommState& comm = *difference(together.front()).plan_.comm;
  std::vector<AddDifference>& calls = difference(together.front()).plan_.comm->launches.add;
  calls.clear();
  for (const Part& part : together) {
    const DifferenceCall& call = difference(part);
    const bool full = call.plan_.tables->path == WeightPath::full;
    call.verify(full ? Exchange::difference_all : Exchange::difference_column, part.step);
    calls.push_back(call.add_args(part.step));
  }
  const cudaStream_t stream = together.front().step.stream;
  check(add_difference_batch(calls, comm.finished_blocks(), stream));
  for (const Part& part : together) {
    const DifferenceCall& call = difference(part);
    if (!call.has_second_exchange()) continue;
    comm.checksums.seal(
        checksummed_messages(part.step.workspace.data() + call.layout_.staged, call.layout_.staged_stride,
                             call.alone(part.step.chunk).staged_stride, 1),
        stream);
  }
}

void DifferenceCall::launch_scatter(std::span<const Part> together) {
  CommState& comm = *difference(together.front()).plan_.comm;
  std::vector<ScatterShards>& calls = comm.launches.scatter;
  calls.clear();
  for (const Part& part : together) {
    difference(part).verify(Exchange::weights_in_node, part.step);
    calls.push_back(difference(part).scatter_args(part.step));
  }
  check(scatter_shards_batch(calls, comm.finished_blocks(), together.front().step.stream));
}

/// Out of place, the own slice is written whatever the owner keeps.
void DifferenceCall::keep_exact(const Step& step) const {
  if (own_slice() == plan_.args.send) return;
  check(cudaMemcpyAsync(own_slice(), plan_.args.send, plan_.shard.shard * element_bytes(plan_.shard.type),
                        cudaMemcpyDeviceToDevice, step.stream));
}

/// One message to each peer, or one AllGather: the first call's parts lead those of the others.
void DifferenceCall::exchange(std::span<const Part> together) {
  const Step& step = together.front().step;
  const WeightTables& tables = *plan_.tables;
  const RealNccl& real = real_nccl();
  FunctionStats& counters = plan_.comm->stats->of(Collective::all_gather);
  std::byte* const workspace = step.workspace.data();
  const auto swap = [&](const std::vector<std::uint32_t>& peers, std::size_t send, std::size_t receive,
                        std::size_t bytes) {
    for (const std::uint32_t peer : peers) {
      const int rank = static_cast<int>(peer);
      check(real.send(workspace + send, bytes, ncclUint8, rank, plan_.comm->handle, step.stream));
      check(real.recv(workspace + receive, bytes, ncclUint8, rank, plan_.comm->handle, step.stream));
      receive += bytes;
    }
    counters.add(Counter::sends, peers.size());
  };
  if (step.step == 0 && tables.path == WeightPath::full) {
    const std::size_t bytes = layout_.message_stride;
    check(real.all_gather(workspace + layout_.received + plan_.comm->rank * bytes,
                          workspace + layout_.received, bytes, ncclUint8, plan_.comm->handle, step.stream));
    counters.add(Counter::gathers, 1);
  } else if (step.step == 0) {
    swap(tables.message_senders, layout_.message, layout_.received, layout_.message_stride);
  } else {
    swap(tables.local_peers, layout_.staged, layout_.arriving, layout_.staged_stride);
  }
}

LinkBytes DifferenceCall::sent_bytes() const {
  const bool full = plan_.tables->path == WeightPath::full;
  LinkBytes bytes;
  for (std::size_t chunk = 0; chunk < chunk_count(); ++chunk) {
    const std::size_t length = chunk_of(chunk).count;
    if (full) {
      const LinkBytes gathered = plan_.comm->native(Collective::all_gather).of(alone(chunk).message_stride);
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

}  // namespace sdp4bit
