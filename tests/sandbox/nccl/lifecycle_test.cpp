// Creation, splitting, shrinking, ending and aborting of communicators; non-blocking mode; refused arguments.
#include <dirent.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <future>
#include <thread>

#include "cluster.h"
#include "sandbox/nccl/newer.h"

namespace {

using cluster::Buffer;
using cluster::check;
using cluster::Rank;
using cluster::Stream;
using Clock = std::chrono::steady_clock;

void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

// A sum over the communicator proves that its ranks are connected.
void expect_sum(ncclComm_t comm, int mine, int expected) {
  const Stream stream;
  const Buffer data = Buffer::of(std::vector<int>(10, mine));
  check(ncclAllReduce(data.data(), data.data(), 10, ncclInt32, ncclSum, comm, stream));
  stream.wait();
  expect(data.values<int>() == std::vector<int>(10, expected), "the sum over the communicator");
}

size_t open_descriptors() {
  size_t count = 0;
  DIR* const directory = opendir("/proc/self/fd");
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

// Polls as PyTorch does.
ncclResult_t finish(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    check(ncclCommGetAsyncError(comm, &state));
    std::this_thread::yield();
  }
  return state;
}

void finish_call(ncclResult_t result, ncclComm_t comm) {
  if (result == ncclInProgress) result = finish(comm);
  check(result);
}

}  // namespace

TEST_CASE("A split orders ranks by key and gives nothing to those without color") {
  cluster::run_threads(4, [](const Rank& self) {
    ncclComm_t child = nullptr;
    check(ncclCommSplit(self.comm, self.rank % 2, -self.rank, &child, nullptr));
    int rank = -1;
    int count = -1;
    check(ncclCommUserRank(child, &rank));
    check(ncclCommCount(child, &count));
    expect(rank == (self.rank < 2 ? 1 : 0) && count == 2, "place in the child");
    expect_sum(child, self.rank, self.rank % 2 == 0 ? 2 : 4);
    check(ncclCommDestroy(child));
    check(ncclCommSplit(self.comm, self.rank == 3 ? NCCL_SPLIT_NOCOLOR : 7, 0, &child, nullptr));
    expect((child == nullptr) == (self.rank == 3), "no color, no communicator");
    if (child != nullptr) expect_sum(child, 1, 3);
    check(ncclCommDestroy(child));
    expect_sum(self.comm, 1, 4);
  });
}

TEST_CASE("A shrink leaves the rest of the ranks a communicator") {
  cluster::run_threads(4, [](const Rank& self) {
    if (self.rank == 1) return;
    int excluded = 1;
    ncclComm_t child = nullptr;
    check(ncclCommShrink(self.comm, &excluded, 1, &child, nullptr, NCCL_SHRINK_DEFAULT));
    int rank = -1;
    check(ncclCommUserRank(child, &rank));
    expect(rank == (self.rank == 0 ? 0 : self.rank - 1), "place in the child");
    expect_sum(child, 1, 3);
    check(ncclCommDestroy(child));
  });
}

TEST_CASE("A communicator grows by ranks that join with an id of one of its own") {
  ncclUniqueId first, second;
  check(ncclGetUniqueId(&first));
  std::promise<void> made;
  std::shared_future<void> id_is_there = made.get_future().share();
  cluster::run_plain_threads(4, [&](int rank) {
    check(cudaSetDevice(rank));
    ncclComm_t parent = nullptr, grown = nullptr;
    const bool is_old = rank < 2;
    if (is_old) {
      check(ncclCommInitRank(&parent, 2, first, rank));
      expect(ncclCommGrow(parent, 2, nullptr, -1, &grown, nullptr) == ncclInvalidArgument, "no more ranks");
      expect(ncclCommGrow(parent, 4, nullptr, rank, &grown, nullptr) == ncclInvalidArgument,
             "old ranks keep");
    } else {
      expect(ncclCommGrow(nullptr, 4, nullptr, rank, &grown, nullptr) == ncclInvalidArgument, "no id");
    }
    if (rank == 1) {
      check(ncclCommGetUniqueId(parent, &second));
      ncclUniqueId third;
      expect(ncclCommGetUniqueId(parent, &third) == ncclInvalidUsage, "one id at a time");
      made.set_value();
    }
    id_is_there.wait();
    check(ncclCommGrow(parent, 4, rank == 0 ? nullptr : &second, is_old ? -1 : rank, &grown, nullptr));
    int place = -1, count = -1;
    check(ncclCommUserRank(grown, &place));
    check(ncclCommCount(grown, &count));
    expect(place == rank && count == 4, "place in the grown communicator");
    expect_sum(grown, 1, 4);
    check(ncclCommDestroy(grown));
    if (is_old) expect_sum(parent, 1, 2);
    if (rank == 1) {
      expect(ncclCommGrow(parent, 3, &second, -1, &grown, nullptr) == ncclInvalidUsage, "an id serves once");
    }
    if (is_old) check(ncclCommDestroy(parent));
  });
}

