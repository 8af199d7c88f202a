// reduce_finish writes the reference's bytes into the output's chunk, and no other byte.
#include "catch.h"
#include "gradient_phases.h"

using namespace sdp4bit;
using namespace sdp4bit::test;

namespace {

void require_equal(const ReduceFinishCase& test) {
  const std::string difference = compare_reduce_finish(test);
  INFO(describe(test.type, test.codec, test.count)
       << " seed " << test.seed << " messages " << test.messages << " position " << test.own_position
       << (test.from_partial ? " from partial" : "") << (test.in_place ? " in place" : ""));
  REQUIRE(difference == "");
}

}  // namespace

TEST_CASE("ReduceFinish.EqualsTheReferenceForEveryTypeCodecAndCount", "[sample]") {
  for_each_sample([](const PhaseCase& sample) {
    ReduceFinishCase test{sample};
    test.from_partial = test.seed % 2 == 0;
    test.in_place = test.seed / 2 % 2 == 0;
    test.own_position = test.seed / 4 % 2;
    test.out_factor = test.seed % 5 == 0 ? 1.0f / 3 : 1.0f;
    require_equal(test);
  });
}

TEST_CASE("ReduceFinish.AddsInRankOrderWhereverTheOwnRankStands", "[sample]") {
  for (std::uint32_t messages = 0; messages < 8; ++messages) {
    for (std::uint32_t own_position = 0; own_position <= messages; ++own_position) {
      for (const bool from_partial : {false, true}) {
        ReduceFinishCase test{{.type = ElementType::float32, .count = 129, .seed = messages}};
        test.messages = messages;
        test.own_position = own_position;
        test.from_partial = from_partial;
        require_equal(test);
      }
    }
  }
}

TEST_CASE("ReduceFinish.AMinusZeroAloneStaysMinusZero") {
  ReduceFinishCase test{{.codec = {.hadamard = false}, .count = 100, .content = Content::zeros}};
  test.messages = 0;
  require_equal(test);
}

TEST_CASE("ReduceFinish.TakesAnyAddressAndChunk", "[sample]") {
  for (const ElementType type : kTypes) {
    for (const std::size_t misalignment : {0u, 1u, 2u, 4u}) {
      for (const std::size_t output_misalignment : {0u, 2u, 4u, 13u}) {
        for (const std::size_t offset : {std::size_t{0}, std::size_t{16384}}) {
          for (const bool in_place : {false, true}) {
            ReduceFinishCase test{
                {.type = type, .count = 2049, .offset = offset, .misalignment = misalignment, .seed = 2}};
            test.output_misalignment = output_misalignment;
            test.in_place = in_place;
            require_equal(test);
          }
        }
      }
    }
  }
}

TEST_CASE("ReduceFinish.MultipliesByBothFactors") {
  for (const ElementType type : kTypes) {
    for (const bool on_device : {false, true}) {
      ReduceFinishCase test{{.type = type, .count = 200, .factor = 0.3f, .factor_on_device = on_device}};
      test.out_factor = 1.0f / 7;
      require_equal(test);
      test.from_partial = true;  // whose factor was applied before
      require_equal(test);
    }
  }
}

TEST_CASE("ReduceFinish.AHeaderThatCannotBeIsNanAndSaysSo", "[sample]") {
  for (const std::size_t byte : {0u, 4u, 6u, 36u, 40u, 47u}) {
    ReduceFinishCase test{{.count = 300}};
    test.messages = 3;
    test.own_position = 1;
    test.bad_header_byte = byte;
    require_equal(test);
  }
}

TEST_CASE("ReduceFinish.LongSegmentsEqualTheReference") {
  for (const ElementType type : kTypes) {
    for (const bool from_partial : {false, true}) {
      ReduceFinishCase test{{.type = type, .count = 100003, .content = Content::edges, .seed = 10}};
      test.messages = 3;
      test.own_position = 2;
      test.from_partial = from_partial;
      require_equal(test);
    }
  }
}

TEST_CASE("ReduceFinish.RefusesWhatCannotBe") {
  CHECK(reduce_finish({}, nullptr) == cudaSuccess);
  ReduceFinishArgs args{};
  args.input.count = 5;
  args.own_position = 1;  // no messages
  CHECK(reduce_finish(args, nullptr) == cudaErrorInvalidValue);
}

TEST_CASE("ReduceFinish.FullProductEqualsTheReference", "[.slow]") {
  for_each_case([seed = 0u](const PhaseCase& each) mutable {
    for (const Content content : kContents) {
      ++seed;
      ReduceFinishCase test{each};
      test.content = content;
      test.output_misalignment = seed % 7 == 0 ? element_bytes(test.type) : 0;
      test.messages = seed % 4;
      test.own_position = seed % (test.messages + 1);
      test.from_partial = seed % 2 == 0;
      test.in_place = seed % 3 == 0;
      require_equal(test);
    }
  });
}
