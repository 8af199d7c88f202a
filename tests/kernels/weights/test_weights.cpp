// The kernels of weights write the reference's bytes: messages, headers, entries, samples and records.
#include "catch.h"
#include "weight_phases.h"

using namespace sdp4bit;
using namespace sdp4bit::test;

namespace {

constexpr std::size_t kNoBadByte = sizeof(MessageHeader);
constexpr std::uint32_t kNobody = ~0u;

Codec weight_codec(std::uint32_t group, std::uint32_t bits = 4, ScaleType scale = ScaleType::float32) {
  return {.bits = bits, .group_size = group, .scale = scale, .coding = Coding::nearest, .hadamard = false};
}

#define REQUIRE_EQUAL(comparison, test)                                                 \
  do {                                                                                  \
    const std::string difference = comparison;                                          \
    INFO(describe((test).type, (test).codec, (test).count) << " seed " << (test).seed); \
    REQUIRE(difference == "");                                                          \
  } while (false)

}  // namespace

TEST_CASE("EncodeDifference.EqualsTheReferenceForEveryTypeCodecAndCount") {
  unsigned seed = 0;
  for (const ElementType type : kTypes) {
    for (const std::size_t count : kCounts) {
      for (const Content content : kContents) {
        ++seed;
        WeightCase test{.type = type, .count = count, .content = content, .seed = seed};
        test.codec = weight_codec(kGroups[seed % std::size(kGroups)], seed % 2 ? 4 : 8,
                                  seed % 3 ? ScaleType::float32 : ScaleType::bfloat16);
        if (seed % 4 == 0) test.codec.coding = Coding::stochastic;
        if (seed % 4 == 1) test.codec.coding = Coding::companded;
        test.in_place = seed % 5 != 0;
        test.has_entry = seed % 7 != 0;
        test.staged = seed % 6 != 0;
        REQUIRE_EQUAL(compare_encode_and_seal(test), test);
      }
    }
  }
}

TEST_CASE("EncodeDifference.CodesTheChunkAndNothingElse") {
  for (const ElementType type : kTypes) {
    for (const std::size_t behind : {std::size_t{0}, std::size_t{100}}) {
      const WeightCase test{
          .type = type, .count = 1000, .offset = 8192, .behind = behind, .content = Content::edges};
      REQUIRE_EQUAL(compare_encode_and_seal(test), test);
    }
  }
}

TEST_CASE("SealDifference.AddsManyGroupsInTheReferencesOrder") {
  for (const Content content : {Content::gaussian, Content::edges}) {
    WeightCase test{.type = ElementType::float32, .count = 40011, .content = content, .seed = 77};
    test.codec = weight_codec(32);
    REQUIRE_EQUAL(compare_encode_and_seal(test), test);
  }
}

TEST_CASE("Weights.TakeAnyAddress") {
  for (const ElementType type : kTypes) {
    for (const std::size_t misalignment : {1u, 2u, 4u, 8u, 14u}) {
      for (const std::size_t count : {std::size_t{31}, std::size_t{2049}}) {
        const WeightCase test{.type = type, .count = count, .misalignment = misalignment};
        REQUIRE_EQUAL(compare_encode_and_seal(test), test);
        REQUIRE_EQUAL(compare_add_and_scatter(test, 2, kNobody, kNoBadByte), test);
        REQUIRE_EQUAL(compare_sample_and_record(test, true, 0.01f), test);
        REQUIRE_EQUAL(compare_set_entries(test, 4, kNobody, kNoBadByte), test);
      }
    }
  }
}

TEST_CASE("AddDifference.EqualsTheReferenceForEveryTypeCodecAndCount") {
  unsigned seed = 0;
  for (const ElementType type : kTypes) {
    for (const std::size_t count : kCounts) {
      ++seed;
      WeightCase test{.type = type, .count = count, .content = kContents[seed % 4], .seed = seed};
      test.codec = weight_codec(kGroups[seed % std::size(kGroups)], seed % 2 ? 4 : 8,
                                seed % 3 ? ScaleType::float32 : ScaleType::bfloat16);
      test.has_entry = seed % 4 != 0;
      REQUIRE_EQUAL(compare_add_and_scatter(test, 1 + seed % 4, kNobody, kNoBadByte), test);
      test.offset = 8192;
      test.staged = false;
      REQUIRE_EQUAL(compare_add_and_scatter(test, 3, seed % 3, kNoBadByte), test);
    }
  }
}

