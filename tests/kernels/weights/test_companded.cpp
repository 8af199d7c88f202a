// Companded differences in groups of a warp's tile and more, which have kernels of their own.
#include "catch.h"
#include "weight_phases.h"

using namespace sdp4bit;
using namespace sdp4bit::test;

namespace {

constexpr std::uint32_t kNobody = ~0u;
constexpr std::size_t kNoBadByte = sizeof(MessageHeader);
constexpr std::size_t kTile = 8192;
constexpr std::uint32_t kLargeGroups[] = {1024, 2048, 4096, 8192};

Codec companded(std::uint32_t group, ScaleType scale) {
  return {.bits = 4, .group_size = group, .scale = scale, .coding = Coding::companded, .hadamard = false};
}

#define REQUIRE_EQUAL(comparison, test)                                                 \
  do {                                                                                  \
    const std::string difference = comparison;                                          \
    INFO(describe((test).type, (test).codec, (test).count) << " seed " << (test).seed); \
    REQUIRE(difference == "");                                                          \
  } while (false)

}  // namespace

TEST_CASE("Companded.KernelsEqualTheReferenceForEveryGroupAndContent") {
  unsigned seed = 1000;
  for (const ElementType type : kTypes) {
    for (const std::size_t count :
         {std::size_t{1}, std::size_t{40}, kTile - 1, kTile, 2 * kTile, 3 * kTile + 1029}) {
      for (const Content content : kContents) {
        ++seed;
        WeightCase test{.type = type, .count = count, .content = content, .seed = seed};
        test.codec = companded(kLargeGroups[seed % 4], seed % 3 ? ScaleType::bfloat16 : ScaleType::float32);
        test.in_place = seed % 5 != 0;
        test.staged = seed % 7 != 0;
        test.offset = seed % 2 ? 0 : kTile;
        REQUIRE_EQUAL(compare_encode_and_seal(test), test);
        test.offset = 0;
        REQUIRE_EQUAL(compare_add_and_scatter(test, 1 + seed % 3, kNobody, kNoBadByte), test);
      }
    }
  }
}

TEST_CASE("Companded.KernelsTakeAnyAddress") {
  for (const ElementType type : kTypes) {
    for (const std::size_t misalignment : {1u, 2u, 8u}) {
      const WeightCase test{.type = type,
                            .codec = companded(1024, ScaleType::bfloat16),
                            .count = kTile + 33,
                            .misalignment = misalignment};
      REQUIRE_EQUAL(compare_encode_and_seal(test), test);
      REQUIRE_EQUAL(compare_add_and_scatter(test, 2, kNobody, kNoBadByte), test);
    }
  }
}

TEST_CASE("Companded.ADamagedHeaderLeavesTheEntryAlone") {
  const WeightCase test{.codec = companded(1024, ScaleType::bfloat16), .count = 2 * kTile + 5};
  REQUIRE_EQUAL(compare_add_and_scatter(test, 3, kNobody, offsetof(MessageHeader, call_or_key)), test);
}
