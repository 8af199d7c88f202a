// Small wrong programs, each in a process of its own, and the error that names both sides.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "cluster.h"

namespace {

using cluster::Buffer;
using cluster::check;
using cluster::Outcome;
using cluster::Rank;
using cluster::Stream;

constexpr size_t kCount = 1000;

// Buffers large enough for any of the programs below.
struct Place {
  Buffer send{kCount * 32};
  Buffer receive{kCount * 32};
  Stream stream;
  Place() {
    send.fill(1);
    receive.fill(2);
  }
};

// Runs `program` on two ranks of this process; then each rank prints how it ended. Nothing may hang.
void two_ranks(const std::function<ncclResult_t(const Rank&, const Place&)>& program) {
  ncclUniqueId id;
  check(ncclGetUniqueId(&id));
  cluster::run_plain_threads(2, [&](int rank) {
    check(cudaSetDevice(rank));
    const Place place;
    ncclComm_t comm = nullptr;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.commName = "wrong";
    check(ncclCommInitRankConfig(&comm, 2, id, rank, &config));
    const ncclResult_t called = program({rank, 2, comm}, place);
    const cudaError_t stream = cudaStreamSynchronize(place.stream);
    ncclResult_t async = ncclSuccess;
    check(ncclCommGetAsyncError(comm, &async));
    std::printf("rank %d: called %d, stream %s, async %d, text %s\n", rank, called, cudaGetErrorName(stream),
                async, ncclGetLastError(comm));
    std::fflush(stdout);
    ncclCommAbort(comm);
  });
}

std::string output_of(const std::string& worker, const cluster::Environment& more = {}) {
  cluster::Environment environment = more;
  environment.try_emplace("SANDBOX_NCCL_TIMEOUT", "0.5");
  return cluster::run_processes(1, worker, environment).front().output;
}

bool contains(const std::string& whole, const std::string& part) {
  return whole.find(part) != std::string::npos;
}

// Both ranks saw the error with this text, as asynchronous error and on their streams.
void expect_error(const std::string& worker, const std::string& text, int code) {
  const std::string output = output_of(worker);
  INFO(output);
  for (const char* rank : {"rank 0: called 0, ", "rank 1: called 0, "}) {
    CHECK(contains(output, std::string(rank) + "stream cudaErrorLaunchFailure, async " +
                               std::to_string(code) + ", text " + text));
  }
  CHECK(contains(output, "sandbox nccl: " + text));
}

}  // namespace

TEST_CASE("worker: counts differ", "[.worker]") {
  two_ranks([](const Rank& self, const Place& place) {
    return ncclAllGather(place.send.data(), place.receive.data(), self.rank == 0 ? kCount : 2 * kCount,
                         ncclFloat, self.comm, place.stream);
  });
}

TEST_CASE("Collectives with different counts end in an error that names both") {
  expect_error("worker: counts differ",
               "comm wrong rank 0: AllGather(count 1000, float) met rank 1: AllGather(count 2000, float)",
               ncclInvalidUsage);
}

TEST_CASE("worker: types differ", "[.worker]") {
  two_ranks([](const Rank& self, const Place& place) {
    return ncclAllGather(place.send.data(), place.receive.data(), kCount,
                         self.rank == 0 ? ncclFloat : ncclInt32, self.comm, place.stream);
  });
}

TEST_CASE("Collectives with different types end in an error that names both") {
  expect_error("worker: types differ",
               "comm wrong rank 0: AllGather(count 1000, float) met rank 1: AllGather(count 1000, int32)",
               ncclInvalidUsage);
}

TEST_CASE("worker: operations differ", "[.worker]") {
  two_ranks([](const Rank& self, const Place& place) {
    return ncclAllReduce(place.send.data(), place.receive.data(), kCount, ncclFloat,
                         self.rank == 0 ? ncclSum : ncclMax, self.comm, place.stream);
  });
}

TEST_CASE("Reductions with different operations end in an error that names both") {
  expect_error(
      "worker: operations differ",
      "comm wrong rank 0: AllReduce(count 1000, float, sum) met rank 1: AllReduce(count 1000, float, max)",
      ncclInvalidUsage);
}

TEST_CASE("worker: roots differ", "[.worker]") {
  two_ranks([](const Rank& self, const Place& place) {
    return ncclBroadcast(place.send.data(), place.receive.data(), kCount, ncclFloat, self.rank, self.comm,
                         place.stream);
  });
}

TEST_CASE("Rooted collectives with different roots end in an error that names both") {
  expect_error("worker: roots differ",
               "comm wrong rank 0: Broadcast(count 1000, float, root 0) met rank 1: Broadcast(count 1000, "
               "float, root 1)",
               ncclInvalidUsage);
}

