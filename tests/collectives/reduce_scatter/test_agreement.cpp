// Ranks agree before anything is compressed: one "no" or one difference leaves the communicator to NCCL on
// every rank.
#include <sandbox/cudart/extension.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>

#include "catch.h"
#include "gradient_case.h"

namespace sdp4bit::test {
namespace {

const Environment kAll{{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}};

Environment with(Environment environment, const std::string& name, const std::string& value) {
  environment.emplace_back(name, value);
  return environment;
}

std::size_t occurrences(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

ncclResult_t native_reduce_scatter(RankContext& rank, const DeviceBytes& send, const DeviceBytes& receive,
                                   std::size_t count) {
  return pncclReduceScatter(send.data(), receive.data(), count, ncclFloat32, ncclSum, rank.comm, rank.stream);
}

/// Six calls that give what NCCL gives, bit for bit, none of them compressed.
void expect_native(RankContext& rank) {
  const GradientCase gradient{.count = 1000};
  const DeviceBytes send(input_of(gradient, rank.rank, rank.ranks)), ours(4000), theirs(4000);
  for (int i = 0; i < 6; ++i) {
    check(ncclReduceScatter(send.data(), ours.data(), 1000, ncclFloat32, ncclSum, rank.comm, rank.stream));
    check(native_reduce_scatter(rank, send, theirs, 1000));
    check(cudaStreamSynchronize(rank.stream));
    expect(ours.read() == theirs.read(), "differs from NCCL");
  }
  expect(calls_of("reduce_scatter").all == 6, "six calls");
  expect(calls_of("reduce_scatter").compressed == 0, "none compressed");
}

TEST_CASE("Agreement.AVariableThatDiffersOnOneRankIsNamedOnEveryRank") {
  const auto other = [](int rank) {
    return rank == 2 ? Environment{{"SDP4BIT_GRAD_GROUP", "32"}} : Environment{{"SDP4BIT_GRAD_GROUP", "256"}};
  };
  const auto outcomes = run_cluster(
      {.node_of = even_nodes(2, 2), .environment = kAll, .environment_of_rank = other}, expect_native);
  REQUIRE(failures(outcomes) == "");
  for (const Outcome& outcome : outcomes) {
    CHECK(occurrences(outcome.log, "SDP4BIT_GRAD_GROUP is \"256\" on rank 0 and \"32\" on rank 2") == 1);
  }
}

TEST_CASE("Agreement.EnableOnOneRankOnlyIsADifferenceToo") {
  const auto other = [](int rank) {
    return rank == 0 ? Environment{{"SDP4BIT_ENABLE", "0"}} : Environment{};
  };
  const auto outcomes = run_cluster(
      {.node_of = even_nodes(2, 1), .environment = kAll, .environment_of_rank = other}, expect_native);
  REQUIRE(failures(outcomes) == "");
  for (const Outcome& outcome : outcomes) {
    CHECK(occurrences(outcome.log, "SDP4BIT_ENABLE is \"0\" on rank 0 and \"1\" on rank 1") == 1);
  }
}

TEST_CASE("Agreement.VariablesThatShapeNothingMayDiffer") {
  const auto other = [](int rank) {
    return rank == 0 ? Environment{{"SDP4BIT_LOG", "error"}} : Environment{};
  };
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kAll, .environment_of_rank = other},
                  [](RankContext& rank) {
                    engage(rank);
                    (void)run_gradient(rank, {.count = 128});
                    expect(calls_of("reduce_scatter").compressed == 1, "compressed");
                  });
  REQUIRE(failures(outcomes) == "");
  CHECK(outcomes[0].log == "");
  CHECK(occurrences(outcomes[1].log, "works") == 1);
}

TEST_CASE("Agreement.APresetIsWhatItStandsFor") {
  const auto spelled = [](int rank) {
    return rank == 1 ? Environment{{"SDP4BIT_CODEC_INTER", "int4-sr"}, {"SDP4BIT_CODEC_INTRA", "int8-sr"},
                                   {"SDP4BIT_GRAD_GROUP", "128"},      {"SDP4BIT_SCALE", "fp32"},
                                   {"SDP4BIT_CODEC_WEIGHT", "int4"},   {"SDP4BIT_WEIGHT_GROUP", "2048"}}
                     : Environment{{"SDP4BIT_PRESET", "paper"}};
  };
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kAll, .environment_of_rank = spelled},
                  [](RankContext& rank) {
                    engage(rank);
                    (void)run_gradient(rank, {.count = 128});
                    expect(calls_of("reduce_scatter").compressed == 1, "compressed");
                  });
  REQUIRE(failures(outcomes) == "");
  CHECK(occurrences(outcomes[0].log,
                    "; preset paper: int4-sr, groups of 128; int4, groups of 2048; fp32 scales") == 1);
  CHECK(occurrences(outcomes[1].log, "; preset default, changed: int4-sr, groups of 128; int4,") == 1);
}