TEST_CASE("One thread creates several ranks in a group") {
  ncclUniqueId id;
  check(ncclGetUniqueId(&id));
  ncclComm_t comms[3];
  check(ncclGroupStart());
  for (int rank = 0; rank < 3; ++rank) {
    check(cudaSetDevice(rank));
    check(ncclCommInitRank(&comms[rank], 3, id, rank));
  }
  check(ncclGroupEnd());
  ncclComm_t children[3];
  check(ncclGroupStart());
  for (int rank = 0; rank < 3; ++rank) check(ncclCommSplit(comms[rank], 0, rank, &children[rank], nullptr));
  check(ncclGroupEnd());
  for (int rank = 0; rank < 3; ++rank) {
    check(ncclCommDestroy(children[rank]));
    check(ncclCommFinalize(comms[rank]));
    CHECK(ncclAllReduce(&id, &id, 1, ncclInt8, ncclSum, comms[rank], nullptr) == ncclInvalidUsage);
    check(ncclCommDestroy(comms[rank]));
  }
  check(cudaSetDevice(0));
}

TEST_CASE("Creating and destroying many communicators leaks nothing") {
  const auto cycle = [] { cluster::run_threads(2, [](const Rank& self) { expect_sum(self.comm, 1, 2); }); };
  cycle();
  const size_t before = open_descriptors();
  for (int round = 0; round < 50; ++round) cycle();
  CHECK(open_descriptors() == before);
}

TEST_CASE("Abort ends a stuck operation within milliseconds and leaves the device usable") {
  cluster::run_threads(2, [](const Rank& self) {
    expect_sum(self.comm, 1, 2);
    ncclComm_t stuck = nullptr;
    check(ncclCommSplit(self.comm, 0, 0, &stuck, nullptr));
    expect_sum(stuck, 1, 2);
    if (self.rank == 0) {
      const Stream stream;
      const Buffer data = Buffer::of(std::vector<float>(1000, 1));
      check(ncclAllReduce(data.data(), data.data(), 1000, ncclFloat, ncclSum, stuck, stream));
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      expect(cudaStreamQuery(stream) == cudaErrorNotReady, "stuck");
      const auto before = Clock::now();
      check(ncclCommAbort(stuck));
      stream.wait();
      expect(Clock::now() - before < std::chrono::milliseconds(100), "the abort took long");
    } else {
      check(ncclCommAbort(stuck));
    }
    expect_sum(self.comm, 1, 2);
  });
}

TEST_CASE("A call that an abort overtakes is no error of the peer's device") {
  std::atomic<bool> overtaken{false};
  cluster::run_threads(2, [&](const Rank& self) {
    ncclComm_t child = nullptr;
    check(ncclCommSplit(self.comm, 0, 0, &child, nullptr));
    expect_sum(child, 1, 2);
    const Stream stream;
    const Buffer data = Buffer::of(std::vector<float>(1000, 1));
    const auto reduce = [&] {
      check(ncclAllReduce(data.data(), data.data(), 1000, ncclFloat, ncclSum, child, stream));
    };
    if (self.rank == 0) {
      reduce();
      while (!overtaken.load()) std::this_thread::yield();
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      expect(cudaStreamQuery(stream) == cudaErrorNotReady, "it waits for its own abort");
      check(ncclCommAbort(child));
      stream.wait();
    } else {
      check(ncclGroupStart());
      reduce();
      std::thread([&] { ncclCommAbort(child); }).join();
      expect(ncclGroupEnd() != ncclSuccess, "the call is gone with its communicator");
      overtaken.store(true);
    }
    expect_sum(self.comm, 1, 2);
  });
}

