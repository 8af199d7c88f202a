// The phases of a gradient, each as one loop over segments.
#include "kernels/reference.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/codec.h"
#include "kernels/element.h"
#include "kernels/hadamard.h"
#include "kernels/header.h"
#include "kernels/random.h"
#include "kernels/reference_codec.h"

namespace sdp4bit::reference {
namespace {

template <typename Transform>
void for_each_block(std::vector<float>& padded, Transform transform) {
  for (std::size_t begin = 0; begin < padded.size(); begin += kBlock) {
    float block[kBlock];
    std::copy_n(padded.begin() + static_cast<std::ptrdiff_t>(begin), kBlock, block);
    transform(block);
    std::copy_n(block, kBlock, padded.begin() + static_cast<std::ptrdiff_t>(begin));
  }
}

float entry_factor(const Segments& input) {
  return input.device_factor != nullptr ? load_element(input.type, input.device_factor, 0) : input.factor;
}

/// A segment's chunk as it is coded: padded with zeros, scaled, transformed.
std::vector<float> load_segment(const Segments& input, std::size_t segment, bool hadamard) {
  std::vector<float> padded(padded_count(input.count), 0.0f);
  for (std::size_t i = 0; i < input.count; ++i) {
    padded[i] = load_element(input.type, input.data, segment * input.stride + input.offset + i);
  }
  const float factor = entry_factor(input);
  for (float& value : padded) value *= factor;
  if (hadamard) for_each_block(padded, [](auto& block) { hadamard32(block); });
  return padded;
}

/// One segment in each of the received messages, which their senders had as `input_segment`.
struct Received {
  const Messages& messages;
  std::uint32_t message_count;
  std::size_t segment;
  std::uint32_t input_segment;
  const Segments& input;
  const Codec& codec;
  MessageKind kind;
  std::uint32_t chunk;
  std::uint32_t* error;

  /// Adds message `m`: NaN where its header cannot be.
  void add(std::vector<float>& sum, std::size_t m) const {
    const std::size_t count = input.count;
    const std::byte* message = messages.data + m * messages.stride;
    MessageHeader header;
    std::memcpy(&header, message, sizeof(header));
    if (!gradient_header_is_valid(header, kind, chunk, count)) {
      if (error != nullptr) *error = 1;
      std::fill(sum.begin(), sum.end(), std::numeric_limits<float>::quiet_NaN());
      return;
    }
    add_segment(sum, message + sizeof(MessageHeader) + segment * segment_bytes(count, codec), count, codec,
                {header_key(header), header.draw, kind, input_segment, input.offset});
  }

  /// Starts with -0, which changes no first summand.
  [[nodiscard]] std::vector<float> sum_in_rank_order(const std::vector<float>& own,
                                                     std::uint32_t own_position) const {
    std::vector<float> sum(own.size(), -0.0f);
    for (std::uint32_t m = 0; m < own_position; ++m) add(sum, m);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += own[i];
    for (std::uint32_t m = own_position; m < message_count; ++m) add(sum, m);
    return sum;
  }
};

void write_header(std::byte* message, const MessageHeader& header) {
  std::memcpy(message, &header, sizeof(header));
}

}  // namespace

void quantize(const QuantizeArgs& args) {
  const std::size_t count = args.input.count;
  if (count == 0) return;
  const std::uint64_t draw = *args.draw.counter + args.draw.offset;
  const PhiloxKey key = noise_key(args.key.seed, args.key.rank, args.key.communicator);
  for (std::uint32_t m = 0; m < args.message_count; ++m) {
    std::byte* message = args.messages.data + m * args.messages.stride;
    write_header(message, gradient_header(args.kind, draw, args.sender, args.chunk, count, key));
    for (std::uint32_t s = 0; s < args.segments_per_message; ++s) {
      const std::uint32_t segment = args.table[m * args.segments_per_message + s];
      encode_segment(message + sizeof(MessageHeader) + s * segment_bytes(count, args.codec),
                     load_segment(args.input, segment, args.codec.hadamard), count, args.codec,
                     {key, draw, args.kind, segment, args.input.offset});
    }
  }
}

void reduce_requantize(const ReduceRequantizeArgs& args) {
  const std::size_t count = args.input.count;
  if (count == 0) return;
  constexpr MessageKind kind = MessageKind::gradient_between_nodes;
  const std::uint64_t draw = *args.draw.counter + args.draw.offset;
  const PhiloxKey key = noise_key(args.key.seed, args.key.rank, args.key.communicator);
  std::byte* message = args.messages.data;
  for (std::uint32_t node = 0; node < args.node_count; ++node) {
    const std::uint32_t segment = args.own_table[node];
    const Received received{args.received,
                            args.peer_count,
                            node,
                            segment,
                            args.input,
                            args.received_codec,
                            MessageKind::gradient_in_node,
                            args.chunk,
                            args.error};
    const std::vector<float> sum =
        received.sum_in_rank_order(load_segment(args.input, segment, args.codec.hadamard), args.own_position);
    if (node == args.own_node) {
      for (std::size_t i = 0; i < sum.size(); ++i) args.own_partial[i] = canonical(sum[i]);
      continue;
    }
    write_header(message, gradient_header(kind, draw, args.sender, args.chunk, count, key));
    encode_segment(message + sizeof(MessageHeader), sum, count, args.codec,
                   {key, draw, kind, segment, args.input.offset});
    message += args.messages.stride;
  }
}

void reduce_finish(const ReduceFinishArgs& args) {
  const std::size_t count = args.input.count;
  if (count == 0) return;
  const std::vector<float> own =
      args.own_partial != nullptr
          ? std::vector<float>(args.own_partial, args.own_partial + padded_count(count))
          : load_segment(args.input, args.own_segment, args.codec.hadamard);
  const Received received{args.received, args.message_count, 0,          args.own_segment, args.input,
                          args.codec,    args.kind,          args.chunk, args.error};
  std::vector<float> sum = received.sum_in_rank_order(own, args.own_position);
  float factor = args.out_factor;
  if (args.codec.hadamard) {
    for_each_block(sum, [](auto& block) { hadamard32(block); });
    factor *= kInverseHadamardFactor;
  }
  for (std::size_t i = 0; i < count; ++i) {
    store_element(args.input.type, args.output, args.input.offset + i, sum[i] * factor);
  }
}

}  // namespace sdp4bit::reference
