// Sampled errors are those of the reference's messages, whatever their shape, and chunks add up.
#include <algorithm>
#include <cmath>

#include "catch.h"
#include "device_bytes.h"
#include "gradient_data.h"
#include "kernels/hadamard.h"
#include "kernels/index.h"
#include "kernels/launch_sample.h"
#include "kernels/reference.h"

using namespace sdp4bit;
using namespace sdp4bit::test;

namespace {

struct Sums {
  double error = 0.0, input = 0.0;
};

/// A block of 32 of an input as it is coded.
std::vector<float> transformed(ElementType type, const Bytes& input, std::size_t first, std::size_t count,
                               bool hadamard) {
  std::vector<float> values(padded_count(count), 0.0f);
  for (std::size_t i = 0; i < count; ++i) values[i] = reference::load_element(type, input.data(), first + i);
  for (std::size_t block = 0; hadamard && block < values.size(); block += kBlock) {
    float value[kBlock];
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(block), kBlock, value);
    hadamard32(value);
    std::copy_n(value, kBlock, values.begin() + static_cast<std::ptrdiff_t>(block));
  }
  return values;
}

void add(Sums& sums, const std::vector<float>& values, const std::byte* segment, std::size_t count,
         const Codec& codec) {
  const std::vector<float> decoded = reference::decode_segment(segment, count, codec);
  for (std::size_t i = 0; i < decoded.size(); ++i) {
    if (std::isnan(decoded[i])) continue;
    const double error = double{values[i]} - double{decoded[i]};
    sums.error += error * error;
    sums.input += double{values[i]} * double{values[i]};
  }
}

/// Device memory of a target, and what the mirror said last.
class Target {
 public:
  Target()
      : partials_(kSampleBlocks * sizeof(SamplePartial), std::byte{0xff}),
        sums_(sizeof(SampleSums), std::byte{0}),
        mirror_(sizeof(SampleSums), std::byte{0}) {}
  [[nodiscard]] SampleTarget get(bool first = true, bool last = true) const {
    return {partials_.as<SamplePartial>(), sums_.as<SampleSums>(), mirror_.as<SampleSums>(), first, last};
  }
  [[nodiscard]] SampleSums read() const {
    SampleSums sums;
    require_success(cudaMemcpy(&sums, mirror_.data(), sizeof sums, cudaMemcpyDeviceToHost));
    return sums;
  }

 private:
  DeviceBytes partials_, sums_, mirror_;
};

/// Two orders of adding at most 120,000 squares differ by less: as many half units in the last place. Equal
/// also where the largest magnitude decodes to infinity.
bool close(double got, double wanted) {
  return got == wanted || std::abs(got - wanted) <= 120000 * 0x1p-53 * wanted;
}

}  // namespace

TEST_CASE("Sample.MessagesOfTheFirstPhaseHaveTheReferencesError", "[sample]") {
  unsigned seed = 0;
  for (const ElementType type : kTypes) {
    for (const std::uint32_t bits : {4u, 8u}) {
      for (const std::size_t count : {std::size_t{1}, std::size_t{129}, std::size_t{20000}}) {
        for (const Content content : {Content::gaussian, Content::edges, Content::zeros}) {
          const Codec codec{.bits = bits, .hadamard = ++seed % 3 != 0};
          constexpr std::uint32_t kMessages = 3, kPerMessage = 2;
          const std::vector<std::uint32_t> table{5, 0, 3, 1, 4, 2};
          const std::size_t stride = round_up(message_bytes(count, kPerMessage, codec), kMessageAlign);
          const Bytes input = make_elements(type, 6 * count, content, seed);
          const std::uint64_t counter = 9;
          Bytes messages(kMessages * stride);
          QuantizeArgs args{.input = {.data = input.data(), .type = type, .stride = count, .count = count},
                            .table = table.data(),
                            .message_count = kMessages,
                            .segments_per_message = kPerMessage,
                            .messages = {messages.data(), stride},
                            .codec = codec,
                            .key = {},
                            .draw = {&counter, 0}};
          reference::quantize(args);
          Sums wanted;
          const SegmentLayout layout(count, codec);
          for (std::uint32_t s = 0; s < kMessages * kPerMessage; ++s) {
            add(wanted, transformed(type, input, table[s] * count, count, codec.hadamard),
                messages.data() + s / kPerMessage * stride + layout.segment_offset(s % kPerMessage), count,
                codec);
          }
          const DeviceBytes device_input(input), device_table(table), device_messages(messages);
          args.input.data = device_input.data();
          args.table = device_table.as<std::uint32_t>();
          args.messages.data = device_messages.data();
          const Target target;
          require_success(sample_quantize(args, target.get(), nullptr));
          require_success(sample_quantize(args, target.get(), nullptr));
          INFO(describe(type, codec, count) << " seed " << seed);
          const SampleSums sums = target.read();
          CHECK(sums.samples == 2 * 2);
          CHECK(close(sums.last_error, wanted.error));
          CHECK(close(sums.last_input, wanted.input));
          CHECK(sums.total_input == 2 * sums.last_input);
          CHECK(sums.total_error == 2 * sums.last_error);
          CHECK(device_messages.download() == messages);
        }
      }
    }
  }
}

