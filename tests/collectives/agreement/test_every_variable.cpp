// Each variable that shapes the wire, set otherwise on one rank: every rank stays with NCCL and says why.
#include <algorithm>
#include <string>
#include <vector>

#include "catch.h"
#include "cluster.h"
#include "other_value.h"

namespace sdp4bit::test {
namespace {

constexpr std::size_t kCount = 500;
constexpr int kCalls = 5;  // of each function; the handshake is read by the fourth call

const Environment kAll{{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}};

/// What kAll puts in force.
Config base_config() {
  std::vector<std::string> texts;
  for (const auto& [name, value] : kAll) texts.push_back(name + "=" + value);
  std::vector<const char*> environment;
  for (const std::string& text : texts) environment.push_back(text.c_str());
  const ParsedConfig parsed = parse_config(environment);
  REQUIRE(parsed.complaints.empty());
  return parsed.config;
}

Bytes some_numbers(std::size_t count, int rank) {
  Bytes bytes(count * sizeof(float));
  for (std::size_t i = 0; i < count; ++i) {
    const float value = 0.37f * static_cast<float>(i % 91) - static_cast<float>(rank);
    std::copy_n(reinterpret_cast<const std::byte*>(&value), sizeof value,
                bytes.begin() + static_cast<std::ptrdiff_t>(i * sizeof value));
  }
  return bytes;
}

/// Calls of both functions, each with NCCL's own result beside it.
void gather_and_reduce(RankContext& rank) {
  const DeviceBytes send(some_numbers(2 * kCount, rank.rank));
  const DeviceBytes ours(Bytes(2 * kCount * sizeof(float))), theirs(Bytes(2 * kCount * sizeof(float)));

  bool equal = true;
  for (int call = 0; call < kCalls; ++call) {
    check(ncclReduceScatter(send.data(), ours.data(), kCount, ncclFloat32, ncclSum, rank.comm, rank.stream));
    check(
        pncclReduceScatter(send.data(), theirs.data(), kCount, ncclFloat32, ncclSum, rank.comm, rank.stream));
    check(cudaStreamSynchronize(rank.stream));
    equal = equal && ours.read() == theirs.read();
    // As bf16: a type that weights have.
    check(ncclAllGather(send.data(), ours.data(), kCount, ncclBfloat16, rank.comm, rank.stream));
    check(pncclAllGather(send.data(), theirs.data(), kCount, ncclBfloat16, rank.comm, rank.stream));
    check(cudaStreamSynchronize(rank.stream));
    equal = equal && ours.read() == theirs.read();
  }
  const std::uint64_t compressed = calls_of("reduce_scatter").compressed + calls_of("all_gather").compressed;
  expect(equal == (compressed == 0), "bits are NCCL's where nothing was compressed, and only there");
  rank.result = Bytes(static_cast<std::size_t>(compressed));
}

/// The first call that reads the agreement is an error, as asked for.
void reduce_until_error(RankContext& rank) {
  const DeviceBytes send(some_numbers(2 * kCount, rank.rank)), receive(kCount * sizeof(float));
  for (int call = 0; call < 4; ++call) {
    const ncclResult_t result =
        ncclReduceScatter(send.data(), receive.data(), kCount, ncclFloat32, ncclSum, rank.comm, rank.stream);
    expect(result == (call < 3 ? ncclSuccess : ncclInvalidUsage), "call " + std::to_string(call));
  }
  check(cudaStreamSynchronize(rank.stream));
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE("EveryVariable.EqualOnAllRanksIsCompressed") {
  const auto outcomes = run_cluster({.node_of = even_nodes(2, 1), .environment = kAll}, gather_and_reduce);
  REQUIRE(failures(outcomes) == "");
  for (const Outcome& outcome : outcomes) CHECK(outcome.result.size() == 3);
}

TEST_CASE("EveryVariable.ThatDiffersIsNamedWithBothValuesAndEveryRankIsNative") {
  const Config base = base_config();
  std::size_t different_rank = 0;
  for (const Option& option : option_table()) {
    if (!option.shapes_wire) continue;
    const std::string text = other_value(option, base);
    CAPTURE(option.name, text);
    REQUIRE(text != "");
    Config changed = base;
    REQUIRE(option.parse(text, changed));
    different_rank = 1 - different_rank;
    const auto other = [&](int rank) {
      return rank == static_cast<int>(different_rank) ? Environment{{option.name, text}} : Environment{};
    };
    const bool aborts = changed.on_mismatch == OnMismatch::abort;
    const auto outcomes =
        run_cluster({.node_of = even_nodes(2, 1), .environment = kAll, .environment_of_rank = other},
                    aborts ? reduce_until_error : gather_and_reduce);
    REQUIRE(failures(outcomes) == "");
    const std::string here = option.print(base), there = option.print(changed);
    const std::string said = std::string(option.name) + " is \"" + (different_rank == 0 ? there : here) +
                             "\" on rank 0 and \"" + (different_rank == 0 ? here : there) + "\" on rank 1";
    for (const Outcome& outcome : outcomes) {
      INFO(outcome.log);
      CHECK(outcome.result.empty());  // nothing was compressed
      CHECK(occurrences(outcome.log, said) == 1);
    }
  }
}

}  // namespace
}  // namespace sdp4bit::test