TEST_CASE("Agreement.APresetOnOneRankOnlyIsADifferenceOfItsValues") {
  const auto other = [](int rank) {
    return rank == 0 ? Environment{{"SDP4BIT_PRESET", "paper"}} : Environment{};
  };
  const auto outcomes = run_cluster(
      {.node_of = even_nodes(2, 1), .environment = kAll, .environment_of_rank = other}, expect_native);
  REQUIRE(failures(outcomes) == "");
  for (const Outcome& outcome : outcomes) {
    CHECK(occurrences(outcome.log,
                      "SDP4BIT_CODEC_INTER is \"int4-sr\" on rank 0 and \"dither4\" on rank 1") == 1);
  }
}

TEST_CASE("Agreement.AWorkspaceThatOneRankCannotAllocateIsSaidOnce") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 2), .environment = kAll}, [](RankContext& rank) {
        const GradientCase gradient{.count = 1000};
        const DeviceBytes send(input_of(gradient, rank.rank, rank.ranks)), ours(4000), theirs(4000);
        if (rank.rank == 1) sandboxFailAllocation(0, 1);
        for (int i = 0; i < 6; ++i) {
          check(ncclReduceScatter(send.data(), ours.data(), 1000, ncclFloat32, ncclSum, rank.comm,
                                  rank.stream));
          check(native_reduce_scatter(rank, send, theirs, 1000));
          check(cudaStreamSynchronize(rank.stream));
          expect(ours.read() == theirs.read(), "differs from NCCL");
        }
        expect(calls_of("reduce_scatter").compressed == 0, "none compressed");
      });
  REQUIRE(failures(outcomes) == "");
  for (const Outcome& outcome : outcomes) {
    CHECK(occurrences(outcome.log, "rank 1 could not allocate its workspace of 64M bytes") == 1);
  }
}

TEST_CASE("Agreement.AWorkspaceThatHoldsNoChunkIsSaidOnce") {
  Environment environment = kAll;
  environment.emplace_back("SDP4BIT_WORKSPACE", "4K");
  environment.emplace_back("SDP4BIT_GRAD_GROUP", "8192");
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 2), .environment = environment}, [](RankContext& rank) {
        const GradientCase gradient{.count = 1000};
        for (int i = 0; i < 6; ++i) (void)run_gradient(rank, gradient);
        expect(calls_of("reduce_scatter").compressed == 0, "none compressed");
      });
  REQUIRE(failures(outcomes) == "");
  for (const Outcome& outcome : outcomes) {
    CHECK(occurrences(outcome.log, "is too small for a ReduceScatter") == 1);
  }
}

TEST_CASE("Agreement.DisabledIsBitIdenticalAndSilent") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 2), .environment = {{"SDP4BIT_ENABLE", "0"}}}, expect_native);
  REQUIRE(failures(outcomes) == "");
  for (const Outcome& outcome : outcomes) CHECK(outcome.log == "");
}

TEST_CASE("Agreement.AbortTurnsADifferenceIntoAnError") {
  const auto other = [](int rank) { return rank == 1 ? Environment{{"SDP4BIT_SEED", "2"}} : Environment{}; };
  const auto outcomes = run_cluster({.node_of = even_nodes(2, 1),
                                     .environment = with(kAll, "SDP4BIT_ON_MISMATCH", "abort"),
                                     .environment_of_rank = other},
                                    [](RankContext& rank) {
                                      engage(rank);
                                      const DeviceBytes send(8), receive(4);
                                      const ncclResult_t result =
                                          ncclReduceScatter(send.data(), receive.data(), 1, ncclFloat32,
                                                            ncclSum, rank.comm, rank.stream);
                                      expect(result == ncclInvalidUsage, "an error");
                                    });
  REQUIRE(failures(outcomes) == "");
  for (const Outcome& outcome : outcomes) {
    CHECK(occurrences(outcome.log, "SDP4BIT_SEED is \"1\" on rank 0 and \"2\" on rank 1") == 1);
  }
}

