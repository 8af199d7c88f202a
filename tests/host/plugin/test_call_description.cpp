// Descriptions of calls: any field that differs is found and named, with the ranks on both sides.
#include <cstddef>
#include <cstring>
#include <vector>

#include "catch.h"
#include "plugin/call_description.h"

namespace sdp4bit {
namespace {

bool says(const std::vector<CallDescription>& calls, const std::string& part) {
  return find_disagreement(calls).find(part) != std::string::npos;
}

TEST_CASE("CallDescription.EqualOnesAreNoDisagreement") {
  CHECK(find_disagreement(std::vector<CallDescription>(5)).empty());
}

TEST_CASE("CallDescription.EveryWordOfItIsCompared") {
  for (std::size_t word = 0; word < offsetof(CallDescription, checksum) / 4; ++word) {
    CAPTURE(word);
    std::vector<CallDescription> calls(3);
    std::memset(reinterpret_cast<std::byte*>(&calls[1]) + 4 * word, 3, 4);
    CHECK(says(calls, "on rank 1 and "));
  }
}

TEST_CASE("CallDescription.ABitThatFlippedOnTheWayIsNoDisagreement") {
  std::vector<CallDescription> calls(3, CallDescription{.number = 7, .count = 1000});
  for (CallDescription& call : calls) call.checksum = checksum_of_description(call);
  CHECK(find_damaged(calls) == -1);
  for (std::size_t bit = 0; bit < 8 * sizeof(CallDescription); ++bit) {
    auto damaged = calls;
    reinterpret_cast<std::byte*>(&damaged[2])[bit / 8] ^= std::byte{1} << bit % 8;
    CHECK(find_damaged(damaged) == 2);
  }
}

TEST_CASE("CallDescription.TheOddRankIsToldFromTheOthers") {
  std::vector<CallDescription> calls(4, CallDescription{.number = 9, .count = 409598, .type = ncclFloat32});
  calls[0].count = 409600;
  CHECK(
      find_disagreement(calls) ==
      "call 9 of the communicator, ReduceScatter of 409598 fp32 on ranks 1, 2, 3: count is 409600 on rank 0 "
      "and 409598 on ranks 1, 2, 3");
  calls.resize(2);  // as many on each side: the lowest rank is taken as meant
  CHECK(says(calls, "count is 409598 on rank 1 and 409600 on rank 0"));
}

TEST_CASE("CallDescription.ManyRanksAreNotListed") {
  std::vector<CallDescription> calls(20);
  calls[7].type = ncclBfloat16;
  CHECK(says(calls, "the type is bf16 on rank 7 and int8 on ranks 0, 1, 2, 3, 4, 5, 6, 8 and 11 more"));
}

TEST_CASE("CallDescription.OperatorsOfTheProgramAreAlike") {
  CHECK(described_op(ncclMax) != described_op(ncclMin));
  CHECK(described_op(static_cast<ncclRedOp_t>(ncclNumOps)) ==
        described_op(static_cast<ncclRedOp_t>(ncclNumOps + 17)));
  CHECK(described_op(ncclAvg) != described_op(static_cast<ncclRedOp_t>(ncclNumOps)));
}

}  // namespace
}  // namespace sdp4bit
