// A header that is damaged on its way: never old bytes with success, but NaN and then an error.
#include <sandbox/nccl/extension.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "catch.h"
#include "cluster.h"
#include "kernels/reference_codec.h"
#include "kernels/wire_format.h"

namespace sdp4bit::test {
namespace {

const Environment kAll{{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}};
constexpr std::size_t kCount = 600;
constexpr std::size_t kHeader = sizeof(MessageHeader);

enum class Numbers { finite, nan, mixed };

Numbers numbers_in(ElementType type, const Bytes& bytes, std::size_t first, std::size_t count) {
  std::size_t nans = 0;
  for (std::size_t i = first; i < first + count; ++i) {
    nans += std::isnan(reference::load_element(type, bytes.data(), i));
  }
  return nans == 0 ? Numbers::finite : nans == count ? Numbers::nan : Numbers::mixed;
}

Bytes ones(ElementType type, std::size_t count) {
  Bytes bytes(count * element_bytes(type));
  for (std::size_t i = 0; i < count; ++i) reference::store_element(type, bytes.data(), i, 1.0f);
  return bytes;
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

/// Rank 0 gets damage in its `receive`-th message of a ReduceScatter.
struct DamagedGradient {
  std::vector<int> node_of;
  std::uint64_t receive;
  std::size_t offset;
  std::vector<bool> is_nan;  // by rank: whether the damage reaches its output
};

void require_nan_and_an_error(const DamagedGradient& damage) {
  const auto outcomes = run_cluster({.node_of = damage.node_of, .environment = kAll}, [&](RankContext& rank) {
    const auto ranks = static_cast<std::size_t>(rank.ranks);
    const DeviceBytes send(ones(ElementType::float32, kCount * ranks)), receive(kCount * 4);
    const auto reduce = [&] {
      return ncclReduceScatter(send.data(), receive.data(), kCount, ncclFloat32, ncclSum, rank.comm,
                               rank.stream);
    };
    for (int call = 0; call < 6; ++call) {
      check(reduce());
      check(cudaStreamSynchronize(rank.stream));
      if (call == 4 && rank.rank == 0) sandboxNcclDamageReceive(damage.receive, damage.offset);
    }
    expect(calls_of("reduce_scatter").compressed == 3, "compressed");
    const bool is_nan = damage.is_nan[static_cast<std::size_t>(rank.rank)];
    const Numbers got = numbers_in(ElementType::float32, receive.read(), 0, kCount);
    expect(got == (is_nan ? Numbers::nan : Numbers::finite), "the output of the damaged call");
    if (rank.rank != 0) return;
    expect(reduce() == ncclRemoteError, "the next ReduceScatter is an error");
    expect(ncclAllGather(send.data(), receive.data(), 1, ncclFloat32, rank.comm, rank.stream) != ncclSuccess,
           "and so is the next AllGather");
  });
  REQUIRE(failures(outcomes) == "");
  CHECK(occurrences(outcomes[0].log, "a message arrived whose header cannot be") >= 1);
}

TEST_CASE("DamagedHeaders.AGradientInANodeIsNanOnAllWhomItReaches") {
  // The partial sum for the other node's rank of the column holds it too.
  require_nan_and_an_error({even_nodes(2, 2), 1, offsetof(MessageHeader, magic), {true, false, true, false}});
  require_nan_and_an_error({even_nodes(1, 2), 1, offsetof(MessageHeader, chunk), {true, false}});
}

TEST_CASE("DamagedHeaders.AGradientBetweenNodesIsNan") {
  require_nan_and_an_error(
      {even_nodes(2, 2), 2, offsetof(MessageHeader, count), {true, false, false, false}});
  require_nan_and_an_error(
      {even_nodes(2, 2), 2, offsetof(MessageHeader, wire_version), {true, false, false, false}});
  require_nan_and_an_error({even_nodes(2, 1), 1, offsetof(MessageHeader, kind), {true, false}});
}

/// Rank 0 gets damage in its `receive`-th message of the AllGather number `call`.
struct DamagedWeight {
  const char* ledger;
  int call;
  std::uint64_t receive;
  std::size_t offset;
  int sender;                     // whose shard it was
  std::vector<bool> is_nan;       // by rank: whether it holds NaN for that shard
  std::vector<bool> has_error{};  // by rank, if others than those
};

constexpr int kLearning = 3, kDifference = 14;  // calls when a record travels, and when a difference does

void require_nan_and_an_error(const DamagedWeight& damage) {
  Environment environment = kAll;
  environment.emplace_back("SDP4BIT_WEIGHT_LEDGER", damage.ledger);
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 2), .environment = environment}, [&](RankContext& rank) {
        const auto ranks = static_cast<std::size_t>(rank.ranks);
        const auto me = static_cast<std::size_t>(rank.rank);
        const DeviceBytes send(ones(ElementType::bfloat16, kCount)),
            receive(ones(ElementType::bfloat16, kCount * ranks));
        const auto gather = [&] {
          return ncclAllGather(send.data(), receive.data(), kCount, ncclBfloat16, rank.comm, rank.stream);
        };
        for (int call = 0; call <= damage.call; ++call) {
          if (call == damage.call && rank.rank == 0) sandboxNcclDamageReceive(damage.receive, damage.offset);
          check(gather());
          check(cudaStreamSynchronize(rank.stream));
        }
        const bool compressed = damage.call == kDifference;
        expect((calls_of("all_gather").compressed > 0) == compressed, "the kind of the damaged call");
        const Bytes got = receive.read();
        for (std::size_t sender = 0; sender < ranks; ++sender) {
          const bool is_nan = damage.is_nan[me] && static_cast<int>(sender) == damage.sender;
          expect(numbers_in(ElementType::bfloat16, got, sender * kCount, kCount) ==
                     (is_nan ? Numbers::nan : Numbers::finite),
                 "the shard of rank " + std::to_string(sender));
        }
        const std::vector<bool>& has_error = damage.has_error.empty() ? damage.is_nan : damage.has_error;
        if (!has_error[me]) return;
        expect(gather() == ncclRemoteError, "the next AllGather is an error");
        expect(ncclReduceScatter(send.data(), receive.data(), 1, ncclFloat32, ncclSum, rank.comm,
                                 rank.stream) != ncclSuccess,
               "and so is the next ReduceScatter");
      });
  REQUIRE(failures(outcomes) == "");
  CHECK(occurrences(outcomes[0].log, "a message arrived whose header cannot be") >= 1);
}

