// reduce_requantize writes the reference's bytes: the sums that travel and the own node's partial sum.
#include "catch.h"
#include "gradient_phases.h"

using namespace sdp4bit;
using namespace sdp4bit::test;

namespace {

void require_equal(const ReduceRequantizeCase& test) {
  const std::string difference = compare_reduce_requantize(test);
  INFO(describe(test.type, test.codec, test.count)
       << " seed " << test.seed << " peers " << test.peers << " position " << test.own_position << " nodes "
       << test.nodes << " own node " << test.own_node);
  REQUIRE(difference == "");
}

/// The codec of the received messages: other bits, group and scale, the same transform.
Codec received_codec(const Codec& codec, unsigned seed) {
  return {.bits = seed % 4 == 0 ? 4u : 8u,
          .group_size = kGroups[seed / 3 % std::size(kGroups)],
          .scale = seed % 2 == 0 ? ScaleType::float32 : ScaleType::bfloat16,
          .hadamard = codec.hadamard};
}

}  // namespace

TEST_CASE("ReduceRequantize.EqualsTheReferenceForEveryTypeCodecAndCount", "[sample]") {
  for_each_sample([](const PhaseCase& sample) {
    ReduceRequantizeCase test{sample};
    test.received_codec = received_codec(test.codec, test.seed);
    test.own_node = test.seed % 2;
    test.own_position = test.seed / 2 % 2;
    require_equal(test);
  });
}

TEST_CASE("ReduceRequantize.AddsInRankOrderWhereverTheOwnRankStands", "[sample]") {
  for (std::uint32_t peers = 0; peers < 8; ++peers) {
    for (std::uint32_t own_position = 0; own_position <= peers; ++own_position) {
      ReduceRequantizeCase test{{.type = ElementType::float32, .count = 129, .seed = peers}};
      test.peers = peers;
      test.own_position = own_position;
      test.own_node = 1;
      require_equal(test);
    }
  }
}

TEST_CASE("ReduceRequantize.KeepsItsOwnNodesSumWhereverTheNodeStands") {
  for (std::uint32_t nodes = 1; nodes <= 8; ++nodes) {
    for (std::uint32_t own_node = 0; own_node < nodes; ++own_node) {
      ReduceRequantizeCase test{{.type = ElementType::bfloat16, .count = 257, .seed = nodes}};
      test.nodes = nodes;
      test.own_node = own_node;
      require_equal(test);
    }
  }
}

TEST_CASE("ReduceRequantize.TakesAnyAddressAndChunk") {
  for (const ElementType type : kTypes) {
    for (const std::size_t misalignment : {0u, 1u, 2u, 4u, 8u}) {
      for (const std::size_t offset : {std::size_t{0}, std::size_t{16384}}) {
        require_equal(
            {{.type = type, .count = 2049, .offset = offset, .misalignment = misalignment, .seed = 2}});
      }
    }
  }
}

TEST_CASE("ReduceRequantize.MultipliesItsOwnInputByTheFactor") {
  for (const ElementType type : kTypes) {
    for (const bool on_device : {false, true}) {
      require_equal({{.type = type, .count = 200, .factor = -2.5f, .factor_on_device = on_device}});
    }
  }
}

TEST_CASE("ReduceRequantize.AHeaderThatCannotBeIsNanAndSaysSo", "[sample]") {
  for (const std::size_t byte : {0u, 4u, 6u, 36u, 40u, 47u}) {
    ReduceRequantizeCase test{{.count = 300}};
    test.peers = 3;
    test.own_position = 1;
    test.bad_header_byte = byte;
    require_equal(test);
  }
}

TEST_CASE("ReduceRequantize.LongSegmentsEqualTheReference") {
  for (const ElementType type : kTypes) {
    ReduceRequantizeCase test{{.type = type, .count = 100003, .content = Content::edges, .seed = 10}};
    test.peers = 3;
    test.own_position = 2;
    require_equal(test);
  }
}

TEST_CASE("ReduceRequantize.RefusesWhatCannotBe") {
  CHECK(reduce_requantize({}, nullptr) == cudaSuccess);
  ReduceRequantizeArgs args{};
  args.input.count = 5;
  args.node_count = 2;
  args.own_position = 1;  // no peers
  CHECK(reduce_requantize(args, nullptr) == cudaErrorInvalidValue);
  args.own_position = 0;
  args.received_codec.hadamard = false;
  CHECK(reduce_requantize(args, nullptr) == cudaErrorInvalidValue);
}

TEST_CASE("ReduceRequantize.FullProductEqualsTheReference", "[.slow]") {
  for_each_case([](const PhaseCase& each) {
    ReduceRequantizeCase test{each};
    test.received_codec = received_codec(test.codec, test.seed);
    test.peers = test.seed % 4;
    test.own_position = test.seed % (test.peers + 1);
    test.nodes = 1 + test.seed % 3;
    test.own_node = test.seed % test.nodes;
    require_equal(test);
  });
}
