// What comes behind the largest 32-bit numbers: jobs whose every counter begins shortly before 2^31 or 2^32
// do what jobs do that begin at 0. Weights do not depend on a count: they are the same bits. Gradients do, by
// their noise: the job knows their bounds.
#include <sdp4bit/sdp4bit.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "catch.h"
#include "tests/faults/job.h"

namespace sdp4bit::test {
namespace {

using faults::Setting;

constexpr std::uint64_t k31 = std::uint64_t{1} << 31, k32 = std::uint64_t{1} << 32;
constexpr std::uint64_t kPrime = 0x100000001b3;
/// Calls of each function, eager and captured. Looks at gradients and their records need more than 64 + 8.
constexpr int kSteps = 90;

/// Both ledgers, and everything that counts.
std::vector<Setting> late_settings() {
  return {
      {"two levels", {{"SDP4BIT_OWN_SHARD", "replica"}, {"SDP4BIT_WEIGHT_REFRESH", "7"}}, true, kSteps},
      {"full ledger, own shards asked for, int4-sr",
       {{"SDP4BIT_WEIGHT_LEDGER", "full"},
        {"SDP4BIT_CODEC_INTER", "int4-sr"},
        {"SDP4BIT_CODEC_WEIGHT", "int4"}},
       false,
       kSteps,
       true},
      {"votes, checks, samples, checksums",
       {{"SDP4BIT_WEIGHT_VOTE", "1"},
        {"SDP4BIT_CHECK", "1"},
        {"SDP4BIT_CHECKSUM", "1"},
        {"SDP4BIT_SAMPLE_ERROR", "1"},
        {"SDP4BIT_OWN_SHARD", "replica"}},
       true,
       kSteps},
      {"direct weights, several chunks",
       {{"SDP4BIT_WEIGHT_DIRECT", "8"}, {"SDP4BIT_WORKSPACE", "64K"}},
       false,
       kSteps},
  };
}

std::string text_of(sdp4bitTextFunction function) {
  std::string text(function(nullptr, 0) + 1, '\0');
  text.resize(function(text.data(), text.size()));
  return text;
}

/// What a rank hands to the test.
struct Late {
  std::uint64_t weights = 0;                              // digest of what was gathered, step by step
  std::uint64_t reduced = 0, gathered = 0, executed = 0;  // counted
};

/// The communicator's counters, behind its end: those of the process.
Late run_late(RankContext& rank, const Setting& setting, std::uint64_t first) {
  Late late;
  late.weights = 0xcbf29ce484222325;
  try {
    faults::run_job(rank, setting, [&](const Bytes& weights) {
      for (const std::byte byte : weights)
        late.weights = (late.weights ^ std::to_integer<std::uint64_t>(byte)) * kPrime;
    });
  } catch (const faults::WrongResult& wrong) {
    throw std::runtime_error("WRONG: " + wrong.text);
  }
  sdp4bitFunctions library;
  expect(sdp4bitLoad(&library) == 1, "the library is there");
  sdp4bitStatistics counted{};
  counted.size = sizeof counted;
  expect(library.get_statistics(nullptr, "reduce_scatter", &counted) == 0, "statistics");
  late.reduced = counted.compressed_calls - first;
  late.executed = counted.executed_calls - first;
  expect(library.get_calls("all_gather", nullptr, &late.gathered) == 0, "calls");
  late.gathered -= first;
  // Files say whole numbers.
  const std::string number = std::to_string(counted.executed_calls);
  expect(text_of(library.statistics_json).find("\"executed_calls\": " + number) != std::string::npos, "JSON");
  expect(text_of(library.statistics_prometheus).find(' ' + number + '\n') != std::string::npos, "Prometheus");
  return late;
}

std::vector<Late> run_all(const Setting& setting, int nodes, int local_ranks, std::uint64_t first) {
  Cluster cluster{.node_of = even_nodes(nodes, local_ranks),
                  .environment = {{"SDP4BIT_COMMS", "all"},
                                  {"SDP4BIT_MIN_BYTES", "0"},
                                  {"TEST_FIRST_NUMBER", std::to_string(first)}},
                  .connect = false};
  cluster.environment.insert(cluster.environment.end(), setting.environment.begin(),
                             setting.environment.end());
  const auto outcomes = run_cluster(cluster, [&](RankContext& rank) {
    const Late late = run_late(rank, setting, first);
    rank.result.resize(sizeof late);
    std::memcpy(rank.result.data(), &late, sizeof late);
  });
  INFO(setting.name << ", from " << first);
  REQUIRE(failures(outcomes) == "");
  std::vector<Late> all;
  for (const Outcome& outcome : outcomes) {
    std::memcpy(&all.emplace_back(), outcome.result.data(), sizeof(Late));
    CHECK(outcome.log.find(" error ") == std::string::npos);
  }
  return all;
}

void run_late_numbers(const char* name, const std::vector<std::uint64_t>& firsts, int nodes,
                      int local_ranks) {
  const auto start = std::chrono::steady_clock::now();
  std::uint64_t calls = 0, compressed[2] = {};
  const std::vector<Setting> settings = late_settings();
  for (const Setting& setting : settings) {
    const std::vector<Late> usual = run_all(setting, nodes, local_ranks, 0);
    for (const std::uint64_t first : firsts) {
      const std::vector<Late> late = run_all(setting, nodes, local_ranks, first);
      for (std::size_t rank = 0; rank < late.size(); ++rank) {
        INFO(setting.name << ", from " << first << ", rank " << rank);
        CHECK(late[rank].weights == usual[rank].weights);
        CHECK(late[rank].reduced == usual[rank].reduced);
        CHECK(late[rank].gathered == usual[rank].gathered);
        CHECK(late[rank].executed == usual[rank].executed);
        CHECK(late[rank].reduced > kSteps / 2);
        CHECK(late[rank].gathered > kSteps / 2);
      }
      calls += 2 * kSteps;
      compressed[0] += late[0].reduced;
      compressed[1] += late[0].gathered;
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf(
      "{\"load\": \"%s\", \"calls_of_a_rank\": %llu, \"communicators\": %zu, \"threads\": 1, \"slots\": %zu, "
      "\"gradients_compressed\": %llu, \"weights_compressed\": %llu, \"seconds\": %.0f}\n",
      name, static_cast<unsigned long long>(calls), firsts.size() * settings.size(),
      firsts.size() * settings.size(), static_cast<unsigned long long>(compressed[0]),
      static_cast<unsigned long long>(compressed[1]), seconds.count());
}

TEST_CASE("Late.NumbersBeyond32BitsChangeNothing") {
  run_late_numbers("numbers that pass 2^32, sampled", {k32 - 40}, 2, 1);
}

/// Counters that move rarely pass with the nearest of these, others with the farthest.
TEST_CASE("Late.EveryCounterPasses2To31And2To32", "[.slow]") {
  run_late_numbers("numbers that pass 2^31 and 2^32",
                   {k31 - 1, k31 - 40, k32 - 1, k32 - 8, k32 - 40, k32 - 85, 3 * k32 - 20}, 2, 2);
}

}  // namespace
}  // namespace sdp4bit::test