TEST_CASE("worker: order differs", "[.worker]") {
  two_ranks([](const Rank& self, const Place& place) {
    for (int call = 0; call < 2; ++call) {
      if (call == self.rank) {
        check(ncclAllGather(place.send.data(), place.receive.data(), kCount, ncclFloat, self.comm,
                            place.stream));
      } else {
        check(ncclReduceScatter(place.send.data(), place.receive.data(), kCount, ncclFloat, ncclSum,
                                self.comm, place.stream));
      }
    }
    return ncclSuccess;
  });
}

TEST_CASE("Collectives in opposite order end in an error that names both") {
  expect_error(
      "worker: order differs",
      "comm wrong rank 0: AllGather(count 1000, float) met rank 1: ReduceScatter(count 1000, float, sum)",
      ncclInvalidUsage);
}

TEST_CASE("worker: groups differ", "[.worker]") {
  two_ranks([](const Rank& self, const Place& place) {
    if (self.rank == 0) check(ncclGroupStart());
    for (int call = 0; call < 2; ++call) {
      check(
          ncclAllGather(place.send.data(), place.receive.data(), kCount, ncclFloat, self.comm, place.stream));
    }
    return self.rank == 0 ? ncclGroupEnd() : ncclSuccess;
  });
}

TEST_CASE("Group boundaries that differ between ranks end in an error that names both") {
  const std::string output = output_of("worker: groups differ");
  INFO(output);
  CHECK(contains(output,
                 "of 2 in its group met rank 1: AllGather(count 1000, float) as number 1 of 1 in its group"));
  const std::string relaxed = output_of("worker: groups differ", {{"SANDBOX_NCCL_STRICT", "0"}});
  INFO(relaxed);
  CHECK(contains(relaxed, "rank 0: called 0, stream cudaSuccess, async 0"));
  CHECK(contains(relaxed, "rank 1: called 0, stream cudaSuccess, async 0"));
}

TEST_CASE("worker: message sizes differ", "[.worker]") {
  two_ranks([](const Rank& self, const Place& place) {
    if (self.rank == 0) return ncclSend(place.send.data(), kCount, ncclFloat, 1, self.comm, place.stream);
    return ncclRecv(place.receive.data(), 2 * kCount, ncclFloat, 0, self.comm, place.stream);
  });
}

TEST_CASE("A send and a receive of different size end in an error that names both") {
  expect_error(
      "worker: message sizes differ",
      "comm wrong rank 0: Send(count 1000, float) to rank 1 met rank 1: Recv(count 2000, float) from rank 0",
      ncclInvalidUsage);
}

TEST_CASE("worker: message types differ", "[.worker]") {
  two_ranks([](const Rank& self, const Place& place) {
    if (self.rank == 0) return ncclSend(place.send.data(), kCount, ncclFloat, 1, self.comm, place.stream);
    return ncclRecv(place.receive.data(), 4 * kCount, ncclInt8, 0, self.comm, place.stream);
  });
}

TEST_CASE("A send matches a receive of equal bytes") {
  const std::string output = output_of("worker: message types differ");
  INFO(output);
  CHECK(contains(output, "rank 0: called 0, stream cudaSuccess, async 0"));
  CHECK(contains(output, "rank 1: called 0, stream cudaSuccess, async 0"));
}

TEST_CASE("worker: cold sends", "[.worker]") {
  two_ranks([](const Rank& self, const Place& place) {
    const ncclResult_t sent =
        ncclSend(place.send.data(), kCount, ncclFloat, 1 - self.rank, self.comm, place.stream);
    if (sent != ncclSuccess) return sent;
    return ncclRecv(place.receive.data(), kCount, ncclFloat, 1 - self.rank, self.comm, place.stream);
  });
}

TEST_CASE("Cold ungrouped sends on both sides end in an error in the call") {
  const std::string output = output_of("worker: cold sends");
  INFO(output);
  CHECK(contains(output, "rank 0: called 6, "));
  CHECK(contains(output, "rank 1: called 6, "));
  CHECK(contains(output, "Send(count 1000, float) to rank "));
  CHECK(contains(output, "which waits in the first use of Send(count 1000, float) to rank "));
}

TEST_CASE("worker: call never met", "[.worker]") {
  two_ranks([](const Rank& self, const Place& place) {
    check(ncclAllGather(place.send.data(), place.receive.data(), kCount, ncclFloat, self.comm, place.stream));
    if (self.rank == 1) return ncclSuccess;
    return ncclAllReduce(place.send.data(), place.receive.data(), kCount, ncclFloat, ncclSum, self.comm,
                         place.stream);
  });
}

TEST_CASE("A call that the peer never makes ends in an error that says what the peer did last") {
  const std::string output = output_of("worker: call never met");
  INFO(output);
  CHECK(contains(output,
                 "rank 0: called 0, stream cudaErrorLaunchFailure, async 6, text comm wrong rank 0: "
                 "AllReduce(count 1000, "
                 "float, sum) was never met by rank 1, which"));
  CHECK((contains(output, "which issued nothing after AllGather(count 1000, float)") ||
         contains(output, "which aborted")));
}

