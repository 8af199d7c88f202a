// Sets up each phase's arguments once on the host and once on the device, runs both and compares every byte.
#include "gradient_phases.h"

#include <algorithm>

#include "kernels/header.h"
#include "kernels/reference.h"

namespace sdp4bit::test {
namespace {

constexpr std::byte kDeviceFill{0xa5};
constexpr std::byte kHostFill{0x5a};
constexpr std::uint64_t kCounter = (std::uint64_t{1} << 32) + 5;
constexpr std::uint32_t kChunk = 3;
constexpr NoiseKey kKey{.seed = 0x123456789abcdefull, .rank = 11, .communicator = 2};

std::span<const std::byte> bytes_of(const auto& value) {
  return std::as_bytes(std::span(&value, 1));
}

/// Input segments, counter and factor, in host and in device memory.
struct Inputs {
  Inputs(const PhaseCase& test, std::size_t segment_count)
      : stride(test.offset + test.count + test.seed % 3),
        host(make_elements(test.type, segment_count * stride, test.content, test.seed)),
        device(host, test.misalignment),
        host_factor(make_factor(test)),
        device_factor(host_factor, test.misalignment),
        device_counter(bytes_of(counter)) {}

  static Bytes make_factor(const PhaseCase& test) {
    Bytes factor(element_bytes(test.type));
    reference::store_element(test.type, factor.data(), 0, test.factor);
    return factor;
  }
  Segments segments(const PhaseCase& test, bool on_device) const {
    Segments result{.data = on_device ? device.data() : host.data(),
                    .type = test.type,
                    .stride = stride,
                    .offset = test.offset,
                    .count = test.count,
                    .factor = test.factor};
    if (test.factor_on_device) {
      result.factor = 0.0f;  // must not be used
      result.device_factor = on_device ? device_factor.data() : host_factor.data();
    }
    return result;
  }
  Draw draw(bool on_device) const { return {on_device ? device_counter.as<std::uint64_t>() : &counter, 7}; }