TEST_CASE("AddDifference.RefusesEveryHeaderThatCannotBe") {
  const WeightCase test{.count = 300};
  const std::size_t bytes[] = {offsetof(MessageHeader, magic),
                               offsetof(MessageHeader, wire_version),
                               offsetof(MessageHeader, kind),
                               offsetof(MessageHeader, call_or_key),
                               offsetof(MessageHeader, call_or_key) + 7,
                               offsetof(MessageHeader, slot),
                               offsetof(MessageHeader, sender),
                               offsetof(MessageHeader, chunk),
                               offsetof(MessageHeader, count),
                               offsetof(MessageHeader, count) + 7,
                               offsetof(MessageHeader, class_number)};
  for (const std::size_t bad : bytes) {
    REQUIRE_EQUAL(compare_add_and_scatter(test, 3, kNobody, bad), test);
    REQUIRE_EQUAL(compare_set_entries(test, 4, kNobody, bad), test);
  }
}

TEST_CASE("Record.SaysWhatTheSampleShows") {
  unsigned seed = 0;
  for (const ElementType type : kTypes) {
    for (const std::size_t count :
         {std::size_t{1}, std::size_t{513}, std::size_t{4097}, std::size_t{70001}}) {
      for (const float step : {0.0f, 0.02f, 0.2f, 0.9f}) {
        ++seed;
        WeightCase test{.type = type, .count = count, .seed = seed};
        test.codec.group_size = seed % 2 ? 32 : 2048;
        test.content = seed % 3 ? Content::gaussian : Content::edges;
        REQUIRE_EQUAL(compare_sample_and_record(test, true, step), test);
      }
      const WeightCase test{.type = type, .count = count};
      REQUIRE_EQUAL(compare_sample_and_record(test, false, 0.0f), test);
    }
  }
}

TEST_CASE("SetEntries.EqualsTheReferenceAndNeedsEveryRank") {
  for (const ElementType type : kTypes) {
    for (const std::size_t count : {std::size_t{1}, std::size_t{33}, std::size_t{9001}}) {
      WeightCase test{.type = type, .count = count, .content = Content::edges};
      REQUIRE_EQUAL(compare_set_entries(test, 5, kNobody, kNoBadByte), test);
      REQUIRE_EQUAL(compare_set_entries(test, 5, 4, kNoBadByte), test);
      test.has_entry = false;
      REQUIRE_EQUAL(compare_set_entries(test, 300, kNobody, kNoBadByte), test);
    }
  }
}

TEST_CASE("Publish.CollectsTheFlagsOfAllHeaders") {
  for (const std::uint32_t rows : {1u, 3u, 300u}) {
    for (const std::uint32_t columns : {1u, 4u}) CHECK(compare_publish(rows, columns, rows + columns) == "");
  }
}

TEST_CASE("Probe.EqualsTheReferenceWhateverTheProgramDoes") {
  unsigned seed = 300;
  for (const ElementType type : kTypes) {
    for (const std::size_t count : {1u, 100u, 4095u, 4097u, 10007u}) {
      for (const Content content : kContents) {
        for (const float kept : {0.0f, 0.5f, 1.0f}) {
          for (const float movement : {0.0f, 1e-3f}) {
            ++seed;
            const WeightCase test{
                .type = type, .count = count, .misalignment = seed % 4, .content = content, .seed = seed};
            REQUIRE_EQUAL(compare_probe(test, {.kept = kept,
                                               .movement = movement,
                                               .starts_again = seed % 3 != 0,
                                               .moved = seed % 5 == 0,
                                               .jumps = seed % 7 == 0,
                                               .has_nan = seed % 4 == 0}),
                          test);
          }
        }
      }
    }
  }
}
