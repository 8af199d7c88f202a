// Groups with a NaN or an infinity are counted by who sends them and by who gets them, without a wait.
#include <cmath>
#include <limits>

#include "catch.h"
#include "gradient_case.h"
#include "kernels/wire_format.h"
#include "statistics.h"

namespace sdp4bit::test {
namespace {

const Environment kAll{{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}};
constexpr std::size_t kCount = 1000, kGroups = 16;  // of 64 elements in a segment
constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInf = std::numeric_limits<float>::infinity();

/// One ReduceScatter in which rank 0 has `value` at `index` of the segment of rank `owner`.
void reduce_poisoned(RankContext& rank, int owner, std::size_t index, float value) {
  std::vector<float> input(kCount * static_cast<std::size_t>(rank.ranks), 1.0f);
  if (rank.rank == 0) input[static_cast<std::size_t>(owner) * kCount + index] = value;
  const auto* bytes = reinterpret_cast<const std::byte*>(input.data());
  const DeviceBytes send(Bytes(bytes, bytes + input.size() * sizeof(float))), receive(kCount * sizeof(float));
  check(ncclReduceScatter(send.data(), receive.data(), kCount, ncclFloat32, ncclSum, rank.comm, rank.stream));
  check(cudaStreamSynchronize(rank.stream));
}

void expect_groups(const RankContext& rank, std::uint64_t sent, std::uint64_t received) {
  const sdp4bitStatistics read = statistics(rank.comm, "reduce_scatter");
  const std::string who = "rank " + std::to_string(rank.rank) + " ";
  expect_equal(read.nonfinite_groups_sent, sent, who + "sent");
  expect_equal(read.nonfinite_groups_received, received, who + "received");
}

}  // namespace

TEST_CASE("NonFinite.GroupsAreCountedOnEachStageOfTheirWay", "[G12]") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 2), .environment = kAll}, [](RankContext& rank) {
        engage(rank);
        reduce_poisoned(rank, 3, 5, 1.0f);
        expect_groups(rank, 0, 0);
        // Rank 0 codes it for rank 1, its node's keeper of the segment of rank 3, which sums it, codes it
        // again and sends it there.
        reduce_poisoned(rank, 3, 5, kNan);
        expect_groups(rank, rank.rank <= 1 ? 1 : 0, rank.rank == 1 || rank.rank == 3 ? 1 : 0);
        reduce_poisoned(rank, 3, 999, -kInf);  // in the segment's last, short group
        expect_groups(rank, rank.rank <= 1 ? 2 : 0, rank.rank == 1 || rank.rank == 3 ? 2 : 0);
      });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("NonFinite.EveryGroupOfEverySegmentIsCountedOnce") {
  for (const std::vector<int>& node_of : {even_nodes(3, 1), even_nodes(1, 3)}) {
    const auto outcomes = run_cluster({.node_of = node_of, .environment = kAll}, [](RankContext& rank) {
      engage(rank);
      std::vector<float> input(3 * kCount, rank.rank == 0 ? kNan : 1.0f);
      const auto* bytes = reinterpret_cast<const std::byte*>(input.data());
      const DeviceBytes send(Bytes(bytes, bytes + input.size() * sizeof(float))),
          receive(kCount * sizeof(float));
      check(ncclReduceScatter(send.data(), receive.data(), kCount, ncclFloat32, ncclSum, rank.comm,
                              rank.stream));
      check(cudaStreamSynchronize(rank.stream));
      expect_groups(rank, rank.rank == 0 ? 2 * kGroups : 0, rank.rank == 0 ? 0 : kGroups);
    });
    CHECK(failures(outcomes) == "");
  }
}

TEST_CASE("NonFinite.WeightsAreCountedToo") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kAll}, [](RankContext& rank) {
        std::vector<float> shard(kCount, 0.5f);
        const DeviceBytes buffer(2 * kCount * 2);
        Bytes bits(kCount * 2);
        const auto gather = [&](std::uint16_t first) {
          for (std::size_t i = 0; i < kCount; ++i) {
            const std::uint16_t value = i == 0 ? first : std::uint16_t{0x3f00};
            bits[2 * i] = static_cast<std::byte>(value & 0xff);
            bits[2 * i + 1] = static_cast<std::byte>(value >> 8);
          }
          std::byte* const own = buffer.data() + static_cast<std::size_t>(rank.rank) * bits.size();
          check(cudaMemcpy(own, bits.data(), bits.size(), cudaMemcpyHostToDevice));
          check(ncclAllGather(own, buffer.data(), kCount, ncclBfloat16, rank.comm, rank.stream));
          check(cudaStreamSynchronize(rank.stream));
        };
        for (int i = 0; i < 16; ++i) gather(0x3f00);
        expect(why(rank.comm, "all_gather") == "compressed", why(rank.comm, "all_gather"));
        expect_equal(statistics(rank.comm, "all_gather").nonfinite_groups_sent, 0, "before");
        gather(rank.rank == 0 ? 0x7fc0 : 0x3f00);
        const sdp4bitStatistics read = statistics(rank.comm, "all_gather");
        expect_equal(read.nonfinite_groups_sent, rank.rank == 0 ? 1 : 0, "sent");
        expect_equal(read.nonfinite_groups_received, rank.rank == 0 ? 0 : 1, "received");
      });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("NonFinite.AScaleThatBecameNanOnItsWayIsCountedAndShown", "[G11]") {
  Environment environment = kAll;
  environment.emplace_back("SDP4BIT_PRESET", "paper");  // scales of four bytes, groups of 128
  environment.emplace_back("SDP4BIT_HADAMARD", "0");
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = environment}, [](RankContext& rank) {
        engage(rank);
        reduce_poisoned(rank, 0, 0, 1.0f);
        // Scales of 1.3 * 2^-126: flipping their highest byte makes them NaN.
        std::vector<float> input(2 * kCount, 7 * 1.3f * 0x1p-126f);
        const auto* bytes = reinterpret_cast<const std::byte*>(input.data());
        const DeviceBytes send(Bytes(bytes, bytes + input.size() * sizeof(float))),
            receive(kCount * sizeof(float));
        constexpr std::size_t kHit = 3;  // group
        if (rank.rank == 1) sandboxNcclDamageReceive(1, sizeof(MessageHeader) + kHit * sizeof(float) + 3);
        check(ncclReduceScatter(send.data(), receive.data(), kCount, ncclFloat32, ncclSum, rank.comm,
                                rank.stream));
        check(cudaStreamSynchronize(rank.stream));
        expect_groups(rank, 0, rank.rank == 1 ? 1 : 0);
        const std::vector<float> output = to_floats(ElementType::float32, receive.read());
        for (std::size_t i = 0; i < kCount; ++i) {
          expect(std::isnan(output[i]) == (rank.rank == 1 && i / 128 == kHit),
                 "element " + std::to_string(i) + " of rank " + std::to_string(rank.rank));
        }
      });
  CHECK(failures(outcomes) == "");
}

}  // namespace sdp4bit::test
