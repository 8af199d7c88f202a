// A program whose ranks call alike runs to its end with votes as it does without, bit for bit.
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "catch.h"
#include "checked_calls.h"

namespace sdp4bit::test {
namespace {

void append(Bytes& to, const Bytes& bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// Gradients of all kinds one by one and in groups, weights that become differences, natives between them.
void train(RankContext& rank) {
  engage(rank);
  constexpr std::size_t kWeights = 2000;
  const std::size_t shard = kWeights * 2;
  const DeviceBytes weights(Bytes(shard * static_cast<std::size_t>(rank.ranks)));
  const DeviceBytes send(input_of({.count = 1500}, rank.rank, rank.ranks)), sum(6000), numbers(6000);
  std::byte* const own = weights.data() + static_cast<std::size_t>(rank.rank) * shard;
  for (int step = 0; step < 14; ++step) {
    Bytes shard_now(shard);
    for (std::size_t i = 0; i < kWeights; ++i) {
      const auto bits = static_cast<std::uint16_t>(0x3f80 + (i * 7) % 60 + static_cast<std::size_t>(step));
      std::memcpy(shard_now.data() + 2 * i, &bits, 2);
    }
    check(cudaMemcpy(own, shard_now.data(), shard, cudaMemcpyHostToDevice));
    append(rank.result, run_gradient(rank, {.op = Op::avg, .count = 700}));
    ncclRedOp_t scaled{};
    float factor = 0.5f;
    check(ncclRedOpCreatePreMulSum(&scaled, &factor, ncclFloat32, ncclScalarHostImmediate, rank.comm));
    check(ncclGroupStart());
    check(ncclReduceScatter(send.data(), sum.data(), 1500, ncclFloat32, scaled, rank.comm, rank.stream));
    check(ncclAllGather(own, weights.data(), kWeights, ncclBfloat16, rank.comm, rank.stream));
    check(ncclReduceScatter(send.data(), numbers.data(), 1500, ncclInt32, ncclMax, rank.comm, rank.stream));
    check(ncclReduceScatter(send.data(), numbers.data(), 0, ncclFloat32, ncclSum, rank.comm, rank.stream));
    check(ncclRedOpDestroy(scaled, rank.comm));
    check(ncclGroupEnd());
    check(cudaStreamSynchronize(rank.stream));
    append(rank.result, sum.read());
    append(rank.result, numbers.read());
    append(rank.result, weights.read());
  }
  const auto compressed = calls_of("reduce_scatter").compressed + calls_of("all_gather").compressed;
  append(rank.result, Bytes(1, static_cast<std::byte>(compressed)));
}

void require_the_same(const Environment& more) {
  Environment unchecked{{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}};
  unchecked.insert(unchecked.end(), more.begin(), more.end());
  Environment checked = unchecked;
  checked.emplace_back("SDP4BIT_CHECK", "1");
  const auto without = run_cluster({.node_of = even_nodes(2, 2), .environment = unchecked}, train);
  const auto with = run_cluster({.node_of = even_nodes(2, 2), .environment = checked}, train);
  REQUIRE(failures(without) == "");
  REQUIRE(failures(with) == "");
  for (std::size_t rank = 0; rank < with.size(); ++rank) {
    CHECK(with[rank].result == without[rank].result);
    CHECK(occurrences(with[rank].log, "ranks call differently") == 0);
  }
}

TEST_CASE("Check.AProgramThatIsRightGivesTheSameBits") {
  require_the_same({});
}

// Its operators are destroyed before their calls are made: those wait for the votes.
TEST_CASE("Check.NativeCallsGiveTheSameBits") {
  require_the_same({{"SDP4BIT_ENABLE", "0"}});
}

TEST_CASE("Check.ASimulatedGroupIsNotVotedOn") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kChecked}, [](RankContext& rank) {
        const Caller caller(rank);
        engage(rank);
        check(caller.make({}));
        if (rank.rank == 0) {  // on one rank only: nothing may be sent
          ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
          check(ncclGroupStart());
          check(caller.make({.type = ncclInt32}));
          check(caller.make({}));
          check(ncclGroupSimulateEnd(&info));
        }
        check(caller.make({}));
        check(cudaStreamSynchronize(rank.stream));
      });
  CHECK(failures(outcomes) == "");
}