TEST_CASE("Abort from another thread ends a wait in the call") {
  ncclComm_t comms[2];
  check(ncclCommInitAll(comms, 2, nullptr));
  check(cudaSetDevice(0));
  std::thread aborter([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ncclCommAbort(comms[0]);
  });
  const Buffer data = Buffer::of(std::vector<int>(1, 1));
  const ncclResult_t result = ncclSend(data.data(), 1, ncclInt32, 1, comms[0], nullptr);
  aborter.join();
  CHECK(result != ncclSuccess);
  check(ncclCommAbort(comms[1]));
}

TEST_CASE("Non-blocking calls return at once and finish by themselves") {
  ncclUniqueId id;
  check(ncclGetUniqueId(&id));
  cluster::run_plain_threads(2, [&](int rank) {
    check(cudaSetDevice(rank));
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t comm = nullptr;
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    expect(ncclCommInitRankConfig(&comm, 2, id, rank, &config) == ncclInProgress, "creation goes on");
    expect(comm != nullptr, "the handle is there at once");
    if (rank == 0) {
      int count = 0;
      expect(ncclCommCount(comm, &count) == ncclInvalidArgument, "a query has to wait");
      expect(ncclAllReduce(nullptr, nullptr, 1, ncclInt32, ncclSum, comm, nullptr) == ncclInvalidArgument,
             "so has a call");
    }
    check(finish(comm));
    const Stream stream;
    const Buffer data = Buffer::of(std::vector<int>(10, 1));
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    check(ncclGroupStart());
    const ncclResult_t inside = ncclAllReduce(data.data(), data.data(), 10, ncclInt32, ncclSum, comm, stream);
    expect(inside == ncclInProgress || inside == ncclSuccess, "inside the group");
    const auto before = Clock::now();
    const ncclResult_t end = ncclGroupEnd();
    expect(end == ncclInProgress, "the group goes on by itself");
    expect(Clock::now() - before < std::chrono::milliseconds(40), "GroupEnd waited for the peer");
    check(finish(comm));
    stream.wait();
    expect(data.values<int>() == std::vector<int>(10, 2), "reduced");
    ncclComm_t child = nullptr;
    const ncclResult_t split = ncclCommSplit(comm, 0, 0, &child, nullptr);
    expect(split == ncclInProgress, "a split goes on by itself");
    check(finish(child));
    finish_call(ncclCommFinalize(child), child);
    check(ncclCommDestroy(child));
    finish_call(ncclCommFinalize(comm), comm);
    check(ncclCommDestroy(comm));
  });
}

TEST_CASE("Abort ends a non-blocking creation that nobody joins") {
  ncclUniqueId id;
  check(ncclGetUniqueId(&id));
  check(cudaSetDevice(0));
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  CHECK(ncclCommInitRankConfig(&comm, 2, id, 0, &config) == ncclInProgress);
  check(ncclCommAbort(comm));
}

TEST_CASE("Blocking and non-blocking communicators do not mix in a group") {
  cluster::run_threads(2, [](const Rank& self) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    ncclComm_t other = nullptr;
    check(ncclCommSplit(self.comm, 0, 0, &other, &config) == ncclInProgress ? ncclSuccess
                                                                            : ncclInternalError);
    check(finish(other));
    const Buffer data = Buffer::of(std::vector<int>(1, 1));
    check(ncclGroupStart());
    check(ncclAllReduce(data.data(), data.data(), 1, ncclInt32, ncclSum, self.comm, nullptr));
    ncclAllReduce(data.data(), data.data(), 1, ncclInt32, ncclSum, other, nullptr);
    expect(ncclGroupEnd() == ncclInvalidUsage, "the mixture is refused");
    check(ncclCommDestroy(other));
  });
}

