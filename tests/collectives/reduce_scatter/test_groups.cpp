// Groups, streams, communicators, devices and threads: however calls are issued, each gives the same bits.
#include <sandbox/cudart/extension.h>

#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "catch.h"
#include "gradient_case.h"
#include "kernels/wire_format.h"

namespace sdp4bit::test {
namespace {

const Environment kAll{{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}};

Environment with(const std::string& name, const std::string& value) {
  Environment environment = kAll;
  environment.emplace_back(name, value);
  return environment;
}

/// A call whose buffers outlive it, so that several can be under way.
class Call {
 public:
  Call(const GradientCase& gradient, int rank, int ranks)
      : gradient_(gradient),
        send_(input_of(gradient, rank, ranks)),
        receive_(gradient.count * sizeof(float)) {}
  void issue(ncclComm_t comm, cudaStream_t stream) const {
    check(ncclReduceScatter(send_.data(), receive_.data(), gradient_.count, ncclFloat32, ncclSum, comm,
                            stream));
  }
  [[nodiscard]] Bytes output() const { return receive_.read(); }

 private:
  GradientCase gradient_;
  DeviceBytes send_, receive_;
};

/// fp32 sums of odd lengths with different data.
std::vector<GradientCase> some_cases() {
  std::vector<GradientCase> cases;
  for (std::uint32_t seed = 0; seed < 5; ++seed) cases.push_back({.count = 500 + 333 * seed, .seed = seed});
  return cases;
}

void append(Bytes& to, const Bytes& bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

Bytes concatenated(const std::vector<GradientCase>& cases, const std::vector<int>& node_of, std::size_t rank,
                   std::uint64_t first_draw = 0) {
  Bytes all;
  for (const GradientCase& gradient : cases)
    append(all, expected_outputs(gradient, node_of, first_draw++)[rank]);
  return all;
}

using Issue = std::function<void(RankContext&, const std::vector<std::unique_ptr<Call>>&)>;

/// However `issue` brings them under way, the calls give what they give one by one.
void compare(const Environment& environment, const Issue& issue) {
  const std::vector<int> node_of = even_nodes(2, 2);
  const std::vector<GradientCase> cases = some_cases();
  const auto outcomes = run_cluster({.node_of = node_of, .environment = environment}, [&](RankContext& rank) {
    engage(rank);
    std::vector<std::unique_ptr<Call>> calls;
    for (const GradientCase& gradient : cases) {
      calls.push_back(std::make_unique<Call>(gradient, rank.rank, rank.ranks));
    }
    issue(rank, calls);
    check(cudaDeviceSynchronize());
    for (const auto& call : calls) append(rank.result, call->output());
    expect(calls_of("reduce_scatter").compressed == cases.size(), "all compressed");
  });
  REQUIRE(failures(outcomes) == "");
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    CHECK(outcomes[rank].result == concatenated(cases, node_of, rank));
  }
}

TEST_CASE("Groups.CallsOfAGroupGiveTheBitsOfSingleCalls") {
  const Issue grouped = [](RankContext& rank, const auto& calls) {
    check(ncclGroupStart());
    check(ncclGroupStart());
    for (const auto& call : calls) call->issue(rank.comm, rank.stream);
    check(ncclGroupEnd());
    check(ncclGroupEnd());
  };
  SECTION("in one round") {
    compare(kAll, grouped);
  }
  SECTION("in rounds, for the workspace is small") {
    compare(with("SDP4BIT_WORKSPACE", "16K"), grouped);
  }
}

TEST_CASE("Groups.AGroupMayUseSeveralStreamsOfACommunicator") {
  compare(kAll, [](RankContext& rank, const auto& calls) {
    cudaStream_t streams[2];
    for (cudaStream_t& stream : streams) check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    check(ncclGroupStart());
    for (std::size_t i = 0; i < calls.size(); ++i) calls[i]->issue(rank.comm, streams[i % 2]);
    check(ncclGroupEnd());
    for (const cudaStream_t stream : streams) check(cudaStreamSynchronize(stream));
  });
}

TEST_CASE("Groups.CallsOnAlternatingStreamsShareTheWorkspaceSafely") {
  compare(kAll, [](RankContext& rank, const auto& calls) {
    cudaStream_t streams[2];
    for (cudaStream_t& stream : streams) check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    for (std::size_t i = 0; i < calls.size(); ++i) calls[i]->issue(rank.comm, streams[i % 2]);
    for (const cudaStream_t stream : streams) check(cudaStreamSynchronize(stream));
  });
}

TEST_CASE("Groups.MayCloseEarlyAndOpenAgain") {
  compare(kAll, [](RankContext& rank, const auto& calls) {
    check(ncclGroupStart());
    for (std::size_t i = 0; i < calls.size(); ++i) {
      calls[i]->issue(rank.comm, rank.stream);
      if (i != 2) continue;
      check(ncclGroupEnd());  // a framework that creates a communicator in between does this
      check(ncclGroupStart());
    }
    check(ncclGroupEnd());
  });
}

TEST_CASE("Groups.NativeCallsPassThroughAGroupOfOurs") {
  compare(kAll, [](RankContext& rank, const auto& calls) {
    std::vector<std::int32_t> numbers(static_cast<std::size_t>(rank.ranks), rank.rank + 1);
    Bytes bytes(numbers.size() * 4);
    std::memcpy(bytes.data(), numbers.data(), bytes.size());
    const DeviceBytes send(bytes), sum(4);
    check(ncclGroupStart());
    for (const auto& call : calls) call->issue(rank.comm, rank.stream);
    check(ncclReduceScatter(send.data(), sum.data(), 1, ncclInt32, ncclSum, rank.comm, rank.stream));
    check(ncclGroupEnd());
    check(cudaStreamSynchronize(rank.stream));
    std::int32_t result = 0;
    std::memcpy(&result, sum.read().data(), 4);
    expect(result == rank.ranks * (rank.ranks + 1) / 2, "the integers' sum");
  });
}

TEST_CASE("Groups.ASimulationRunsNothingOfOurs") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kAll}, [](RankContext& rank) {
        engage(rank);
        const Call call({.count = 1000}, rank.rank, rank.ranks);
        check(ncclGroupStart());
        call.issue(rank.comm, rank.stream);
        ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
        const ncclResult_t simulated = ncclGroupSimulateEnd(&info);
        expect(calls_of("reduce_scatter").compressed == 0, "nothing compressed");
        expect(simulated == ncclSuccess || simulated == ncclInvalidUsage || simulated == ncclInternalError,
               "an answer");
        if (simulated != ncclSuccess) return;
        const Call real({.count = 1000}, rank.rank, rank.ranks);
        real.issue(rank.comm, rank.stream);
        check(cudaStreamSynchronize(rank.stream));
        rank.result = real.output();
      });
  REQUIRE(failures(outcomes) == "");
  if (outcomes[0].result.empty()) return;
  const auto expected = expected_outputs({.count = 1000}, even_nodes(2, 1), 0);
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) CHECK(outcomes[rank].result == expected[rank]);
}

