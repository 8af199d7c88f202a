// CUDA's last error belongs to the program: calls neither fail because of it, nor take it, nor leave one.
#include "catch.h"
#include "gradient_case.h"

namespace sdp4bit::test {
namespace {

const Environment kAll{{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}};
constexpr std::size_t kCount = 4096;

/// Calls until differences are sent, with and without an error of the program waiting to be asked for.
void gather_and_reduce(RankContext& rank, bool with_error) {
  engage(rank);
  const DeviceBytes full(input_of({.count = kCount}, rank.rank, rank.ranks));
  const DeviceBytes gathered(
      input_of({.type = ElementType::bfloat16, .count = kCount}, rank.rank, rank.ranks));
  const DeviceBytes part(kCount * sizeof(float));
  for (int call = 0; call < 14; ++call) {
    if (with_error) expect(cudaSetDevice(-1) == cudaErrorInvalidDevice, "an error of the program");
    check(ncclReduceScatter(full.data(), part.data(), kCount, ncclFloat32, ncclSum, rank.comm, rank.stream));
    check(ncclAllGather(gathered.data() + static_cast<std::size_t>(rank.rank) * kCount * 2, gathered.data(),
                        kCount, ncclBfloat16, rank.comm, rank.stream));
    const cudaError_t last = cudaGetLastError();
    expect((last != cudaSuccess) == with_error, std::string("the last error is ") + cudaGetErrorName(last));
  }
  check(cudaStreamSynchronize(rank.stream));
  expect(calls_of("reduce_scatter").compressed == 14, "gradients compressed");
  expect(calls_of("all_gather").compressed > 0, "differences sent");
}

}  // namespace

TEST_CASE("LastError.OfTheProgramNeitherStopsACallNorIsTaken") {
  const auto outcomes = run_cluster({.node_of = even_nodes(2, 2), .environment = kAll},
                                    [](RankContext& rank) { gather_and_reduce(rank, true); });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("LastError.IsNotLeftBehind") {
  const auto outcomes = run_cluster({.node_of = even_nodes(2, 2), .environment = kAll},
                                    [](RankContext& rank) { gather_and_reduce(rank, false); });
  CHECK(failures(outcomes) == "");
}

}  // namespace sdp4bit::test
