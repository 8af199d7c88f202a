// Where elements, groups and messages lie, for counts from zero to beyond 2^32.
#include <cstddef>
#include <cstdint>

#include "catch.h"
#include "kernels/index.h"

namespace {

using namespace sdp4bit;

constexpr std::size_t kBeyond32 = (std::size_t{1} << 32) + 8;
constexpr std::size_t kBeyond40 = (std::size_t{1} << 40) + 12345;

}  // namespace

TEST_CASE("Index.BlocksCoverEveryElementOnce") {
  for (const std::size_t count : {1u, 31u, 32u, 33u, 127u, 8191u, 8192u, 8193u, 100003u}) {
    std::size_t covered = 0;
    for (std::size_t tile = 0; tile < tile_count(count); ++tile) {
      for (unsigned thread = 0; thread < kThreads; ++thread) {
        const std::size_t begin = block_begin(tile, thread);
        if (block_size(begin, count) > 0) REQUIRE(begin == covered);
        covered += block_size(begin, count);
      }
    }
    CHECK(covered == count);
  }
  CHECK(tile_count(0) == 0);
}

TEST_CASE("Index.LastBlockOfCountsBeyond32BitsIsRight") {
  for (const std::size_t count : {kBeyond32, kBeyond40, (std::size_t{1} << 31) + 1024}) {
    const std::size_t last = count - 1;
    const std::size_t tile = tile_count(count) - 1;
    const unsigned thread = static_cast<unsigned>((last - tile * kTile) / kBlock);
    REQUIRE(thread < kThreads);
    const std::size_t begin = block_begin(tile, thread);
    CHECK(begin <= last);
    CHECK(last < begin + kBlock);
    CHECK(block_size(begin, count) == count - begin);
    CHECK(block_size(begin + kBlock, count) == 0);
  }
}

TEST_CASE("Index.ElementsOfSegmentsBeyond32BitsAreRight") {
  STATIC_REQUIRE(element_index(7, kBeyond32, 8192, 31) == 7 * ((std::uint64_t{1} << 32) + 8) + 8192 + 31);
  STATIC_REQUIRE(element_index(0xffffffffu, 1, 0, 1) == std::size_t{1} << 32);
}

TEST_CASE("Index.MessagesHoldWhatTheFormatSays") {
  for (const std::uint32_t bits : {4u, 8u}) {
    for (std::uint32_t group = 32; group <= 8192; group *= 2) {
      for (const ScaleType scale : {ScaleType::float32, ScaleType::bfloat16}) {
        const Codec codec{.bits = bits, .group_size = group, .scale = scale};
        REQUIRE(codec_is_valid(codec));
        for (const std::size_t count :
             {std::size_t{1}, std::size_t{32}, std::size_t{8193}, kBeyond32, kBeyond40}) {
          const SegmentLayout layout(count, codec);
          const std::size_t last = padded_count(count) - kBlock;
          const std::size_t last_group = (padded_count(count) - 1) / group;
          CHECK(group_count(count, codec) == last_group + 1);
          CHECK(layout.scale_offset(last) == last_group * scale_bytes(scale));
          CHECK(layout.scale_offset(last) + scale_bytes(scale) <= layout.codes_offset);
          CHECK(layout.codes_offset - layout.scale_offset(last) - scale_bytes(scale) < kMessageAlign);
          CHECK(layout.code_offset(last) + kBlock * bits / 8 == layout.segment_bytes);
          CHECK(layout.code_offset(last) % kMessageAlign == 0);
          CHECK(layout.segment_bytes % kMessageAlign == 0);
          CHECK(layout.segment_offset(3) == message_bytes(count, 3, codec));
          CHECK(layout.threads_per_group() * kBlock == group);
        }
      }
    }
  }
}

TEST_CASE("Index.OnlyCodecsOfTheFormatAreValid") {
  CHECK_FALSE(codec_is_valid(Codec{.bits = 5}));
  CHECK_FALSE(codec_is_valid(Codec{.group_size = 16}));
  CHECK_FALSE(codec_is_valid(Codec{.group_size = 96}));
  CHECK_FALSE(codec_is_valid(Codec{.group_size = 16384}));
}

TEST_CASE("WireFormat.BitsPerElementStayWithinTheBudget") {
  constexpr std::size_t count = 1 << 20;
  CHECK(8.0 * message_bytes(count, 1, Codec{}) / count <= 4.27);
  CHECK(8.0 * message_bytes(count, 2, Codec{.bits = 8}) / (2 * count) <= 8.27);
  CHECK(8.0 * message_bytes(count, 1, Codec{.group_size = 2048}) / count <= 4.03);
}