TEST_CASE("Sample.ChunksOfACallAreOneSample") {
  constexpr std::size_t kLength = 8192, kChunks = 3;
  const Codec codec{};
  const Bytes input = make_elements(ElementType::bfloat16, kChunks * kLength, Content::gaussian, 3);
  const DeviceBytes device_input(input), table(std::vector<std::uint32_t>{0}),
      counter(std::vector<std::uint64_t>{1});
  const std::size_t stride = message_bytes(kLength, 1, codec);
  const Target target;
  double error = 0.0, square = 0.0;
  for (std::size_t chunk = 0; chunk < kChunks; ++chunk) {
    const DeviceBytes message(stride, std::byte{0});
    const QuantizeArgs args{.input = {.data = device_input.data(),
                                      .type = ElementType::bfloat16,
                                      .stride = kChunks * kLength,
                                      .offset = chunk * kLength,
                                      .count = kLength},
                            .table = table.as<std::uint32_t>(),
                            .message_count = 1,
                            .segments_per_message = 1,
                            .messages = {message.data(), stride},
                            .codec = codec,
                            .key = {},
                            .draw = {.counter = counter.as<std::uint64_t>()},
                            .chunk = static_cast<std::uint32_t>(chunk)};
    require_success(quantize(args, nullptr));
    const Target alone;
    require_success(sample_quantize(args, alone.get(), nullptr));
    error += alone.read().last_error;
    square += alone.read().last_input;
    require_success(sample_quantize(args, target.get(chunk == 0, chunk + 1 == kChunks), nullptr));
    CHECK(target.read().samples == (chunk + 1 == kChunks ? 2u : 0u));
  }
  CHECK(target.read().last_error == error);
  CHECK(target.read().last_input == square);
  const double relative = std::sqrt(error / square);
  CHECK(relative > 0.12);  // 4 bits, groups of 128, stochastic
  CHECK(relative < 0.2);
}

TEST_CASE("Sample.TheCourseHoldsEverySampleInItsOrder") {
  constexpr std::size_t kCount = 300;
  constexpr std::uint64_t kSamples =
      3 * kSamplePoints + 5;  // every point was halved twice, the last is short
  const Codec codec{};
  const DeviceBytes table(std::vector<std::uint32_t>{0}), counter(std::vector<std::uint64_t>{1});
  const Target target;
  std::vector<Sums> wanted;
  for (std::uint64_t sample = 0; sample < kSamples; ++sample) {
    const auto seed = static_cast<unsigned>(sample);
    const DeviceBytes input(make_elements(ElementType::float32, kCount, Content::gaussian, seed)),
        message(message_bytes(kCount, 1, codec), std::byte{0});
    const QuantizeArgs args{
        .input = {.data = input.data(), .type = ElementType::float32, .stride = kCount, .count = kCount},
        .table = table.as<std::uint32_t>(),
        .message_count = 1,
        .segments_per_message = 1,
        .messages = {message.data(), round_up(message_bytes(kCount, 1, codec), kMessageAlign)},
        .codec = codec,
        .key = {},
        .draw = {.counter = counter.as<std::uint64_t>()}};
    require_success(quantize(args, nullptr));
    require_success(sample_quantize(args, target.get(), nullptr));
    const SampleSums sums = target.read();
    wanted.push_back({sums.last_error, sums.last_input});
    const std::uint64_t each = samples_per_point(sample + 1);
    CAPTURE(sample, each);
    CHECK((sample + 1 + each - 1) / each <= kSamplePoints);
    for (std::uint64_t point = 0; point < kSamplePoints; ++point) {
      Sums of_point;
      for (std::uint64_t i = point * each; i < std::min((point + 1) * each, sample + 1); ++i) {
        of_point.error += wanted[i].error;
        of_point.input += wanted[i].input;
      }
      if (!close(sums.course[point].error, of_point.error) ||
          !close(sums.course[point].input, of_point.input)) {
        FAIL("point " << point << ": " << sums.course[point].error << ", not " << of_point.error);
      }
    }
  }
  CHECK(samples_per_point(kSamples) == 4);
}

