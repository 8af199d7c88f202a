// Odd counts on every shape of cluster, from learning into differences: equal bits in place and out of place,
// within the bound, nothing written beside the buffers.
#include <algorithm>

#include "catch.h"
#include "gather_job.h"

using namespace sdp4bit::test;

namespace {

constexpr std::size_t kOddCounts[] = {1, 2, 7, 31, 33, 127, 129, 2047, 2049};
constexpr std::size_t kLargeCount = 1000003;
constexpr int kSteps = 8;

struct Shape {
  const char* name;
  std::vector<int> node_of;
  const char* ledger;
};

/// Column ledgers where there are columns, else all ranks hold all.
std::vector<Shape> shapes() {
  return {{"1x4", even_nodes(1, 4), "full"},
          {"4x1", even_nodes(4, 1), "node"},
          {"2x3", even_nodes(2, 3), "node"},
          {"3x2", even_nodes(3, 2), "node"},
          {"3+1", {0, 0, 0, 1}, "full"}};
}

/// One class with two buffers in turn, which hold the same weights: in place and out of place.
struct Pair {
  std::size_t count;
  ncclDataType_t type;
  std::size_t misaligned_in_place;      // elements
  std::size_t misaligned_out_of_place;  // elements
};

std::vector<Pair> odd_pairs() {
  std::vector<Pair> pairs;
  for (const std::size_t count : kOddCounts) {
    pairs.push_back({count, ncclBfloat16, pairs.size() % 2, (pairs.size() + 1) % 2});
    pairs.push_back({count, ncclFloat16, pairs.size() / 2 % 2, (pairs.size() / 2 + 1) % 2});
  }
  return pairs;
}

void require_equal_bits(const Shape& shape, const std::vector<Pair>& pairs) {
  INFO(shape.name);
  // Three buffers of a class of their own: the handshake is read by the call behind them.
  std::vector<GatherJob> jobs{{.node_of = shape.node_of, .count = 5, .buffers = 3, .steps = kSteps}};
  jobs[0].environment = {{"SDP4BIT_WEIGHT_LEDGER", shape.ledger}};
  for (const Pair& pair : pairs) {
    jobs.push_back({.count = pair.count,
                    .type = pair.type,
                    .buffers = 1,
                    .in_place = true,
                    .misalignment = pair.misaligned_in_place});
    jobs.push_back({.count = pair.count,
                    .type = pair.type,
                    .buffers = 1,
                    .in_place = false,
                    .misalignment = pair.misaligned_out_of_place});
  }
  const std::vector<GatherResult> results = run_together(jobs);
  REQUIRE(results[0].failure == "");
  for (const GatherResult& result : results) REQUIRE(disagreement(result) == "");
  for (std::size_t i = 0; i < pairs.size(); ++i) {
    INFO(pairs[i].count << " elements, type " << pairs[i].type);
    CHECK(results[1 + 2 * i].hashes == results[2 + 2 * i].hashes);
  }
  // Classes of two slots learn for 8 calls; the class of three slots, for 16 behind its first three.
  const std::uint64_t expected = pairs.size() * (2 * kSteps - 8) + 3 * (kSteps - 1) - 16;
  for (const CallCounts& calls : results[0].calls) CHECK(calls.compressed == expected);
}

}  // namespace

TEST_CASE("AllGatherShapes.OddCountsInAndOutOfPlaceGiveTheSameBits") {
  for (const Shape& shape : shapes()) require_equal_bits(shape, odd_pairs());
}

TEST_CASE("AllGatherShapes.BuffersMayLieAtAnyByte") {
  for (const ncclDataType_t type : {ncclBfloat16, ncclFloat32}) {
    // As above, three buffers before the class that counts.
    std::vector<GatherJob> jobs{{.count = 5, .buffers = 3, .steps = kSteps}};
    jobs[0].environment = {{"SDP4BIT_WEIGHT_TYPES", "bf16,fp32"}, {"SDP4BIT_SAMPLE_ERROR", "1"}};
    for (const std::size_t odd : {0u, 1u}) {
      for (const bool in_place : {true, false}) {
        jobs.push_back({.count = 2049, .type = type, .buffers = 1, .in_place = in_place, .odd = odd});
      }
    }
    const std::vector<GatherResult> results = run_together(jobs);
    REQUIRE(results[0].failure == "");
    for (std::size_t i = 1; i < results.size(); ++i) {
      CHECK(disagreement(results[i]) == "");
      CHECK(results[i].hashes == results[1].hashes);
    }
    CHECK(results[0].calls[0].compressed > 0);
  }
}

TEST_CASE("AllGatherShapes.OneRankKeepsItsWeights") {
  std::vector<GatherJob> jobs;
  for (const Pair& pair : odd_pairs()) {
    for (const bool in_place : {true, false}) {
      jobs.push_back({.node_of = {0},
                      .count = pair.count,
                      .type = pair.type,
                      .buffers = 1,
                      .steps = kSteps,
                      .in_place = in_place,
                      .misalignment = pair.misaligned_in_place,
                      .owner_is_exact = true});
    }
  }
  const std::vector<GatherResult> results = run_together(jobs);
  REQUIRE(results[0].failure == "");
  CHECK(results[0].calls[0].compressed == 0);
}

TEST_CASE("AllGatherShapes.WithoutColumnsTheDefaultStaysNative") {
  GatherJob job{.node_of = {0, 0, 0, 1}, .count = 129, .buffers = 1, .steps = 20};
  job.bound = 1e-9;  // what arrives is what was sent
  const GatherResult result = run(job);
  REQUIRE(result.failure == "");
  CHECK(disagreement(result) == "");
  for (const CallCounts& calls : result.calls) CHECK(calls.compressed == 0);
}

TEST_CASE("AllGatherShapes.ZeroCountsAreNcclsBusiness") {
  const auto outcomes = run_cluster(
      {.node_of = even_nodes(2, 2), .environment = {{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}}},
      [](RankContext& rank) {
        const DeviceBytes send(Bytes(64)), receive(Bytes(256));
        for (int i = 0; i < 30; ++i) {
          check(ncclAllGather(nullptr, nullptr, 0, ncclBfloat16, rank.comm, rank.stream));
          check(ncclAllGather(send.data(), receive.data(), 32, ncclBfloat16, rank.comm, rank.stream));
          check(ncclAllGather(send.data(), receive.data(), 0, ncclBfloat16, rank.comm, rank.stream));
          check(cudaStreamSynchronize(rank.stream));
        }
        expect(receive.read() == Bytes(256), "zeros");
        expect(calls_of("all_gather").compressed == 30 - 3 - 8, "calls without elements have no numbers");
      });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("AllGatherShapes.AMillionAndThreeElements", "[.slow]") {
  for (const Shape& shape : shapes()) {
    require_equal_bits(shape, {{kLargeCount, ncclBfloat16, 0, 1}, {kLargeCount, ncclFloat16, 1, 0}});
  }
}

TEST_CASE("AllGatherShapes.EveryAlignmentOfEveryCount", "[.slow]") {
  for (const Shape& shape : shapes()) {
    for (const std::size_t in_place : {0, 1}) {
      for (const std::size_t out_of_place : {0, 1}) {
        std::vector<Pair> pairs;
        for (const std::size_t count : kOddCounts) {
          for (const ncclDataType_t type : {ncclBfloat16, ncclFloat16})
            pairs.push_back({count, type, in_place, out_of_place});
        }
        require_equal_bits(shape, pairs);
      }
    }
  }
}