TEST_CASE("Groups.AnOperatorMayBeGoneWhenItsGroupIsSimulated") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kAll}, [](RankContext& rank) {
        engage(rank);
        const DeviceBytes send(Bytes(2 * 400)), receive(400);
        float factor = 0.5f;
        ncclRedOp_t op = ncclSum;
        check(ncclGroupStart());
        check(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, rank.comm));
        check(ncclReduceScatter(send.data(), receive.data(), 100, ncclFloat32, op, rank.comm, rank.stream));
        check(ncclRedOpDestroy(op, rank.comm));  // as PyTorch does
        ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
        check(ncclGroupSimulateEnd(&info));
      });
  CHECK(failures(outcomes) == "");
}

/// One process with several devices, by one thread in groups or by a thread for each.
void run_in_one_process(bool threads) {
  constexpr int kRanks = 4;
  Environment environment = with("SDP4BIT_LOCAL_SIZE", "2");
  environment.emplace_back("SANDBOX_DEVICES", "4");
  const GradientCase gradient{.count = 777};
  const auto outcomes =
      run_cluster({.node_of = {0}, .environment = environment, .connect = false}, [&](RankContext& rank) {
        ncclComm_t comms[kRanks];
        cudaStream_t streams[kRanks];
        check(ncclCommInitAll(comms, kRanks, nullptr));
        std::vector<std::unique_ptr<Call>> calls;
        for (int device = 0; device < kRanks; ++device) {
          check(cudaSetDevice(device));
          check(cudaStreamCreateWithFlags(&streams[device], cudaStreamNonBlocking));
          calls.push_back(std::make_unique<Call>(gradient, device, kRanks));
        }
        const auto issue = [&](int device) {
          check(cudaSetDevice(device));
          calls[static_cast<std::size_t>(device)]->issue(comms[device], streams[device]);
        };
        for (int round = 0; round < 4; ++round) {
          if (threads) {
            std::vector<std::thread> workers;
            for (int device = 0; device < kRanks; ++device) workers.emplace_back(issue, device);
            for (std::thread& worker : workers) worker.join();
          } else {
            check(ncclGroupStart());
            for (int device = kRanks - 1; device >= 0; --device) issue(device);
            check(ncclGroupEnd());
          }
        }
        for (int device = 0; device < kRanks; ++device) {
          check(cudaSetDevice(device));
          check(cudaStreamSynchronize(streams[device]));
          append(rank.result, calls[static_cast<std::size_t>(device)]->output());
          check(ncclCommDestroy(comms[device]));
        }
        expect(calls_of("reduce_scatter").compressed == kRanks, "the fourth call of each");
        calls.clear();
        check(cudaSetDevice(0));
      });
  REQUIRE(failures(outcomes) == "");
  Bytes expected;
  for (const Bytes& output : expected_outputs(gradient, even_nodes(2, 2), 0)) append(expected, output);
  CHECK(outcomes[0].result == expected);
}