/// What ranks that outlive another one share: the id of their next communicator.
struct Meeting {
  std::atomic<int> ready{0};
  ncclUniqueId id;
};

// E13
TEST_CASE("Check.AfterOneRankWasReplacedNothingOldIsUsed") {
  void* const shared =
      ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(shared != MAP_FAILED);
  for (const bool checked : {false, true}) {
    CAPTURE(checked);
    Meeting& meetings = *new (shared) Meeting;
    std::memset(static_cast<void*>(&meetings.id), 0, sizeof meetings.id);
    constexpr std::size_t kCount = 4000;
    constexpr int kRanks = 4, kReplaced = 3;
    // The fifth process is the replacement: it comes when the communicator is made anew.
    const auto body = [&](RankContext& process) {
      const auto gather = [&](RankContext& rank, int calls, int from) {
        const DeviceBytes weights(Bytes(kCount * 2 * kRanks));
        const std::size_t shard = kCount * 2;
        std::byte* const own = weights.data() + static_cast<std::size_t>(rank.rank) * shard;
        const DeviceBytes exact(Bytes(kCount * 2 * kRanks));
        bool all_exact = true;
        for (int call = 0; call < calls; ++call) {
          Bytes now(shard);
          for (std::size_t i = 0; i < kCount; ++i) {
            const auto bits = static_cast<std::uint16_t>(0x3f80 + (i * 7) % 60 +
                                                         static_cast<std::size_t>(call + from + rank.rank));
            std::memcpy(now.data() + 2 * i, &bits, 2);
          }
          check(cudaMemcpy(own, now.data(), shard, cudaMemcpyHostToDevice));
          check(pncclAllGather(own, exact.data(), kCount, ncclBfloat16, rank.comm, rank.stream));
          check(ncclAllGather(own, weights.data(), kCount, ncclBfloat16, rank.comm, rank.stream));
          check(cudaStreamSynchronize(rank.stream));
          if (call < 8) all_exact = all_exact && weights.read() == exact.read();
        }
        expect(all_exact, "a new communicator starts with exact gathers");
        Bytes others = weights.read();
        return others;
      };
      RankContext rank = process;
      rank.ranks = kRanks;
      if (process.rank < kRanks) {
        check(ncclCommInitRank(&rank.comm, kRanks, process.id, process.rank));
        (void)gather(rank, 16, 0);
        expect(calls_of("all_gather").compressed > 0, "differences were sent");
        check(ncclCommAbort(rank.comm));
        if (process.rank == kReplaced) return;
      } else {
        rank.rank = kReplaced;
      }
      if (process.rank == 0) {
        check(ncclGetUniqueId(&meetings.id));
        meetings.ready.store(1);
      }
      while (meetings.ready.load() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      check(ncclCommInitRank(&rank.comm, kRanks, meetings.id, rank.rank));
      const CallCounts before = calls_of("all_gather");
      (void)gather(rank, 16, 30);
      expect(calls_of("all_gather").compressed > before.compressed, "and differences are sent again");
      process.result =
          Bytes(1, static_cast<std::byte>(calls_of("all_gather").compressed - before.compressed));
      check(ncclCommDestroy(rank.comm));
    };
    Environment environment{{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}};
    if (checked) environment.emplace_back("SDP4BIT_CHECK", "1");
    const auto outcomes =
        run_cluster({.node_of = {0, 0, 1, 1, 1}, .environment = environment, .connect = false}, body);
    CHECK(failures(outcomes) == "");
    for (const std::size_t process : {1u, 2u, 4u}) CHECK(outcomes[process].result == outcomes[0].result);
  }
  ::munmap(shared, sizeof(Meeting));
}

}  // namespace
}  // namespace sdp4bit::test