TEST_CASE("Wrong arguments are refused as NCCL refuses them") {
  cluster::run_threads(2, [](const Rank& self) {
    const Buffer data = Buffer::of(std::vector<int>(16, 1));
    const auto all_reduce = [&](int type, int op, ncclComm_t comm) {
      return ncclAllReduce(data.data(), data.data(), 1, static_cast<ncclDataType_t>(type),
                           static_cast<ncclRedOp_t>(op), comm, nullptr);
    };
    expect(all_reduce(ncclInt32, ncclSum, nullptr) == ncclInvalidArgument, "NULL communicator");
    expect(all_reduce(12, ncclSum, self.comm) == ncclInvalidArgument, "type");
    expect(all_reduce(ncclInt32, 5, self.comm) == ncclInvalidArgument, "user operation that does not exist");
    expect(all_reduce(ncclInt32, -1, self.comm) == ncclInvalidArgument, "negative operation");
    expect(ncclSend(data.data(), 1, ncclInt32, 2, self.comm, nullptr) == ncclInvalidArgument, "peer");
    expect(
        ncclBroadcast(data.data(), data.data(), 1, ncclInt32, -1, self.comm, nullptr) == ncclInvalidArgument,
        "root");
    expect(ncclGroupEnd() == ncclInvalidUsage, "GroupEnd without GroupStart");
    check(ncclGroupStart());
    expect(all_reduce(12, ncclSum, self.comm) == ncclInvalidArgument, "type in a group");
    expect(ncclGroupEnd() == ncclInvalidArgument, "the group returns the error of its call");
    check(ncclGroupStart());
    check(ncclGroupEnd());
    float factor = 1;
    ncclRedOp_t op;
    check(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, self.comm));
    expect(all_reduce(ncclFloat64, op, self.comm) == ncclInvalidArgument, "operation of another type");
    check(ncclRedOpDestroy(op, self.comm));
    expect(ncclRedOpDestroy(op, self.comm) == ncclInvalidArgument, "operation destroyed twice");
    expect(ncclRedOpDestroy(ncclSum, self.comm) == ncclInvalidArgument, "built-in operation destroyed");
    ncclUniqueId nothing{};
    ncclComm_t comm = nullptr;
    expect(ncclCommInitRank(&comm, 2, nothing, 0) == ncclInvalidArgument, "id");
    expect(ncclCommInitRank(&comm, 2, nothing, 2) == ncclInvalidArgument, "rank");
    expect(std::strlen(ncclGetLastError(self.comm)) > 0, "the last error has a text");
  });
  ncclComm_t comms[2];
  const int twice[2] = {1, 1};
  CHECK(ncclCommInitAll(comms, 2, twice) == ncclInvalidUsage);
  int version = 0;
  check(ncclGetVersion(&version));
  CHECK(version == 22809);
  CHECK(ncclCommDestroy(nullptr) == ncclSuccess);
}

TEST_CASE("worker: planted faults", "[.worker]") {
  const Rank self = cluster::join_as_worker();
  const Stream stream;
  const Buffer data = Buffer::of(std::vector<int>(10, 1));
  const auto start = Clock::now();
  for (int call = 1; call <= 3; ++call) {
    const ncclResult_t result =
        ncclAllReduce(data.data(), data.data(), 10, ncclInt32, ncclSum, self.comm, stream);
    const cudaError_t error = cudaStreamSynchronize(stream);
    std::printf("call %d: %d %d\n", call, result, error);
  }
  std::printf("%s\n", Clock::now() - start > std::chrono::milliseconds(200) ? "late" : "soon");
  std::fflush(stdout);
  ncclCommAbort(self.comm);
}

TEST_CASE("Faults are planted on request") {
  const auto run = [](const char* fault) {
    return cluster::run_processes(2, "worker: planted faults",
                                  {{"SANDBOX_NCCL_FAULT", fault}, {"SANDBOX_NCCL_TIMEOUT", "1"}});
  };
  const auto contains = [](const cluster::Outcome& outcome, const char* part) {
    INFO(outcome.output);
    CHECK(outcome.output.find(part) != std::string::npos);
  };
  for (const cluster::Outcome& outcome : run("delay:rank=1,call=2,ms=300")) {
    contains(outcome, "call 3: 0 0");
    contains(outcome, "late");
  }
  contains(run("fail:rank=0,call=2,code=2")[0], "call 2: 2 0");
  const auto exits = run("exit:rank=1,call=2");
  CHECK(exits[1].status == 9);
  contains(exits[0], "whose process ended");
  contains(run("explode:call=1")[0], "explode is none of delay, fail, exit");
}

// Benchmarks warm up with buffers that they never write.
TEST_CASE("Memory of ncclMemAlloc is clear and may be summed as it comes") {
  cluster::run_threads(2, [](const Rank& self) {
    for (const size_t count : {size_t{16}, size_t{100000}}) {
      void* memory = nullptr;
      check(ncclMemAlloc(&memory, count * sizeof(int)));
      const Stream stream;
      check(ncclAllReduce(memory, memory, count, ncclInt32, ncclSum, self.comm, stream));
      stream.wait();
      std::vector<int> values(count, 1);
      check(cudaMemcpy(values.data(), memory, count * sizeof(int), cudaMemcpyDeviceToHost));
      expect(values == std::vector<int>(count, 0), "zeros");
      check(ncclMemFree(memory));
    }
  });
}
