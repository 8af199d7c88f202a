// What the kernels cost on the emulated machine: instructions an element, and bytes beside the least
// possible.
//
// Aligned data, several tiles, the default codecs and the paper's: the main path. The bounds keep a change
// from losing the vector accesses or the division-free codec unnoticed; they are upper bounds with some room,
// not measurements.
#include <cstdio>
#include <cstring>
#include <utility>
#include <vector>

#include "catch.h"
#include "device_bytes.h"
#include "gradient_data.h"
#include "kernels/known_codec.h"
#include "kernels/launch.h"
#include "kernels/launch_checksum.h"
#include "sandbox/cudart/extension.h"

using namespace sdp4bit;
using namespace sdp4bit::test;

namespace {

constexpr std::size_t kCount = 1 << 18;
struct Codecs {
  Codec in_node, between_nodes;
  double code;         // instructions an element: to code it,
  double add_in_node;  // and to add one of a message
  double add_between;  // the default's receiver draws the noise again
};
constexpr Codecs kDefault{kKnownInNode, kKnownBetweenNodes, 21.6, 5, 9.7};
constexpr Codecs kPaper{{.bits = 8}, {.bits = 4}, 26.9, 8, 8};

struct Cost {
  double instructions;  // lane-instructions an element of the output
  double bytes;         // global bytes loaded and stored, over the least possible
  double access_bytes;  // of one lane in one request, on average
};

/// Costs of the one kernel that ran since the counters were reset.
Cost measure(const char* kernel, double elements, double least_bytes) {
  require_success(cudaDeviceSynchronize());
  std::vector<sandboxKernelCounters> counters(256);
  counters.resize(std::min(counters.size(), sandboxGetKernelCounters(counters.data(), counters.size())));
  Cost cost{};
  for (const sandboxKernelCounters& c : counters) {
    if (c.launches == 0 || std::strstr(c.kernel, kernel) == nullptr) continue;
    const double bytes = static_cast<double>(c.global_bytes_loaded + c.global_bytes_stored);
    cost.instructions = static_cast<double>(c.lane_instructions) / elements;
    cost.bytes = bytes / least_bytes;
    cost.access_bytes = bytes / (32.0 * static_cast<double>(c.global_requests));
    std::printf(
        "%-18s %6.1f instructions an element, %5.3f of the least bytes, %4.1f bytes an access, %4.1f sectors "
        "a request\n",
        kernel, cost.instructions, cost.bytes, cost.access_bytes,
        static_cast<double>(c.global_sectors) / static_cast<double>(c.global_requests));
  }
  return cost;
}

/// Messages with valid headers, one segment each unless said otherwise, as reduce kernels receive them.
DeviceBytes make_received(std::uint32_t messages, std::uint32_t segments, const Codec& codec,
                          MessageKind kind) {
  const std::size_t stride = message_bytes(kCount, segments, codec);
  const DeviceBytes input(make_elements(ElementType::float32, kCount, Content::gaussian, 1));
  const std::vector<std::uint32_t> zeros(messages * segments, 0);
  const DeviceBytes table(zeros);
  const DeviceBytes counter(std::vector<std::uint64_t>{1});
  DeviceBytes received(messages * stride, std::byte{0});
  require_success(quantize({.input = {.data = input.data(), .stride = kCount, .count = kCount},
                            .table = table.as<std::uint32_t>(),
                            .message_count = messages,
                            .segments_per_message = segments,
                            .messages = {received.data(), stride},
                            .codec = codec,
                            .key = {},
                            .draw = {.counter = counter.as<std::uint64_t>()},
                            .kind = kind},
                           nullptr));
  require_success(cudaDeviceSynchronize());
  return received;
}

}  // namespace

TEST_CASE("Counters.QuantizeMovesLittleMoreThanItMust") {
  for (const ElementType type : {ElementType::bfloat16, ElementType::float32}) {
    for (const auto& [codec, bound] : {std::pair{kDefault.between_nodes, kDefault.code},
                                       {kDefault.in_node, kDefault.code},
                                       {kPaper.between_nodes, kPaper.code},
                                       {kPaper.in_node, kPaper.code}}) {
      const DeviceBytes input(make_elements(type, kCount, Content::gaussian, 1));
      const DeviceBytes table(std::vector<std::uint32_t>{0});
      const DeviceBytes counter(std::vector<std::uint64_t>{1});
      const std::size_t stride = message_bytes(kCount, 1, codec);
      const DeviceBytes message(stride, std::byte{0});
      sandboxResetKernelCounters();
      require_success(
          quantize({.input = {.data = input.data(), .type = type, .stride = kCount, .count = kCount},
                    .table = table.as<std::uint32_t>(),
                    .message_count = 1,
                    .segments_per_message = 1,
                    .messages = {message.data(), stride},
                    .codec = codec,
                    .key = {},
                    .draw = {.counter = counter.as<std::uint64_t>()}},
                   nullptr));
      const Cost cost =
          measure("quantize_kernel", kCount, static_cast<double>(kCount * element_bytes(type) + stride));
      CHECK(cost.instructions > 10);
      CHECK(cost.instructions < bound);
      CHECK(cost.bytes <= 1.04);
      CHECK(cost.access_bytes > 12);
    }
  }
}