TEST_CASE("DamagedHeaders.AWeightBetweenNodesIsNanInTheWholeNode") {
  for (const std::size_t field : {offsetof(MessageHeader, slot), offsetof(MessageHeader, call_or_key)}) {
    require_nan_and_an_error({.ledger = "node",
                              .call = kDifference,
                              .receive = 1,
                              .offset = field,
                              .sender = 2,
                              .is_nan = {true, true, false, false}});
  }
}

TEST_CASE("DamagedHeaders.AWeightPassedOnInTheNodeIsNan") {
  require_nan_and_an_error({.ledger = "node",
                            .call = kDifference,
                            .receive = 2,
                            .offset = offsetof(MessageHeader, class_number),
                            .sender = 1,
                            .is_nan = {true, false, false, false}});
  require_nan_and_an_error({.ledger = "node",
                            .call = kDifference,
                            .receive = 2,
                            .offset = kHeader + offsetof(MessageHeader, sender),
                            .sender = 3,
                            .is_nan = {true, false, false, false}});
}

TEST_CASE("DamagedHeaders.AWeightOfAFullLedgerIsNan") {
  const std::size_t message = message_bytes(kCount, 1, {.group_size = 1024, .scale = ScaleType::bfloat16});
  require_nan_and_an_error({.ledger = "full",
                            .call = kDifference,
                            .receive = 1,
                            .offset = 3 * message + offsetof(MessageHeader, kind),
                            .sender = 3,
                            .is_nan = {true, false, false, false}});
}

TEST_CASE("DamagedHeaders.ARecordOfANativeCallIsAnError") {
  // The gather itself is the first receive, and NCCL's business.
  require_nan_and_an_error({.ledger = "node",
                            .call = kLearning,
                            .receive = 2,
                            .offset = 2 * kHeader + offsetof(MessageHeader, call_or_key),
                            .sender = 2,
                            .is_nan = {false, false, false, false},
                            .has_error = {true, false, false, false}});
}

}  // namespace
}  // namespace sdp4bit::test