TEST_CASE("Sample.SumsForOtherNodesHaveTheReferencesError", "[sample]") {
  constexpr std::size_t kCount = 9000;
  constexpr std::uint32_t kNodes = 3, kPeers = 2;
  const Codec inner{.bits = 8}, outer{.bits = 4};
  const std::vector<std::uint32_t> table{0, 1, 2};
  const std::uint64_t counter = 4;
  const std::size_t received_stride = round_up(message_bytes(kCount, kNodes, inner), kMessageAlign);
  const std::size_t stride = round_up(message_bytes(kCount, 1, outer), kMessageAlign);
  for (const ElementType type : kTypes) {
    for (const Content content : {Content::gaussian, Content::edges}) {
      const Bytes input = make_elements(type, kNodes * kCount, content, 11);
      Bytes received(kPeers * received_stride);
      for (std::uint32_t peer = 0; peer < kPeers; ++peer) {
        const Bytes theirs = make_elements(type, kNodes * kCount, Content::gaussian, 12 + peer);
        reference::quantize(
            {.input = {.data = theirs.data(), .type = type, .stride = kCount, .count = kCount},
             .table = table.data(),
             .message_count = 1,
             .segments_per_message = kNodes,
             .messages = {received.data() + peer * received_stride, received_stride},
             .codec = inner,
             .key = {},
             .draw = {&counter, 0}});
      }
      Bytes messages((kNodes - 1) * stride);
      std::vector<float> partial(padded_count(kCount));
      ReduceRequantizeArgs args{
          .input = {.data = input.data(), .type = type, .stride = kCount, .count = kCount},
          .own_table = table.data(),
          .received = {received.data(), received_stride},
          .peer_count = kPeers,
          .own_position = 1,
          .received_codec = inner,
          .node_count = kNodes,
          .own_node = 1,
          .messages = {messages.data(), stride},
          .own_partial = partial.data(),
          .codec = outer,
          .key = {},
          .draw = {&counter, 0}};
      reference::reduce_requantize(args);
      Sums wanted;
      const SegmentLayout received_layout(kCount, inner), layout(kCount, outer);
      for (const std::uint32_t node : {0u, 2u}) {
        const auto peer_values = [&](std::uint32_t peer) {
          return reference::decode_segment(
              received.data() + peer * received_stride + received_layout.segment_offset(node), kCount, inner);
        };
        const std::vector<float> first = peer_values(0), last = peer_values(1);
        std::vector<float> sum = transformed(type, input, node * kCount, kCount, true);
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = (first[i] + sum[i]) + last[i];
        add(wanted, sum, messages.data() + (node == 0 ? 0 : stride) + layout.segment_offset(0), kCount,
            outer);
      }
      const DeviceBytes device_input(input), device_table(table), device_received(received),
          device_messages(messages);
      args.input.data = device_input.data();
      args.own_table = device_table.as<std::uint32_t>();
      args.received.data = device_received.data();
      args.messages.data = device_messages.data();
      const Target target;
      require_success(sample_requantize(args, target.get(), nullptr));
      INFO(describe(type, outer, kCount));
      CHECK(target.read().samples == 2);
      CHECK(close(target.read().last_error, wanted.error));
      CHECK(close(target.read().last_input, wanted.input));
    }
  }
}

TEST_CASE("Sample.DifferencesHaveTheErrorOfWhatIsThenSent", "[sample]") {
  constexpr std::size_t kCount = 10001;
  for (const ElementType type : kTypes) {
    for (const std::uint32_t bits : {4u, 8u}) {
      for (const bool stateless : {false, true}) {
        const WeightChunk chunk{
            .type = type,
            .codec = {.bits = bits, .group_size = 2048, .coding = Coding::nearest, .hadamard = false},
            .shard = kCount,
            .count = kCount,
            .slots = stateless ? 0u : 1u};
        const Bytes shard = make_elements(type, kCount, Content::edges, bits),
                    entry = make_elements(type, kCount, Content::edges, bits + 50);
        const DeviceBytes device_shard(shard), device_entry(entry),
            message(message_bytes(kCount, 1, chunk.codec), std::byte{0}),
            maxima(group_count(kCount, chunk.codec) * sizeof(GroupMaxima), std::byte{0});
        const EncodeDifferenceArgs args{.chunk = chunk,
                                        .shard = device_shard.data(),
                                        .entry = stateless ? nullptr : device_entry.data(),
                                        .message = message.data(),
                                        .maxima = maxima.as<GroupMaxima>()};
        const Target target;
        require_success(sample_difference(args, target.get(), nullptr));
        CHECK(device_entry.download() == entry);
        require_success(encode_difference(args, nullptr));
        const Bytes sent = message.download();
        std::vector<float> values(padded_count(kCount), 0.0f);
        for (std::size_t i = 0; i < kCount; ++i) {
          const float before = stateless ? 0.0f : reference::load_element(type, entry.data(), i);
          values[i] =
              reference::load_element(type, shard.data(), i) - (std::isfinite(before) ? before : 0.0f);
        }
        Sums wanted;
        add(wanted, values, sent.data() + SegmentLayout(kCount, chunk.codec).segment_offset(0), kCount,
            chunk.codec);
        INFO(describe(type, chunk.codec, kCount) << (stateless ? " stateless" : ""));
        CHECK(target.read().samples == 2);
        CHECK(close(target.read().last_error, wanted.error));
        CHECK(close(target.read().last_input, wanted.input));
      }
    }
  }
}