TEST_CASE("Agreement.ACommunicatorThatDoesNotBlockStaysWithNccl") {
  const auto outcomes = run_cluster(
      {.node_of = even_nodes(2, 1), .environment = kAll, .connect = false}, [](RankContext& rank) {
        const auto settle = [&] {
          ncclResult_t state = ncclInProgress;
          while (state == ncclInProgress) check(ncclCommGetAsyncError(rank.comm, &state));
          check(state);
        };
        const auto started = [](ncclResult_t result) {
          expect(result == ncclSuccess || result == ncclInProgress, "started");
        };
        ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
        config.blocking = 0;
        started(ncclCommInitRankConfig(&rank.comm, rank.ranks, rank.id, rank.rank, &config));
        settle();
        const DeviceBytes send(Bytes(8000)), receive(4000);
        for (int i = 0; i < 6; ++i) {
          started(ncclReduceScatter(send.data(), receive.data(), 1000, ncclFloat32, ncclSum, rank.comm,
                                    rank.stream));
          settle();
        }
        check(cudaStreamSynchronize(rank.stream));
        expect(calls_of("reduce_scatter").compressed == 0, "none compressed");
        check(ncclCommAbort(rank.comm));
        rank.comm = nullptr;
      });
  REQUIRE(failures(outcomes) == "");
  for (const Outcome& outcome : outcomes) CHECK(occurrences(outcome.log, "blocking=0") == 1);
}

TEST_CASE("Agreement.AutoTakesTheJobsCommunicatorAndNoOther") {
  const auto count_compressed = [](const std::string& world_size, int nodes, int local) {
    const auto outcomes =
        run_cluster({.node_of = even_nodes(nodes, local),
                     .environment = {{"SDP4BIT_MIN_BYTES", "0"}, {"WORLD_SIZE", world_size}},
                     .environment_of_rank =
                         [](int rank) {
                           return Environment{{"RANK", std::to_string(rank)}};
                         }},
                    [](RankContext& rank) {
                      engage(rank);
                      (void)run_gradient(rank, {.count = 100});
                      rank.result = Bytes(calls_of("reduce_scatter").compressed);
                    });
    REQUIRE(failures(outcomes) == "");
    for (const Outcome& outcome : outcomes) CHECK(outcome.result.size() == outcomes[0].result.size());
    return outcomes[0].result.size();
  };
  CHECK(count_compressed("2", 2, 1) == 1);
  CHECK(count_compressed("4", 2, 1) == 0);
  CHECK(count_compressed("2", 1, 2) == 0);
}

TEST_CASE("Agreement.FirstCallsStayNativeOnRequest") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = with(kAll, "SDP4BIT_START_CALL", "5")},
                  [](RankContext& rank) {
                    engage(rank);
                    for (int i = 0; i < 4; ++i) (void)run_gradient(rank, {.count = 100});
                    expect(calls_of("reduce_scatter").compressed == 2, "calls 5 and 6");
                  });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("Agreement.AWaitThatLastsIsNamedByTheWatchdog") {
  const auto outcomes = run_cluster(
      {.node_of = even_nodes(2, 1), .environment = with(kAll, "SDP4BIT_WATCHDOG", "1")},
      [](RankContext& rank) {
        const DeviceBytes send(Bytes(4000)), receive(2000);
        // Connects, so that NCCL itself waits for nobody later.
        check(ncclAllReduce(send.data(), send.data(), 500, ncclFloat32, ncclSum, rank.comm, rank.stream));
        check(cudaStreamSynchronize(rank.stream));
        if (rank.rank == 1) std::this_thread::sleep_for(std::chrono::seconds(4));
        for (int i = 0; i < 4; ++i) {  // the fourth reads what rank 1 has not said yet
          check(ncclReduceScatter(send.data(), receive.data(), 500, ncclFloat32, ncclSum, rank.comm,
                                  rank.stream));
        }
        check(cudaStreamSynchronize(rank.stream));
      });
  REQUIRE(failures(outcomes) == "");
  CHECK(occurrences(outcomes[0].log, "waiting for") == 1);
  CHECK(occurrences(outcomes[0].log, "every rank needs LD_PRELOAD") == 1);
  CHECK(occurrences(outcomes[1].log, "waiting for") == 0);
}

