// The kernels of a gradient's way, with the codecs that can be chosen.
#include "cases.h"
#include "kernels/launch.h"

namespace sdp4bit::bench {
namespace {

constexpr Codec kInt4{.bits = 4};
constexpr Codec kInt8{.bits = 8};
// The defaults: kInt8Small in a node, kDither4 between nodes.
constexpr Codec kInt8Small{.bits = 8, .group_size = 64, .scale = ScaleType::bfloat16};
constexpr Codec kDither4{
    .bits = 4, .group_size = 64, .scale = ScaleType::bfloat16, .coding = Coding::dithered};
constexpr Codec kDither8{
    .bits = 8, .group_size = 64, .scale = ScaleType::bfloat16, .coding = Coding::dithered};
constexpr std::uint32_t kNodes = 2;

/// Messages as `senders` ranks would send them, `segments` segments in each.
Messages received(DeviceMemory& memory, std::size_t count, std::uint32_t senders, std::uint32_t segments,
                  const Codec& codec, MessageKind kind) {
  const std::size_t stride = message_bytes(count, segments, codec);
  const Messages messages{memory.zeros(senders * stride), stride};
  DeviceMemory scratch;
  const std::byte* const input = scratch.gaussian_bfloat16(segments * count, 7);
  std::vector<std::uint32_t> table;
  for (std::uint32_t segment = 0; segment < segments; ++segment) table.push_back(segment);
  const std::uint32_t* const device_table = scratch.copy_of(table);
  const std::uint64_t* const counter = scratch.copy_of(std::vector<std::uint64_t>{5});
  for (std::uint32_t sender = 0; sender < senders; ++sender) {
    check(quantize({.input = {.data = input, .type = ElementType::bfloat16, .stride = count, .count = count},
                    .table = device_table,
                    .message_count = 1,
                    .segments_per_message = segments,
                    .messages = {messages.data + sender * stride, stride},
                    .codec = codec,
                    .key = {.seed = 1, .rank = sender},
                    .draw = {.counter = counter},
                    .kind = kind,
                    .sender = sender},
                   nullptr));
    check(cudaDeviceSynchronize());
  }
  return messages;
}

std::unique_ptr<PreparedCase> prepare_quantize(std::size_t count, ElementType type, const Codec& codec) {
  auto made = std::make_unique<PreparedCase>();
  DeviceMemory& memory = made->memory;
  const std::size_t stride = message_bytes(count, 1, codec);
  const QuantizeArgs args{.input = {.data = type == ElementType::float32 ? memory.gaussian_float32(count, 1)
                                                                         : memory.gaussian_bfloat16(count, 1),
                                    .type = type,
                                    .stride = count,
                                    .count = count},
                          .table = memory.copy_of(std::vector<std::uint32_t>{0}),
                          .message_count = 1,
                          .segments_per_message = 1,
                          .messages = {memory.zeros(stride), stride},
                          .codec = codec,
                          .key = {.seed = 1},
                          .draw = {.counter = memory.copy_of(std::vector<std::uint64_t>{5})},
                          .nonfinite = nullptr};
  made->elements = count;
  made->read_bytes = count * element_bytes(type);
  made->written_bytes = stride;
  made->launch = [args](cudaStream_t stream) { return quantize(args, stream); };
  return made;
}

/// A node's sums for kNodes nodes: one travels, the own one stays in fp32. The row is of the travelling one:
/// the own node is put last, behind it in the grid.
std::unique_ptr<PreparedCase> prepare_reduce(std::size_t count, std::uint32_t local_ranks, const Codec& inner,
                                             const Codec& outer) {
  auto made = std::make_unique<PreparedCase>();
  DeviceMemory& memory = made->memory;
  const std::uint32_t peers = local_ranks - 1;
  const std::size_t stride = message_bytes(count, 1, outer);
  const Messages messages = received(memory, count, peers, kNodes, inner, MessageKind::gradient_in_node);
  const ReduceRequantizeArgs args{
      .input = {.data = memory.gaussian_bfloat16(kNodes * count, 1),
                .type = ElementType::bfloat16,
                .stride = count,
                .count = count},
      .own_table = memory.copy_of(std::vector<std::uint32_t>{0, 1}),
      .received = messages,
      .peer_count = peers,
      .own_position = peers / 2,
      .received_codec = inner,
      .node_count = kNodes,
      .own_node = kNodes - 1,
      .messages = {memory.zeros(stride), stride},
      .own_partial = reinterpret_cast<float*>(memory.zeros(count * sizeof(float))),
      .codec = outer,
      .key = {.seed = 1},
      .draw = {.counter = memory.copy_of(std::vector<std::uint64_t>{5})},
      .nonfinite = nullptr};
  made->elements = kNodes * count;
  made->read_bytes = kNodes * count * 2 + peers * messages.stride;
  made->written_bytes = stride + count * sizeof(float);
  made->launch = [args](cudaStream_t stream) { return reduce_requantize(args, stream); };
  return made;
}

std::unique_ptr<PreparedCase> prepare_finish(std::size_t count, std::uint32_t message_count,
                                             const Codec& codec) {
  auto made = std::make_unique<PreparedCase>();
  DeviceMemory& memory = made->memory;
  const Messages messages =
      received(memory, count, message_count, 1, codec, MessageKind::gradient_between_nodes);
  const ReduceFinishArgs args{
      .input = {.type = ElementType::bfloat16, .count = count},
      .own_partial = reinterpret_cast<const float*>(memory.gaussian_float32(count, 1)),
      .received = messages,
      .message_count = message_count,
      .own_position = message_count / 2,
      .codec = codec,
      .out_factor = 0.25f,
      .output = memory.zeros(count * 2)};
  made->elements = count;
  made->read_bytes = count * sizeof(float) + message_count * messages.stride;
  made->written_bytes = count * 2;
  made->launch = [args](cudaStream_t stream) { return reduce_finish(args, stream); };
  return made;
}

}  // namespace

std::vector<Case> gradient_cases() {
  std::vector<Case> cases;
  const auto add_quantize = [&](ElementType type, const Codec& codec) {
    cases.push_back({std::string("quantize ") + (type == ElementType::float32 ? "fp32" : "bf16") + " -> " +
                         describe(codec),
                     "quantize_kernel",
                     [=](std::size_t count) { return prepare_quantize(count, type, codec); }});
  };
  for (const Codec& codec : {kInt8Small, kDither4, kInt4, kInt8, kDither8})
    add_quantize(ElementType::bfloat16, codec);
  for (const Codec& codec : {kInt4, kInt8}) add_quantize(ElementType::float32, codec);
  const auto add_reduce = [&](std::uint32_t local_ranks, const Codec& inner, const Codec& outer) {
    cases.push_back({"reduce_requantize " + describe(inner) + " -> " + describe(outer) +
                         ", L=" + std::to_string(local_ranks),
                     "reduce_requantize_kernel",
                     [=](std::size_t count) { return prepare_reduce(count, local_ranks, inner, outer); }});
  };
  for (const std::uint32_t local_ranks : {2u, 4u, 8u}) add_reduce(local_ranks, kInt8Small, kDither4);
  for (const std::uint32_t local_ranks : {2u, 4u, 8u}) add_reduce(local_ranks, kInt8, kInt4);
  add_reduce(8, kDither8, kDither4);
  const auto add_finish = [&](std::uint32_t messages, const Codec& codec) {
    cases.push_back({"reduce_finish " + describe(codec) + " -> bf16, messages=" + std::to_string(messages),
                     "reduce_finish_kernel",
                     [=](std::size_t count) { return prepare_finish(count, messages, codec); }});
  };
  for (const Codec& codec : {kDither4, kInt4})
    for (const std::uint32_t messages : {1u, 4u, 8u}) add_finish(messages, codec);
  return cases;
}

}  // namespace sdp4bit::bench
