// quantize writes the reference's bytes: header, scales, codes and padding.
#include "catch.h"
#include "gradient_phases.h"

using namespace sdp4bit;
using namespace sdp4bit::test;

namespace {

void require_equal(const QuantizeCase& test) {
  const std::string difference = compare_quantize(test);
  INFO(describe(test.type, test.codec, test.count) << " seed " << test.seed);
  REQUIRE(difference == "");
}

}  // namespace

TEST_CASE("Quantize.EqualsTheReferenceForEveryTypeCodecAndCount", "[sample]") {
  for_each_sample([](const PhaseCase& sample) { require_equal({sample}); });
}

TEST_CASE("Quantize.EqualsTheReferenceForEveryGroupSize", "[sample]") {
  for (const std::uint32_t group : kGroups) {
    for (const std::uint32_t bits : {4u, 8u}) {
      for (const std::size_t count : {std::size_t{group - 1}, std::size_t{group}, std::size_t{group + 1}}) {
        require_equal({{.type = ElementType::bfloat16,
                        .codec = {.bits = bits, .group_size = group, .scale = ScaleType::bfloat16},
                        .count = count,
                        .content = Content::edges,
                        .seed = group}});
      }
    }
  }
}

TEST_CASE("Quantize.TakesAnyAddress", "[sample]") {
  for (const ElementType type : kTypes) {
    for (const std::size_t misalignment : {1u, 2u, 3u, 4u, 6u, 8u, 12u, 14u}) {
      for (const std::size_t count : {std::size_t{31}, std::size_t{2048}, std::size_t{2049}}) {
        require_equal({{.type = type, .count = count, .misalignment = misalignment, .seed = 5}});
      }
    }
  }
}

TEST_CASE("Quantize.CodesSeveralSegmentsInSeveralMessages") {
  for (const std::uint32_t per_message : {1u, 2u, 3u, 6u}) {
    for (const std::size_t count : {std::size_t{33}, std::size_t{8193}}) {
      QuantizeCase test{{.type = ElementType::bfloat16, .codec = {.bits = 8}, .count = count, .seed = 7}};
      test.table = {5, 0, 3, 6, 2, 1};
      test.segments_per_message = per_message;
      require_equal(test);
    }
  }
}

TEST_CASE("Quantize.CodesTheChunkAndNothingElse") {
  for (const std::size_t offset : {std::size_t{8192}, std::size_t{81920}}) {
    for (const ElementType type : kTypes) {
      require_equal({{.type = type, .count = 1000, .offset = offset, .content = Content::edges, .seed = 8}});
    }
  }
}

TEST_CASE("Quantize.MultipliesByTheFactorFromHostOrDevice") {
  for (const ElementType type : kTypes) {
    for (const bool on_device : {false, true}) {
      for (const std::size_t misalignment : {0u, 2u}) {
        require_equal({{.type = type,
                        .count = 129,
                        .misalignment = misalignment,
                        .factor = 1.0f / 300,
                        .factor_on_device = on_device}});
      }
    }
  }
}

TEST_CASE("Quantize.LongSegmentsEqualTheReference") {
  for (const ElementType type : kTypes) {
    require_equal({{.type = type, .count = 100003, .content = Content::edges, .seed = 10}});
  }
}

TEST_CASE("Quantize.NothingToDoLaunchesNothing") {
  CHECK(quantize({}, nullptr) == cudaSuccess);
  QuantizeArgs args{};
  args.input.count = 5;
  CHECK(quantize(args, nullptr) == cudaSuccess);  // no messages
}

TEST_CASE("Quantize.RefusesCodecsThatDoNotExist") {
  QuantizeArgs args{};
  args.input.count = 5;
  args.message_count = args.segments_per_message = 1;
  args.codec.group_size = 96;
  CHECK(quantize(args, nullptr) == cudaErrorInvalidValue);
  args.codec = {.bits = 5};
  CHECK(quantize(args, nullptr) == cudaErrorInvalidValue);
}

TEST_CASE("Quantize.FullProductEqualsTheReference", "[.slow]") {
  for_each_case([](PhaseCase test) {
    for (const Content content : kContents) {
      test.content = content;
      require_equal({test});
    }
  });
}
