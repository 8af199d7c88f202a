// The kernels of health give the reference's counts and words, and tell garbage from gradients.
#include <cmath>
#include <random>

#include "catch.h"
#include "gradient_data.h"
#include "kernels/health_record.h"
#include "kernels/reference_health.h"
#include "kernels/wire_format.h"

using namespace sdp4bit;
using namespace sdp4bit::test;

namespace {

/// Messages whose scales are e^normal, with `special` at every 37th group.
Bytes messages_with(std::size_t count, std::uint32_t segments, std::uint32_t messages, const Codec& codec,
                    std::size_t stride, float special) {
  Bytes bytes(stride * messages, std::byte{0x5a});
  std::mt19937 random(9);
  std::normal_distribution<float> normal;
  for (std::uint32_t m = 0; m < messages; ++m) {
    for (std::uint32_t s = 0; s < segments; ++s) {
      std::byte* const scales =
          bytes.data() + m * stride + sizeof(MessageHeader) + s * segment_bytes(count, codec);
      for (std::size_t group = 0; group < group_count(count, codec); ++group) {
        const float scale = group % 37 == 5 ? special : std::exp(normal(random));
        reference::store_element(
            codec.scale == ScaleType::float32 ? ElementType::float32 : ElementType::bfloat16, scales, group,
            scale);
      }
    }
  }
  return bytes;
}

HealthRecord record_of(std::initializer_list<std::pair<unsigned, std::uint32_t>> groups) {
  ScaleHistogram histogram{};
  for (const auto& [exponent, count] : groups) histogram.groups[exponent] = count;
  return summarize(histogram);
}

}  // namespace

TEST_CASE("Health.CountsAndWordsEqualTheReference") {
  for (const ScaleType scale : {ScaleType::float32, ScaleType::bfloat16}) {
    for (const std::size_t count : {1u, 4097u, 300001u}) {
      for (const float special : {1.0f, 0.0f, std::nanf(""), 1e30f}) {
        const Codec codec{.bits = 8, .group_size = 32, .scale = scale};
        constexpr std::uint32_t kSegments = 2, kMessages = 3;
        const std::size_t stride = message_bytes(count, kSegments, codec);
        const Bytes content = messages_with(count, kSegments, kMessages, codec, stride, special);
        const DeviceBytes messages(content), histogram(Bytes(sizeof(ScaleHistogram), std::byte{0})),
            records(Bytes(2 * sizeof(HealthRecord), std::byte{0})),
            words(Bytes(sizeof(HealthWords), std::byte{0}));
        CountScalesArgs args{.messages = {messages.data(), stride},
                             .message_count = kMessages,
                             .segments_per_message = kSegments,
                             .count = count,
                             .codec = codec,
                             .histogram = reinterpret_cast<ScaleHistogram*>(histogram.data())};
        require_success(count_scales(args, nullptr));
        auto* const second = reinterpret_cast<HealthRecord*>(records.data()) + 1;
        require_success(write_health(args.histogram, second, nullptr));
        require_success(publish_health({.records = records.data(),
                                        .ranks = 2,
                                        .number = 7,
                                        .words = reinterpret_cast<HealthWords*>(words.data())},
                                       nullptr));
        require_success(cudaDeviceSynchronize());

        Bytes host = content;
        ScaleHistogram expected{};
        args.messages.data = host.data();
        args.histogram = &expected;
        reference::count_scales(args);
        std::size_t counted = 0;
        for (const std::uint32_t groups : expected.groups) counted += groups;
        REQUIRE(counted == group_count(count, codec) * kSegments * kMessages);
        HealthRecord expected_records[2]{};
        reference::write_health(&expected, &expected_records[1]);
        HealthWords expected_words{};
        reference::publish_health({.records = reinterpret_cast<std::byte*>(expected_records),
                                   .ranks = 2,
                                   .number = 7,
                                   .words = &expected_words});
        const auto bytes_of = [](const auto& value) {
          const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
          return Bytes(bytes, bytes + sizeof value);
        };
        CHECK(records.download() == bytes_of(expected_records));
        CHECK(words.download() == bytes_of(expected_words));
        CHECK(histogram.download() == Bytes(sizeof(ScaleHistogram), std::byte{0}));
        const bool garbage = count > 1 && (std::isnan(special) || special > 1e20f);
        CHECK(expected_words.unhealthy_ranks == (garbage ? 1u : 0u));
        if (garbage) CHECK(expected_words.first_rank == 1);
      }
    }
  }
}

TEST_CASE("Health.ZerosAndOverflowAreNoGarbage") {
  CHECK_FALSE(is_unhealthy(record_of({})));
  CHECK_FALSE(is_unhealthy(record_of({{0, 1000}})));               // frozen
  CHECK_FALSE(is_unhealthy(record_of({{0, 1000}, {90, 1}})));      // one layer learns
  CHECK_FALSE(is_unhealthy(record_of({{100, 900}, {130, 1}})));    // an outlier of 2^30
  CHECK(is_unhealthy(record_of({{100, 900}, {141, 1}})));          // of 2^41
  CHECK(is_unhealthy(record_of({{100, 900}, {255, 1}})));          // not a number
  CHECK_FALSE(is_unhealthy(record_of({{100, 100}, {255, 900}})));  // the gradients overflowed
  const HealthRecord record = record_of({{0, 5}, {99, 10}, {100, 10}, {101, 10}, {255, 2}});
  CHECK(record.groups == 37);
  CHECK(record.not_finite == 2);
  CHECK(record.largest == 101);
  CHECK(record.median == 100);
}
