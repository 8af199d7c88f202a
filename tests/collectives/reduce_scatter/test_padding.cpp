// Gradients padded with memory that was never written, as DeepSpeed's ZeRO-3 pads them: left to NCCL where
// the framework is known, found out where it is not.
#include <limits>
#include <string>

#include "catch.h"
#include "gradient_case.h"
#include "kernels/reference_codec.h"

namespace sdp4bit::test {
namespace {

const Environment kAll{{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}};
constexpr std::size_t kCount = 1000, kPadding = 3;

/// Calls until the third look was read, and some more.
constexpr int kCalls = 3 + 64 * 3 + 8 + 20;

/// A program whose segments end in garbage on rank 1, in calls from `first` on.
void reduce_padded(RankContext& rank, float garbage, int first = 0) {
  const GradientCase gradient{.count = kCount};
  const Bytes clean = input_of(gradient, rank.rank, rank.ranks);
  Bytes padded = clean;
  for (int segment = 0; segment < rank.ranks && rank.rank == 1; ++segment) {
    for (std::size_t i = 0; i < kPadding; ++i) {
      reference::store_element(ElementType::float32, padded.data(),
                               static_cast<std::size_t>(segment + 1) * kCount - 1 - i, garbage);
    }
  }
  const DeviceBytes good(clean), bad(padded), receive(kCount * sizeof(float));
  for (int call = 0; call < kCalls; ++call) {
    check(ncclReduceScatter((call < first ? good : bad).data(), receive.data(), kCount, ncclFloat32, ncclSum,
                            rank.comm, rank.stream));
    check(cudaStreamSynchronize(rank.stream));
  }
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST_CASE("Padding.GarbageOnOneRankIsSaidOnceAndMakesTheClassNativeOnAll") {
  for (const float garbage : {1e30f, std::numeric_limits<float>::quiet_NaN()}) {
    const auto outcomes =
        run_cluster({.node_of = even_nodes(2, 2), .environment = kAll}, [garbage](RankContext& rank) {
          reduce_padded(rank, garbage);
          // Looks at the class's calls 63, 127 and 191; the answer to the last is read at 199.
          const CallCounts calls = calls_of("reduce_scatter");
          expect(calls.compressed == 199, std::to_string(calls.compressed) + " calls were compressed");
        });
    REQUIRE(failures(outcomes) == "");
    for (const Outcome& outcome : outcomes) {
      CHECK(occurrences(outcome.log, "look like garbage (rank 1:") == 1);
      CHECK(occurrences(outcome.log, "SDP4BIT_FRAMEWORK=deepspeed") == 1);
    }
  }
}

TEST_CASE("Padding.LooksInGroupsOfSeveralClassesAreHeardToo") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 2), .environment = kAll}, [](RankContext& rank) {
        engage(rank);
        // Two classes in each group; the second one carries garbage.
        const Bytes clean = input_of({.count = kCount}, rank.rank, rank.ranks);
        Bytes padded = clean;
        if (rank.rank == 3) reference::store_element(ElementType::float32, padded.data(), 5, 1e30f);
        const DeviceBytes good(clean), bad(padded), receive(kCount * sizeof(float));
        for (int call = 0; call < kCalls; ++call) {
          check(ncclGroupStart());
          check(ncclReduceScatter(good.data(), receive.data(), kCount / 2, ncclFloat32, ncclSum, rank.comm,
                                  rank.stream));
          check(ncclReduceScatter(bad.data(), receive.data(), kCount, ncclFloat32, ncclSum, rank.comm,
                                  rank.stream));
          check(ncclGroupEnd());
          check(cudaStreamSynchronize(rank.stream));
        }
        const CallCounts calls = calls_of("reduce_scatter");
        expect(calls.compressed == kCalls + 199, std::to_string(calls.compressed) + " calls were compressed");
      });
  REQUIRE(failures(outcomes) == "");
  for (const Outcome& outcome : outcomes) CHECK(occurrences(outcome.log, "look like garbage (rank 3:") == 1);
}

TEST_CASE("Padding.CleanGradientsAndOverflowStayCompressed") {
  for (const bool overflow : {false, true}) {
    const auto outcomes =
        run_cluster({.node_of = even_nodes(2, 2), .environment = kAll}, [overflow](RankContext& rank) {
          const Bytes everything_nan(kCount * static_cast<std::size_t>(rank.ranks) * sizeof(float),
                                     std::byte{0xff});
          const GradientCase gradient{.count = kCount};
          const DeviceBytes send(overflow ? everything_nan : input_of(gradient, rank.rank, rank.ranks)),
              receive(kCount * sizeof(float));
          for (int call = 0; call < kCalls; ++call) {
            check(ncclReduceScatter(send.data(), receive.data(), kCount, ncclFloat32, ncclSum, rank.comm,
                                    rank.stream));
          }
          check(cudaStreamSynchronize(rank.stream));
          expect(calls_of("reduce_scatter").compressed == kCalls - 3, "all compressed");
        });
    REQUIRE(failures(outcomes) == "");
    for (const Outcome& outcome : outcomes) CHECK(occurrences(outcome.log, "garbage") == 0);
  }
}

TEST_CASE("Padding.DeepSpeedOnOneRankKeepsGradientsNativeOnAllUnlessTheyAreTaken") {
  const auto found_on_one = [](int rank) {
    return rank == 2 ? Environment{{"ACCELERATE_USE_DEEPSPEED", "true"}} : Environment{};
  };
  for (const bool taken : {false, true}) {
    Environment environment = kAll;
    if (taken) environment.emplace_back("SDP4BIT_RS_PADDED", "1");
    const auto outcomes = run_cluster(
        {.node_of = even_nodes(2, 2), .environment = environment, .environment_of_rank = found_on_one},
        [taken](RankContext& rank) {
          for (int call = 0; call < 10; ++call) (void)run_gradient(rank, {.count = 500});
          expect(calls_of("reduce_scatter").compressed == (taken ? 7u : 0u), "native unless taken");
        });
    REQUIRE(failures(outcomes) == "");
    for (const Outcome& outcome : outcomes) {
      CHECK(occurrences(outcome.log, "DeepSpeed was found") == (taken ? 0u : 1u));
    }
  }
}

}  // namespace
}  // namespace sdp4bit::test
