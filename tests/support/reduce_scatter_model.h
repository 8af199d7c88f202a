// A ReduceScatter of all its ranks on the host, phase by phase through the reference: what the library must
// compute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "kernels/reference.h"
#include "kernels/reference_codec.h"

namespace sdp4bit::model {

struct Job {
  std::uint32_t nodes = 1;
  std::uint32_t local_ranks = 1;
  std::size_t count = 0;  // elements of the output
  ElementType type = ElementType::float32;
  Codec codec_in_node{.bits = 8};
  Codec codec_between_nodes{.bits = 4};
  std::uint64_t seed = 1;
  std::uint64_t draw = 0;
  float factor = 1.0f;      // PreMulSum
  float out_factor = 1.0f;  // Avg: 1 / ranks

  std::uint32_t ranks() const { return nodes * local_ranks; }
  std::uint32_t rank(std::uint32_t node, std::uint32_t local) const { return node * local_ranks + local; }
};

using Bytes = std::vector<std::byte>;

inline Bytes to_bytes(ElementType type, const std::vector<float>& values) {
  Bytes bytes(values.size() * element_bytes(type));
  for (std::size_t i = 0; i < values.size(); ++i) reference::store_element(type, bytes.data(), i, values[i]);
  return bytes;
}

inline std::vector<float> to_floats(ElementType type, const Bytes& bytes) {
  std::vector<float> values(bytes.size() / element_bytes(type));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = reference::load_element(type, bytes.data(), i);
  return values;
}

inline Segments segments_of(const Job& job, const Bytes& input) {
  return {
      .data = input.data(), .type = job.type, .stride = job.count, .count = job.count, .factor = job.factor};
}

/// What rank (node, local) quantizes in phase 1: for each other rank of `peers` the segments in `table`.
inline Bytes quantize(const Job& job, const Bytes& input, std::uint32_t rank,
                      const std::vector<std::uint32_t>& table, std::uint32_t per_message, const Codec& codec,
                      MessageKind kind) {
  const std::size_t stride = message_bytes(job.count, per_message, codec);
  Bytes messages(table.size() / per_message * stride);
  reference::quantize({.input = segments_of(job, input),
                       .table = table.data(),
                       .message_count = static_cast<std::uint32_t>(table.size()) / per_message,
                       .segments_per_message = per_message,
                       .messages = {messages.data(), stride},
                       .codec = codec,
                       .key = {.seed = job.seed, .rank = rank},
                       .draw = {.counter = &job.draw},
                       .kind = kind,
                       .sender = rank});
  return messages;
}

/// Outputs of all ranks with one level over all of them.
inline std::vector<Bytes> reduce_scatter_one_level(const Job& job, const std::vector<Bytes>& inputs,
                                                   const Codec& codec, MessageKind kind) {
  const std::uint32_t ranks = job.ranks();
  const std::size_t stride = message_bytes(job.count, 1, codec);
  std::vector<Bytes> sent;  // by sender; message to rank r at index r - (r > sender)
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    std::vector<std::uint32_t> table;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      if (r != rank) table.push_back(r);
    }
    sent.push_back(quantize(job, inputs[rank], rank, table, 1, codec, kind));
  }
  std::vector<Bytes> outputs;
  for (std::uint32_t rank = 0; rank < ranks; ++rank) {
    Bytes received;
    for (std::uint32_t r = 0; r < ranks; ++r) {
      if (r == rank) continue;
      const auto begin = sent[r].begin() + static_cast<std::ptrdiff_t>((rank - (rank > r)) * stride);
      received.insert(received.end(), begin, begin + static_cast<std::ptrdiff_t>(stride));
    }
    Bytes output(job.count * element_bytes(job.type));
    reference::reduce_finish({.input = segments_of(job, inputs[rank]),
                              .own_segment = rank,
                              .received = {received.data(), stride},
                              .message_count = ranks - 1,
                              .own_position = rank,
                              .codec = codec,
                              .out_factor = job.out_factor,
                              .output = output.data(),
                              .kind = kind});
    outputs.push_back(output);
  }
  return outputs;
}

/// Outputs of all ranks with two levels.
inline std::vector<Bytes> reduce_scatter_two_level(const Job& job, const std::vector<Bytes>& inputs) {
  const Codec& inner = job.codec_in_node;
  const Codec& outer = job.codec_between_nodes;
  const std::size_t inner_stride = message_bytes(job.count, job.nodes, inner);
  const std::size_t outer_stride = message_bytes(job.count, 1, outer);
  std::vector<Bytes> inner_sent, outer_sent;
  std::vector<std::vector<float>> partials;
  for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
    std::vector<std::uint32_t> table;
    for (std::uint32_t local = 0; local < job.local_ranks; ++local) {
      if (local == rank % job.local_ranks) continue;
      for (std::uint32_t node = 0; node < job.nodes; ++node) table.push_back(job.rank(node, local));
    }
    inner_sent.push_back(
        quantize(job, inputs[rank], rank, table, job.nodes, inner, MessageKind::gradient_in_node));
  }
  for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
    const std::uint32_t own_node = rank / job.local_ranks;
    const std::uint32_t own_local = rank % job.local_ranks;
    Bytes received;
    for (std::uint32_t local = 0; local < job.local_ranks; ++local) {
      if (local == own_local) continue;
      const Bytes& sent = inner_sent[job.rank(own_node, local)];
      const auto begin =
          sent.begin() + static_cast<std::ptrdiff_t>((own_local - (own_local > local)) * inner_stride);
      received.insert(received.end(), begin, begin + static_cast<std::ptrdiff_t>(inner_stride));
    }
    std::vector<std::uint32_t> own_table;
    for (std::uint32_t node = 0; node < job.nodes; ++node) own_table.push_back(job.rank(node, own_local));
    Bytes messages((job.nodes - 1) * outer_stride);
    std::vector<float> partial(padded_count(job.count));
    reference::reduce_requantize({.input = segments_of(job, inputs[rank]),
                                  .own_table = own_table.data(),
                                  .received = {received.data(), inner_stride},
                                  .peer_count = job.local_ranks - 1,
                                  .own_position = own_local,
                                  .received_codec = inner,
                                  .node_count = job.nodes,
                                  .own_node = own_node,
                                  .messages = {messages.data(), outer_stride},
                                  .own_partial = partial.data(),
                                  .codec = outer,
                                  .key = {.seed = job.seed, .rank = rank},
                                  .draw = {.counter = &job.draw},
                                  .sender = rank});
    outer_sent.push_back(messages);
    partials.push_back(partial);
  }
  std::vector<Bytes> outputs;
  for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
    const std::uint32_t own_node = rank / job.local_ranks;
    Bytes received;
    for (std::uint32_t node = 0; node < job.nodes; ++node) {
      if (node == own_node) continue;
      const Bytes& sent = outer_sent[job.rank(node, rank % job.local_ranks)];
      const auto begin =
          sent.begin() + static_cast<std::ptrdiff_t>((own_node - (own_node > node)) * outer_stride);
      received.insert(received.end(), begin, begin + static_cast<std::ptrdiff_t>(outer_stride));
    }
    Bytes output(job.count * element_bytes(job.type));
    reference::reduce_finish({.input = segments_of(job, inputs[rank]),
                              .own_partial = partials[rank].data(),
                              .own_segment = rank,
                              .received = {received.data(), outer_stride},
                              .message_count = job.nodes - 1,
                              .own_position = own_node,
                              .codec = outer,
                              .out_factor = job.out_factor,
                              .output = output.data()});
    outputs.push_back(output);
  }
  return outputs;
}

}  // namespace sdp4bit::model