TEST_CASE("Agreement.AnAbortEndsAWaitForAPeerThatNeverComes") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kAll}, [](RankContext& rank) {
        const DeviceBytes send(Bytes(4000)), receive(2000);
        // Connects, so that the wait is the library's own.
        check(ncclAllReduce(send.data(), send.data(), 500, ncclFloat32, ncclSum, rank.comm, rank.stream));
        check(cudaStreamSynchronize(rank.stream));
        if (rank.rank == 0) {
          ncclResult_t last = ncclSuccess;
          std::thread caller([&] {
            check(cudaSetDevice(0));
            for (int i = 0; i < 4; ++i) {
              last = ncclReduceScatter(send.data(), receive.data(), 500, ncclFloat32, ncclSum, rank.comm,
                                       rank.stream);
            }
          });
          std::this_thread::sleep_for(std::chrono::seconds(1));
          const auto start = std::chrono::steady_clock::now();
          check(ncclCommAbort(rank.comm));
          caller.join();
          // The peer's own abort, which would end the wait too, is later.
          expect(std::chrono::steady_clock::now() - start < std::chrono::seconds(3), "soon");
          expect(last != ncclSuccess, "the waiting call says that it failed");
        } else {
          std::this_thread::sleep_for(std::chrono::seconds(6));
          check(ncclCommAbort(rank.comm));
        }
        rank.comm = nullptr;
      });
  CHECK(failures(outcomes) == "");
}

TEST_CASE("Agreement.AKilledRankEndsTheOthersInAnError") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 2), .environment = kAll}, [](RankContext& rank) {
        const DeviceBytes send(Bytes(16000)), receive(4000);
        for (int i = 0; i < 40; ++i) {
          if (rank.rank == 3 && i == 20) std::raise(SIGKILL);
          check(ncclReduceScatter(send.data(), receive.data(), 1000, ncclFloat32, ncclSum, rank.comm,
                                  rank.stream));
          check(cudaStreamSynchronize(rank.stream));
        }
      });
  CHECK(outcomes[3].failure == "ended by signal 9");
  for (std::size_t rank = 0; rank < 3; ++rank) {
    CAPTURE(rank, outcomes[rank].failure);
    CHECK(outcomes[rank].failure != "");
    CHECK(outcomes[rank].failure.find("did not end in time") == std::string::npos);
  }
}

TEST_CASE("Agreement.ARankThatFailsToEngageGoesOnFailing") {
  for (const std::uint64_t allocation : {1, 2, 3}) {
    const auto outcomes =
        run_cluster({.node_of = even_nodes(2, 2), .environment = kAll}, [allocation](RankContext& rank) {
          const DeviceBytes send(Bytes(16000)), receive(16000);
          int failed = 0;
          for (int i = 0; i < 8; ++i) {
            // Three calls are native; the fourth reads the agreement and allocates what it needs.
            if (rank.rank == 1 && i == 3) sandboxFailAllocation(0, allocation);
            const bool gathers = i > 5;
            const ncclResult_t result =
                gathers
                    ? ncclAllGather(send.data(), receive.data(), 1000, ncclFloat32, rank.comm, rank.stream)
                    : ncclReduceScatter(send.data(), receive.data(), 1000, ncclFloat32, ncclSum, rank.comm,
                                        rank.stream);
            if (rank.rank == 1) {
              expect(failed == 0 || result != ncclSuccess, "a call went on after one had failed");
            } else if (result != ncclSuccess) {
              return;  // its peer is gone
            }
            failed += result != ncclSuccess;
          }
          sandboxFailAllocation(0, 0);
          if (rank.rank == 1 && allocation == 1)
            expect(failed == 5, "the fourth call and all later ones fail");
        });
    CAPTURE(allocation, outcomes[1].log);
    CHECK(outcomes[1].failure == "");
    for (const Outcome& outcome : outcomes) {
      CHECK(outcome.failure.find("did not end in time") == std::string::npos);
      CHECK(outcome.failure.find("signal") == std::string::npos);
    }
  }
}

TEST_CASE("Agreement.ZeroCountsTriggerNothing") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kAll}, [](RankContext& rank) {
        for (int i = 0; i < 8; ++i) {
          check(ncclReduceScatter(nullptr, nullptr, 0, ncclFloat32, ncclSum, rank.comm, rank.stream));
        }
        check(cudaStreamSynchronize(rank.stream));
        engage(rank);
        expect(calls_of("reduce_scatter").compressed == 0, "the handshake began with the first real call");
        (void)run_gradient(rank, {.count = 100});
        expect(calls_of("reduce_scatter").compressed == 1, "and was read three calls later");
      });
  CHECK(failures(outcomes) == "");
}

}  // namespace
}  // namespace sdp4bit::test