TEST_CASE("Groups.OneThreadDrivesSeveralDevices") {
  run_in_one_process(false);
}
TEST_CASE("Groups.AThreadForEachDevice") {
  run_in_one_process(true);
}

TEST_CASE("Groups.ANewCommunicatorWaitsForNoOtherDevice") {
  Environment environment = with("SDP4BIT_LOCAL_SIZE", "1");
  environment.emplace_back("SANDBOX_DEVICES", "2");
  environment.emplace_back("SANDBOX_NCCL_TIMEOUT", "5");
  const GradientCase gradient{.count = 100};
  const auto run = [&](RankContext&) {
    ncclComm_t all[2];
    check(ncclCommInitAll(all, 2, nullptr));
    const auto drive = [&](int device) {
      check(cudaSetDevice(device));
      cudaStream_t stream = nullptr;
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      const Call call(gradient, device, 2);
      for (int i = 0; i < 4; ++i)
        call.issue(all[device], stream);  // what its handshake used is needed no more
      ncclComm_t part = nullptr;
      check(ncclCommSplit(all[device], 0, device, &part, nullptr));
      // The other device then waits for this thread's next enqueued work.
      if (device == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
      for (int i = 0; i < 4; ++i) call.issue(part, stream);
      check(cudaStreamSynchronize(stream));
      check(ncclCommDestroy(part));
      check(ncclCommDestroy(all[device]));
    };
    std::string failure[2];
    const auto try_to_drive = [&](int device) {
      try {
        drive(device);
      } catch (const std::exception& error) {
        failure[device] = error.what();
      }
    };
    std::thread other(try_to_drive, 1);
    try_to_drive(0);
    other.join();
    expect(failure[0] + failure[1] == "", failure[0] + failure[1]);
    expect(calls_of("reduce_scatter").compressed == 4, "the fourth call of each communicator and device");
  };
  CHECK(failures(run_cluster({.node_of = {0}, .environment = environment, .connect = false}, run)) == "");
}

TEST_CASE("Groups.SeveralCommunicatorsInOneGroup") {
  const auto run = [](bool grouped) {
    const auto outcomes =
        run_cluster({.node_of = even_nodes(2, 2), .environment = kAll}, [&](RankContext& rank) {
          ncclComm_t second = nullptr;
          check(ncclCommSplit(rank.comm, 0, rank.ranks - rank.rank, &second, nullptr));
          // In opposite order on two ranks they would hang on one stream, with NCCL alone too.
          cudaStream_t second_stream = nullptr;
          check(cudaStreamCreateWithFlags(&second_stream, cudaStreamNonBlocking));
          int second_rank = 0;
          check(ncclCommUserRank(second, &second_rank));
          const Call first({.count = 1000, .seed = 1}, rank.rank, rank.ranks);
          const Call other({.count = 3000, .seed = 2}, second_rank, rank.ranks);
          for (int round = 0; round < 5; ++round) {
            if (grouped) check(ncclGroupStart());
            // Ranks may name them in any order.
            const bool swapped = grouped && rank.rank % 2 == 1;
            if (swapped) other.issue(second, second_stream);
            first.issue(rank.comm, rank.stream);
            if (!swapped) other.issue(second, second_stream);
            if (grouped) check(ncclGroupEnd());
          }
          check(cudaDeviceSynchronize());
          append(rank.result, first.output());
          append(rank.result, other.output());
          expect(calls_of("reduce_scatter").compressed == 4, "calls 4 and 5 of both");
          check(ncclCommDestroy(second));
        });
    REQUIRE(failures(outcomes) == "");
    return outcomes;
  };
  const auto grouped = run(true), single = run(false);
  for (std::size_t rank = 0; rank < grouped.size(); ++rank)
    CHECK(grouped[rank].result == single[rank].result);
}

TEST_CASE("Groups.ACallThatFailsInsideFailsTheGroupAndRunsNothingOfIt") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kAll}, [](RankContext& rank) {
        ncclComm_t broken = nullptr;
        check(ncclCommSplit(rank.comm, 0, rank.rank, &broken, nullptr));
        engage(rank);
        const Call call({.count = 100}, rank.rank, rank.ranks);
        for (int i = 0; i < 3; ++i) call.issue(broken, rank.stream);
        const DeviceBytes send(Bytes(800, std::byte{1})), untouched(Bytes(400, std::byte{7}));
        // The fourth call reads the agreement; without memory it fails, and goes on failing.
        sandboxFailAllocation(0, 1);
        expect(ncclReduceScatter(send.data(), untouched.data(), 100, ncclFloat32, ncclSum, broken,
                                 rank.stream) != ncclSuccess,
               "no memory");
        sandboxFailAllocation(0, 0);

        check(ncclGroupStart());
        check(ncclReduceScatter(send.data(), untouched.data(), 100, ncclFloat32, ncclSum, rank.comm,
                                rank.stream));
        expect(ncclReduceScatter(send.data(), untouched.data(), 100, ncclFloat32, ncclSum, broken,
                                 rank.stream) != ncclSuccess,
               "a call on the broken communicator");
        expect(ncclGroupEnd() != ncclSuccess, "the group fails with it");
        check(cudaStreamSynchronize(rank.stream));
        expect(untouched.read() == Bytes(400, std::byte{7}), "nothing of the group ran");
        expect(ncclReduceScatter(send.data(), untouched.data(), 100, ncclFloat32, ncclSum, rank.comm,
                                 rank.stream) != ncclSuccess,
               "its other communicator is out of step too");
        check(ncclGroupStart());
        check(ncclGroupEnd());
      });
  CHECK(failures(outcomes) == "");
  CHECK(outcomes[0].log.find("ncclGroupEnd: a call of this group failed before its end") !=
        std::string::npos);
}

TEST_CASE("Groups.ACommunicatorCanBeMadeAndDestroyedOverAndOver") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kAll}, [](RankContext& rank) {
        std::size_t free_at_first = 0;
        for (int life = 0; life < 6; ++life) {
          ncclComm_t comm = nullptr;
          check(ncclCommSplit(rank.comm, 0, rank.rank, &comm, nullptr));
          const Call call({.count = 100}, rank.rank, rank.ranks);
          for (int i = 0; i < 5; ++i) call.issue(comm, rank.stream);
          check(cudaStreamSynchronize(rank.stream));
          check(ncclCommDestroy(comm));
          std::size_t free = 0, total = 0;
          check(cudaMemGetInfo(&free, &total));
          if (life == 0) free_at_first = free;
          expect(free == free_at_first, "memory of a destroyed communicator is back");
        }
        expect(calls_of("reduce_scatter").compressed == 12, "the last two calls of each life");
      });
  CHECK(failures(outcomes) == "");
}

}  // namespace
}  // namespace sdp4bit::test