TEST_CASE("worker: order within a group", "[.worker]") {
  cluster::run_threads(2, [](const Rank& self) {
    const Place place;
    const Buffer result(kCount);
    // The second call reads what the first one writes: real NCCL promises no order within a group.
    check(ncclGroupStart());
    check(
        ncclBroadcast(place.send.data(), place.receive.data(), kCount, ncclInt8, 0, self.comm, place.stream));
    check(ncclBroadcast(place.receive.data(), result.data(), kCount, ncclInt8, 0, self.comm, place.stream));
    check(ncclGroupEnd());
    place.stream.wait();
    if (self.rank == 0) std::printf("result %d\n", result.values<int8_t>().front());
  });
}

TEST_CASE("Collectives of a group run in another order than issued") {
  CHECK(contains(output_of("worker: order within a group"), "result 2"));
  CHECK(contains(output_of("worker: order within a group", {{"SANDBOX_NCCL_STRICT", "0"}}), "result 1"));
}

TEST_CASE("worker: buffer too small", "[.worker]") {
  two_ranks([](const Rank& self, const Place& place) {
    return ncclAllGather(place.send.data(), place.receive.data(), kCount * 8, ncclFloat, self.comm,
                         place.stream);
  });
}

TEST_CASE("A buffer that is too small ends in an error on all ranks") {
  const std::string output = output_of("worker: buffer too small");
  INFO(output);
  CHECK(contains(output, "AllGather(count 8000, float) may not use its receive buffer"));
  CHECK(contains(output, "rank 0: called 0, stream cudaError"));
  CHECK(contains(output, "rank 1: called 0, stream cudaError"));
}

TEST_CASE("worker: one captures", "[.worker]") {
  two_ranks([](const Rank& self, const Place& place) {
    check(ncclAllGather(place.send.data(), place.receive.data(), kCount, ncclFloat, self.comm, place.stream));
    place.stream.wait();
    if (self.rank == 1) {
      return ncclAllGather(place.send.data(), place.receive.data(), kCount, ncclFloat, self.comm,
                           place.stream);
    }
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    check(cudaStreamBeginCapture(place.stream, cudaStreamCaptureModeThreadLocal));
    check(ncclAllGather(place.send.data(), place.receive.data(), kCount, ncclFloat, self.comm, place.stream));
    check(cudaStreamEndCapture(place.stream, &graph));
    check(cudaGraphInstantiate(&executable, graph, 0));
    check(cudaGraphLaunch(executable, place.stream));
    return ncclSuccess;
  });
}

TEST_CASE("A captured call that meets an eager one ends in an error that names both") {
  expect_error(
      "worker: one captures",
      "comm wrong rank 0: AllGather(count 1000, float) as number 1 of 1 in its group, captured met rank 1: "
      "AllGather(count 1000, float) as number 1 of 1 in its group",
      ncclInvalidUsage);
}

TEST_CASE("worker: processes disagree", "[.worker]") {
  const Rank self = cluster::join_as_worker();
  const Place place;
  const bool dies = std::getenv("TEST_DIES") != nullptr;
  const size_t count = !dies && self.rank == 1 ? 2 * kCount : kCount;
  check(ncclAllGather(place.send.data(), place.receive.data(), count, ncclFloat, self.comm, place.stream));
  const cudaError_t first = cudaStreamSynchronize(place.stream);
  if (dies && self.rank == 1) _exit(3);
  if (dies)
    check(ncclAllGather(place.send.data(), place.receive.data(), count, ncclFloat, self.comm, place.stream));
  const cudaError_t stream = dies ? cudaStreamSynchronize(place.stream) : first;
  std::printf("stream %s, text %s\n", cudaGetErrorName(stream), ncclGetLastError(self.comm));
  std::fflush(stdout);
  ncclCommAbort(self.comm);
}

TEST_CASE("Processes that disagree both hear of it") {
  for (const Outcome& outcome :
       cluster::run_processes(2, "worker: processes disagree", {{"SANDBOX_NCCL_TIMEOUT", "3"}})) {
    INFO(outcome.output);
    CHECK(contains(outcome.output, "stream cudaErrorLaunchFailure"));
    CHECK(contains(outcome.output,
                   "rank 0: AllGather(count 1000, float) met rank 1: AllGather(count 2000, float)"));
  }
}

TEST_CASE("A process that ends is noticed long before the timeout") {
  const auto outcomes = cluster::run_processes(2, "worker: processes disagree",
                                               {{"SANDBOX_NCCL_TIMEOUT", "100"}, {"TEST_DIES", "1"}});
  INFO(outcomes[0].output);
  CHECK(outcomes[1].status == 3);
  CHECK(contains(outcomes[0].output, "stream cudaErrorLaunchFailure"));
  CHECK(contains(outcomes[0].output,
                 "rank 0: AllGather(count 1000, float) was never met by rank 1, whose process ended"));
}
