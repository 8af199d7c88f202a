// How a gradient travels, top to bottom:
//
//   two levels   quantize (8 bits) -> exchange in the node -> reduce_requantize (4 bits)
//                -> exchange between nodes -> reduce_finish
//   one level    quantize -> exchange with all ranks -> reduce_finish; 8 bits on one node, else 4
//
// Calls of a group that belong to one communicator share the kernels of a phase, and their messages to a peer
// are one. Who sends what to whom, and where it lies, is in gradient_layout.cpp.
#include "plugin/reduce_scatter.h"

#include <algorithm>
#include <utility>

#include "plugin/real_nccl.h"

namespace sdp4bit {
namespace {

/// Makes an element of a list where it will lie: the arguments of launches are large.
template <typename Make>
struct InPlace {
  Make make;
  operator decltype(make())() const { return make(); }
};
template <typename Make>
InPlace(Make) -> InPlace<Make>;  // clang 14 does not find it by itself

ReduceScatterCall& gradient(const Part& part) {
  return static_cast<ReduceScatterCall&>(*part.call);
}

}  // namespace

void upload_segment_tables(CommState& comm, cudaStream_t stream) {
  const std::vector<std::uint32_t> first = first_segments(comm.topology);
  const std::vector<std::uint32_t> own = own_column(comm.topology);
  SegmentTables& tables = comm.tables;
  const std::size_t bytes = (first.size() + own.size()) * sizeof(std::uint32_t);
  tables.memory = DeviceBuffer(bytes);
  tables.source = PinnedBuffer(bytes);
  const auto end_of_first = std::copy(first.begin(), first.end(), tables.source.as<std::uint32_t>());
  std::copy(own.begin(), own.end(), end_of_first);
  check(cudaMemcpyAsync(tables.memory.data(), tables.source.data(), bytes, cudaMemcpyHostToDevice, stream));
  tables.first_phase = tables.memory.as<std::uint32_t>();
  tables.own_column = tables.first_phase + first.size();
}

void ReduceScatterCall::set(std::shared_ptr<CommState> comm, const ReduceScatterArgs& args,
                            ScaleHistogram* scales) {
  comm_ = std::move(comm);
  args_ = args;
  type_ = element_type(args.type).value();
  plan_ = comm_->gradient_plans.of(args.count, comm_->topology, config());
  draw_ = comm_->take_draw();
  checksum_call_ = {.use = comm_->checksums.next_use(), .number = draw_.offset, .counter = draw_.counter};
  sampled_ = false;
  scales_ = scales;
}

std::size_t ReduceScatterCall::chunk_count() const {
  return plan_.chunks;
}
std::size_t ReduceScatterCall::chunk_bytes(std::size_t) const {
  return plan_.full_chunk.bytes;
}
int ReduceScatterCall::step_count() const {
  return way().two_levels() ? 3 : 2;
}

std::size_t ReduceScatterCall::chunk_elements(std::size_t chunk) const {
  return std::min(plan_.chunk_length, args_.count - chunk * plan_.chunk_length);
}

Segments ReduceScatterCall::segments(std::size_t chunk) const {
  return {.data = args_.send,
          .type = type_,
          .stride = args_.count,
          .offset = chunk * plan_.chunk_length,
          .count = chunk_elements(chunk),
          .factor = args_.pre_mul_sum.value,
          .device_factor = args_.pre_mul_sum.device_pointer};
}

const char* ReduceScatterCall::phase(int step) const {
  return step == 0                 ? "gradient quantize"
         : step + 1 < step_count() ? "gradient reduce_requantize"
                                   : "gradient reduce_finish";
}

GradientLayout ReduceScatterCall::alone(std::size_t chunk) const {
  const std::size_t length = chunk_elements(chunk);
  return length == plan_.chunk_length ? plan_.full_chunk : gradient_layout(length, comm_->topology, config());
}

void ReduceScatterCall::arrange(std::span<const Part> together) {
  if (together.size() == 1) {
    layout_ = alone(together.front().step.chunk);
    return;
  }
  JointGradientLayout joint;
  for (const Part& part : together) joint.add(gradient(part).alone(part.step.chunk));
  for (const Part& part : together)
    gradient(part).layout_ = joint.next(gradient(part).alone(part.step.chunk), comm_->topology);
}

void ReduceScatterCall::launch(std::span<const Part> together) {
  const int step = together.front().step.step;
  if (step == 0) {
    launch_quantize(together);
  } else if (step + 1 < step_count()) {
    launch_reduce_requantize(together);
  } else {
    launch_reduce_finish(together);
  }
}

ChecksummedParts ReduceScatterCall::sent(bool first, const Step& step) const {
  const std::size_t length = chunk_elements(step.chunk);
  return checksummed_messages(step.workspace.data() + (first ? layout_.first_send : layout_.second_send),
                              first ? layout_.first_stride : layout_.second_stride,
                              first ? way().first_bytes(length) : way().second_bytes(length),
                              first ? way().first_peers : way().second_peers);
}

ChecksummedParts ReduceScatterCall::received(bool first, const Step& step) const {
  ChecksummedParts parts = sent(first, step);
  parts.headers = step.workspace.data() + (first ? layout_.first_receive : layout_.second_receive);
  parts.data = parts.headers;
  return parts;
}

void ReduceScatterCall::seal(bool first, const Step& step) const {
  if (comm_->checksums.on()) comm_->checksums.seal(sent(first, step), step.stream);
}

void ReduceScatterCall::verify(bool first, const Step& step) const {
  if (!comm_->checksums.on()) return;
  comm_->checksums.verify(*comm_,
                          {.exchange = first ? Exchange::gradient_first : Exchange::gradient_second,
                           .parts = received(first, step),
                           .chunk = static_cast<std::uint32_t>(step.chunk)},
                          checksum_call_, step.stream);
}

SampleTarget ReduceScatterCall::sample_target(SampleKind kind, const Step& step) const {
  return comm_->sampling.target(kind, comm_->counter_mirror(), step.chunk == 0,
                                step.chunk + 1 == chunk_count());
}

void ReduceScatterCall::launch_quantize(std::span<const Part> together) {
  std::vector<QuantizeArgs>& calls = gradient(together.front()).comm_->launches.quantize;
  calls.clear();
  for (const Part& part : together)
    calls.emplace_back(InPlace{[&] { return gradient(part).quantize_args(part.step); }});
  check(
      quantize_batch(calls, together.front().step.stream, &gradient(together.front()).comm_->noise_schedule));
  for (std::size_t i = 0; i < together.size(); ++i) {
    const ReduceScatterCall& call = gradient(together[i]);
    const Step& step = together[i].step;
    const QuantizeArgs& args = calls[i];
    call.seal(true, step);
    if (call.sampled_)
      check(sample_quantize(args, call.sample_target(SampleKind::gradient_first, step), step.stream));
    if (!call.scales_) continue;
    check(count_scales({.messages = args.messages,
                        .message_count = args.message_count,
                        .segments_per_message = args.segments_per_message,
                        .count = args.input.count,
                        .codec = args.codec,
                        .histogram = call.scales_},
                       step.stream));
  }
}

QuantizeArgs ReduceScatterCall::quantize_args(const Step& step) const {
  return {.input = segments(step.chunk),
          .table = comm_->tables.first_phase,
          .message_count = way().first_peers,
          .segments_per_message = way().first_segments,
          .messages = {step.workspace.data() + layout_.first_send, layout_.first_stride},
          .codec = way().first_codec,
          .key = comm_->noise,
          .draw = draw_,
          .kind = way().first_kind(),
          .sender = comm_->rank,
          .chunk = static_cast<std::uint32_t>(step.chunk),
          .nonfinite = &comm_->counters()->gradients};
}

void ReduceScatterCall::launch_reduce_requantize(std::span<const Part> together) {
  std::vector<ReduceRequantizeArgs>& calls = gradient(together.front()).comm_->launches.reduce_requantize;
  calls.clear();
  for (const Part& part : together) {
    calls.emplace_back(InPlace{[&] { return gradient(part).reduce_requantize_args(part.step); }});
    gradient(part).verify(true, part.step);
  }
  check(reduce_requantize_batch(calls, together.front().step.stream,
                                &gradient(together.front()).comm_->noise_schedule));
  for (std::size_t i = 0; i < together.size(); ++i) {
    const ReduceScatterCall& call = gradient(together[i]);
    const Step& step = together[i].step;
    call.seal(false, step);
    if (call.sampled_)
      check(sample_requantize(calls[i], call.sample_target(SampleKind::gradient_second, step), step.stream));
  }
}

ReduceRequantizeArgs ReduceScatterCall::reduce_requantize_args(const Step& step) const {
  const Topology& topology = comm_->topology;
  return {.input = segments(step.chunk),
          .own_table = comm_->tables.own_column,
          .received = {step.workspace.data() + layout_.first_receive, layout_.first_stride},
          .peer_count = topology.local_size - 1,
          .own_position = topology.local_rank,
          .received_codec = way().first_codec,
          .node_count = topology.node_count,
          .own_node = topology.node,
          .messages = {step.workspace.data() + layout_.second_send, layout_.second_stride},
          .own_partial = own_partial(step),
          .codec = way().second_codec,
          .key = comm_->noise,
          .draw = draw_,
          .sender = comm_->rank,
          .chunk = static_cast<std::uint32_t>(step.chunk),
          .error = comm_->error_flag(),
          .nonfinite = &comm_->counters()->gradients};
}

/// The group's last one moves the counter of draws on.
void ReduceScatterCall::launch_reduce_finish(std::span<const Part> together) {
  CommState& comm = *gradient(together.front()).comm_;
  std::vector<ReduceFinishArgs>& calls = comm.launches.reduce_finish;
  calls.clear();
  for (const Part& part : together) {
    const ReduceScatterCall& call = gradient(part);
    calls.emplace_back(InPlace{[&] { return call.reduce_finish_args(part.step); }});
    call.verify(!call.way().two_levels(), part.step);
  }
  DrawAdvance advance;
  if (together.front().step.last_of_kind) {
    advance = {.counter = comm.draw_counter(),
               .by = std::exchange(comm.draws_in_group, 0),
               .mirror = comm.counter_mirror(),
               .finished_blocks = comm.finished_blocks()};
  }
  check(reduce_finish_batch(calls, together.front().step.stream, advance));
}

ReduceFinishArgs ReduceScatterCall::reduce_finish_args(const Step& step) const {
  const bool two_levels = way().two_levels();
  const std::size_t receive = two_levels ? layout_.second_receive : layout_.first_receive;
  const std::size_t stride = two_levels ? layout_.second_stride : layout_.first_stride;
  return {.input = segments(step.chunk),
          .own_partial = two_levels ? own_partial(step) : nullptr,
          .own_segment = comm_->rank,
          .received = {step.workspace.data() + receive, stride},
          .message_count = two_levels ? way().second_peers : way().first_peers,
          .own_position = two_levels ? comm_->topology.node : comm_->rank,
          .codec = two_levels ? way().second_codec : way().first_codec,
          .out_factor = args_.kind == OpKind::avg ? 1.0f / static_cast<float>(comm_->ranks) : 1.0f,
          .output = args_.receive,
          .chunk = static_cast<std::uint32_t>(step.chunk),
          .kind = two_levels ? MessageKind::gradient_between_nodes : way().first_kind(),
          .error = comm_->error_flag(),
          .nonfinite = &comm_->counters()->gradients};
}

/// One message to each peer: the first call's parts lead those of the others.
void ReduceScatterCall::exchange(std::span<const Part> together) {
  const Step& step = together.front().step;
  const Topology& topology = comm_->topology;
  const RealNccl& real = real_nccl();
  const bool first = step.step == 0;
  const std::size_t bytes = first ? layout_.first_stride : layout_.second_stride;
  std::byte* send = step.workspace.data() + (first ? layout_.first_send : layout_.second_send);
  std::byte* receive = step.workspace.data() + (first ? layout_.first_receive : layout_.second_receive);
  const std::uint32_t messages = first ? way().first_peers : way().second_peers;
  for (std::uint32_t message = 0; message < messages; ++message, send += bytes, receive += bytes) {
    const auto peer =
        static_cast<int>(first ? first_peer(topology, message) : second_peer(topology, message));
    check(real.send(send, bytes, ncclUint8, peer, comm_->handle, step.stream));
    check(real.recv(receive, bytes, ncclUint8, peer, comm_->handle, step.stream));
  }
  comm_->stats->of(Collective::reduce_scatter).add(Counter::sends, messages);
}

}  // namespace sdp4bit