TEST_CASE("Counters.ReduceRequantizeMovesLittleMoreThanItMust") {
  constexpr std::uint32_t nodes = 2;
  for (const auto& [peers, codecs] :
       {std::pair{1u, kDefault}, {3u, kDefault}, {7u, kDefault}, {3u, kPaper}}) {
    const DeviceBytes received = make_received(peers, nodes, codecs.in_node, MessageKind::gradient_in_node);
    const DeviceBytes input(make_elements(ElementType::bfloat16, nodes * kCount, Content::gaussian, 1));
    const DeviceBytes table(std::vector<std::uint32_t>{0, 1});
    const DeviceBytes counter(std::vector<std::uint64_t>{1});
    const std::size_t received_stride = message_bytes(kCount, nodes, codecs.in_node);
    const std::size_t stride = message_bytes(kCount, 1, codecs.between_nodes);
    const DeviceBytes message(stride, std::byte{0});
    const DeviceBytes partial(kCount * sizeof(float), std::byte{0});
    sandboxResetKernelCounters();
    require_success(reduce_requantize(
        {.input = {.data = input.data(), .type = ElementType::bfloat16, .stride = kCount, .count = kCount},
         .own_table = table.as<std::uint32_t>(),
         .received = {received.data(), received_stride},
         .peer_count = peers,
         .own_position = 0,
         .received_codec = codecs.in_node,
         .node_count = nodes,
         .own_node = 0,
         .messages = {message.data(), stride},
         .own_partial = partial.as<float>(),
         .codec = codecs.between_nodes,
         .key = {},
         .draw = {.counter = counter.as<std::uint64_t>()}},
        nullptr));
    const Cost cost =
        measure("reduce_requantize", nodes * kCount,
                static_cast<double>(nodes * kCount * 2 + peers * received_stride + stride + kCount * 4));
    CHECK(cost.instructions > 10);
    CHECK(cost.instructions < 20 + codecs.add_in_node * peers);
    CHECK(cost.bytes <= 1.04);
    CHECK(cost.access_bytes > 12);
  }
}

TEST_CASE("Counters.ReduceFinishMovesLittleMoreThanItMust") {
  for (const auto& [messages, codecs] :
       {std::pair{1u, kDefault}, {3u, kDefault}, {7u, kDefault}, {3u, kPaper}}) {
    const DeviceBytes received =
        make_received(messages, 1, codecs.between_nodes, MessageKind::gradient_between_nodes);
    const DeviceBytes partial(make_elements(ElementType::float32, kCount, Content::gaussian, 1));
    const DeviceBytes output(kCount * 2, std::byte{0});
    const std::size_t stride = message_bytes(kCount, 1, codecs.between_nodes);
    sandboxResetKernelCounters();
    require_success(
        reduce_finish({.input = {.type = ElementType::bfloat16, .stride = kCount, .count = kCount},
                       .own_partial = partial.as<float>(),
                       .received = {received.data(), stride},
                       .message_count = messages,
                       .codec = codecs.between_nodes,
                       .output = output.data()},
                      nullptr));
    const Cost cost =
        measure("reduce_finish", kCount, static_cast<double>(kCount * 4 + messages * stride + kCount * 2));
    CHECK(cost.instructions > 10);
    CHECK(cost.instructions < 15.2 + codecs.add_between * messages);
    CHECK(cost.bytes <= 1.04);
    CHECK(cost.access_bytes > 11);  // a block's codes are 16 bytes, its scale 2
  }
}

TEST_CASE("Counters.ChecksumsReadAMessageOnce") {
  const std::size_t bytes = message_bytes(kCount, 1, kDefault.between_nodes);
  const DeviceBytes message(bytes, std::byte{7}), sums(sizeof(ChecksumSum), std::byte{0}),
      state(sizeof(ChecksumState), std::byte{0}), failure(sizeof(ChecksumFailure), std::byte{0}),
      counts(2 * sizeof(ChecksumCounts), std::byte{0});
  const ChecksummedParts parts = checksummed_messages(message.data(), bytes, bytes, 1);
  sandboxResetKernelCounters();
  require_success(seal_checksums(parts, sums.as<ChecksumSum>(), nullptr));
  require_success(verify_checksums({.parts = parts,
                                    .sums = sums.as<ChecksumSum>(),
                                    .state = state.as<ChecksumState>(),
                                    .failure = failure.as<ChecksumFailure>(),
                                    .error = &failure.as<ChecksumFailure>()->padding,
                                    .counts = counts.as<ChecksumCounts>(),
                                    .host_counts = counts.as<ChecksumCounts>() + 1},
                                   nullptr));
  for (const char* const kernel : {"seal_kernel", "verify_kernel"}) {
    const Cost cost = measure(kernel, kCount, static_cast<double>(bytes));
    CHECK(cost.instructions > 0.5);
    CHECK(cost.instructions < 3);  // of four bits; what counts is 16 bytes, 30 elements
    CHECK(cost.bytes <= 1.01);
    CHECK(cost.access_bytes > 12);
  }
}