  std::size_t stride;
  Bytes host;
  DeviceBytes device;
  Bytes host_factor;
  DeviceBytes device_factor;
  std::uint64_t counter = kCounter;
  DeviceBytes device_counter;
};

/// Messages that `senders` other ranks send: each holds `segment_count` segments.
Bytes make_messages(const PhaseCase& test, std::uint32_t senders, std::uint32_t segment_count,
                    const Codec& codec, MessageKind kind, std::size_t stride, std::size_t bad_header_byte) {
  Bytes messages(senders * stride);
  std::vector<std::uint32_t> table(segment_count);
  for (std::uint32_t s = 0; s < segment_count; ++s) table[s] = s;
  for (std::uint32_t sender = 0; sender < senders; ++sender) {
    const Bytes input =
        make_elements(test.type, segment_count * test.count, test.content, test.seed + 100 * (sender + 1));
    reference::quantize(
        {.input = {.data = input.data(), .type = test.type, .stride = test.count, .count = test.count},
         .table = table.data(),
         .message_count = 1,
         .segments_per_message = segment_count,
         .messages = {messages.data() + sender * stride, stride},
         .codec = codec,
         .key = {.rank = sender},
         .draw = {&kCounter, 0},
         .kind = kind,
         .sender = sender,
         .chunk = kChunk});
  }
  if (senders > 0 && bad_header_byte < sizeof(MessageHeader)) messages[bad_header_byte] ^= std::byte{0x40};
  return messages;
}

void run(cudaError_t launch) {
  require_success(launch);
  require_success(cudaDeviceSynchronize());
}

std::string input_changed(const Inputs& inputs) {
  const std::string difference = first_difference(inputs.device.download(), inputs.host);
  return difference.empty() ? "" : "input changed: " + difference;
}

}  // namespace

std::string compare_quantize(const QuantizeCase& test) {
  const std::uint32_t segment_count = 1 + *std::max_element(test.table.begin(), test.table.end());
  const Inputs inputs(test, segment_count);
  const std::size_t stride = message_bytes(test.count, test.segments_per_message, test.codec);
  const std::size_t message_count = test.table.size() / test.segments_per_message;
  Bytes expected(message_count * stride, kHostFill);
  const DeviceBytes messages(message_count * stride, kDeviceFill);
  const DeviceBytes table(test.table);
  QuantizeArgs args{.input = inputs.segments(test, false),
                    .table = test.table.data(),
                    .message_count = static_cast<std::uint32_t>(message_count),
                    .segments_per_message = test.segments_per_message,
                    .messages = {expected.data(), stride},
                    .codec = test.codec,
                    .key = kKey,
                    .draw = inputs.draw(false),
                    .kind = MessageKind::gradient_in_node,
                    .sender = 6,
                    .chunk = kChunk};
  reference::quantize(args);
  args.input = inputs.segments(test, true);
  args.table = table.as<std::uint32_t>();
  args.messages.data = messages.data();
  args.draw = inputs.draw(true);
  run(quantize(args, nullptr));
  const std::string difference = first_difference(messages.download(), expected);
  return difference.empty() ? input_changed(inputs) : difference;
}

std::string compare_reduce_requantize(const ReduceRequantizeCase& test) {
  const Inputs inputs(test, 2 * test.nodes);
  std::vector<std::uint32_t> own_table(test.nodes);
  for (std::uint32_t node = 0; node < test.nodes; ++node) own_table[node] = 2 * node + test.seed % 2;
  const std::size_t received_stride = message_bytes(test.count, test.nodes, test.received_codec);
  Bytes received = make_messages(test, test.peers, test.nodes, test.received_codec,
                                 MessageKind::gradient_in_node, received_stride, test.bad_header_byte);
  const std::size_t stride = message_bytes(test.count, 1, test.codec);
  Bytes expected((test.nodes - 1) * stride, kHostFill);
  std::vector<float> expected_partial(padded_count(test.count));
  std::uint32_t expected_error = 0;
  const DeviceBytes device_received(received);
  const DeviceBytes device_table(own_table);
  const DeviceBytes messages(expected.size(), kDeviceFill);
  const DeviceBytes partial(expected_partial.size() * sizeof(float), kDeviceFill);
  const DeviceBytes error(sizeof(std::uint32_t), std::byte{0});
  ReduceRequantizeArgs args{.input = inputs.segments(test, false),
                            .own_table = own_table.data(),
                            .received = {received.data(), received_stride},
                            .peer_count = test.peers,
                            .own_position = test.own_position,
                            .received_codec = test.received_codec,
                            .node_count = test.nodes,
                            .own_node = test.own_node,
                            .messages = {expected.data(), stride},
                            .own_partial = expected_partial.data(),
                            .codec = test.codec,
                            .key = kKey,
                            .draw = inputs.draw(false),
                            .sender = 9,
                            .chunk = kChunk,
                            .error = &expected_error};
  reference::reduce_requantize(args);
  args.input = inputs.segments(test, true);
  args.own_table = device_table.as<std::uint32_t>();
  args.received.data = device_received.data();
  args.messages.data = messages.data();
  args.own_partial = partial.as<float>();
  args.draw = inputs.draw(true);
  args.error = error.as<std::uint32_t>();
  run(reduce_requantize(args, nullptr));
  std::string difference = first_difference(messages.download(), expected);
  if (!difference.empty()) return "messages: " + difference;
  const auto partial_bytes = std::as_bytes(std::span(expected_partial));
  difference = first_difference(partial.download(), Bytes(partial_bytes.begin(), partial_bytes.end()));
  if (!difference.empty()) return "partial: " + difference;
  if (error.download()[0] != static_cast<std::byte>(expected_error)) return "error word differs";
  return input_changed(inputs);
}

std::string compare_reduce_finish(const ReduceFinishCase& test) {
  const std::uint32_t own_segment = test.seed % 3;
  const Inputs inputs(test, 3);
  const MessageKind kind = MessageKind::gradient_between_nodes;
  const std::size_t stride = message_bytes(test.count, 1, test.codec);
  Bytes received = make_messages(test, test.messages, 1, test.codec, kind, stride, test.bad_header_byte);
  const DeviceBytes device_received(received);
  // Sums of transformed values: float32 at aligned addresses, whole blocks.
  const Bytes partial =
      make_elements(ElementType::float32, padded_count(test.count), test.content, test.seed + 9);
  const DeviceBytes device_partial(partial);
  const std::size_t shard_bytes = inputs.stride * element_bytes(test.type);
  // What the kernel must leave alone is equal in both, what it must write is not.
  Bytes expected(shard_bytes, kDeviceFill);
  std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(test.offset * element_bytes(test.type)),
              test.count * element_bytes(test.type), kHostFill);
  const DeviceBytes output(Bytes(shard_bytes, kDeviceFill), test.output_misalignment);
  std::uint32_t expected_error = 0;
  const DeviceBytes error(sizeof(std::uint32_t), std::byte{0});
  ReduceFinishArgs args{.input = inputs.segments(test, false),
                        .own_partial = nullptr,
                        .own_segment = own_segment,
                        .received = {received.data(), stride},
                        .message_count = test.messages,
                        .own_position = test.own_position,
                        .codec = test.codec,
                        .out_factor = test.out_factor,
                        .output = expected.data(),
                        .chunk = kChunk,
                        .kind = kind,
                        .error = &expected_error};
  if (test.from_partial) args.own_partial = reinterpret_cast<const float*>(partial.data());
  reference::reduce_finish(args);
  args.input = inputs.segments(test, true);
  if (test.from_partial) args.own_partial = device_partial.as<float>();
  args.received.data = device_received.data();
  args.output = test.in_place ? inputs.device.data() + own_segment * shard_bytes : output.data();
  args.error = error.as<std::uint32_t>();
  run(reduce_finish(args, nullptr));
  if (error.download()[0] != static_cast<std::byte>(expected_error)) return "error word differs";
  if (!test.in_place) {
    const std::string difference = first_difference(output.download(), expected);
    return difference.empty() ? input_changed(inputs) : difference;
  }
  Bytes expected_input = inputs.host;
  const std::size_t begin = test.offset * element_bytes(test.type);
  std::copy_n(expected.begin() + static_cast<std::ptrdiff_t>(begin), test.count * element_bytes(test.type),
              expected_input.begin() + static_cast<std::ptrdiff_t>(own_segment * shard_bytes + begin));
  return first_difference(inputs.device.download(), expected_input);
}

}  // namespace sdp4bit::test
