// Counted bytes against a count by hand, and the nodes they are counted by.
#include <cstdio>

#include "cluster.h"
#include "sandbox/nccl/extension.h"

namespace {

using cluster::Buffer;
using cluster::check;
using cluster::Rank;
using cluster::Stream;

constexpr size_t kCount = 1000;  // of floats: 4000 bytes
constexpr uint64_t kBytes = 4000;

// One worker process whose four devices are ranks; its nodes come from the environment.
void print_traffic(const std::function<void(const Rank&, const Buffer&, const Buffer&, cudaStream_t)>& body) {
  uint64_t pairs[4][4] = {};
  cluster::run_threads(4, [&](const Rank& self) {
    const Stream stream;
    const Buffer send = Buffer::of(std::vector<float>(4 * kCount, 1));
    const Buffer receive(4 * kCount * sizeof(float));
    body(self, send, receive, stream);
    stream.wait();
    for (int receiver = 0; receiver < 4; ++receiver) {
      pairs[self.rank][receiver] = sandboxNcclPairBytes(self.comm, self.rank, receiver);
    }
    if (self.rank == 0) {
      std::printf("nodes");
      for (int rank = 0; rank < 4; ++rank) std::printf(" %d", sandboxNcclNode(self.comm, rank));
      std::printf(" %d\n", sandboxNcclNode(self.comm, 4));
    }
  });
  for (const auto& row : pairs) {
    for (const uint64_t bytes : row)
      std::printf("%g ", static_cast<double>(bytes) / static_cast<double>(kBytes));
    std::printf("\n");
  }
  sandboxNcclTraffic total;
  sandboxNcclGetTraffic(&total);
  std::printf("in %llu between %llu operations %llu\n",
              static_cast<unsigned long long>(total.bytes_in_node / kBytes),
              static_cast<unsigned long long>(total.bytes_between_nodes / kBytes),
              static_cast<unsigned long long>(total.operations));
  sandboxNcclCall calls[8];
  const size_t known = sandboxNcclGetCalls(calls, 8);
  for (size_t i = 0; i < known; ++i)
    std::printf("%llu x %s\n", static_cast<unsigned long long>(calls[i].calls), calls[i].call);
  sandboxNcclResetTraffic();
  sandboxNcclGetTraffic(&total);
  if (total.bytes_in_node + total.bytes_between_nodes + total.operations == 0) std::printf("reset\n");
  std::fflush(stdout);
}

// The output from "nodes" to "reset", without the test program's own lines.
std::string traffic_of(const std::string& worker, const std::string& nodes) {
  const std::string output = cluster::run_processes(1, worker, {{"SANDBOX_NODES", nodes}}).front().output;
  const size_t begin = output.find("nodes ");
  return begin == std::string::npos ? output : output.substr(begin, output.find("reset") - begin);
}

}  // namespace

TEST_CASE("worker: gather traffic", "[.worker]") {
  print_traffic([](const Rank& self, const Buffer& send, const Buffer& receive, cudaStream_t stream) {
    check(ncclAllGather(send.data(), receive.data(), kCount, ncclFloat, self.comm, stream));
  });
}

TEST_CASE("AllGather crosses to each other node once and spreads there") {
  // Two nodes of two: rank 0's shard goes to 1 (own node) and 2 (its place in the other node), which passes
  // it to 3.
  CHECK(traffic_of("worker: gather traffic", "2") ==
        "nodes 0 0 1 1 -1\n"
        "0 2 1 0 \n"
        "2 0 0 1 \n"
        "1 0 0 2 \n"
        "0 1 2 0 \n"
        "in 8 between 4 operations 4\n"
        "4 x AllGather(count 1000, float)\n");
  // Three and one: all shards of the first node enter the second at rank 3; rank 3's shard enters at rank 0.
  CHECK(traffic_of("worker: gather traffic", "3,1") ==
        "nodes 0 0 0 1 -1\n"
        "0 2 2 1 \n"
        "1 0 1 1 \n"
        "1 1 0 1 \n"
        "1 0 0 0 \n"
        "in 8 between 4 operations 4\n"
        "4 x AllGather(count 1000, float)\n");
}

TEST_CASE("worker: scatter traffic", "[.worker]") {
  print_traffic([](const Rank& self, const Buffer& send, const Buffer& receive, cudaStream_t stream) {
    check(ncclReduceScatter(send.data(), receive.data(), kCount, ncclFloat, ncclSum, self.comm, stream));
  });
}

TEST_CASE("ReduceScatter sends one partial result per remote segment") {
  CHECK(traffic_of("worker: scatter traffic", "map:0,1,0,1") ==
        "nodes 0 1 0 1 -1\n"
        "0 1 2 0 \n"
        "1 0 0 2 \n"
        "2 0 0 1 \n"
        "0 2 1 0 \n"
        "in 8 between 4 operations 4\n"
        "4 x ReduceScatter(count 1000, float, sum)\n");
}

TEST_CASE("worker: other traffic", "[.worker]") {
  print_traffic([](const Rank& self, const Buffer& send, const Buffer& receive, cudaStream_t stream) {
    check(ncclBroadcast(send.data(), receive.data(), kCount, ncclFloat, 1, self.comm, stream));
    check(ncclAllReduce(send.data(), receive.data(), 4 * kCount, ncclFloat, ncclSum, self.comm, stream));
    check(ncclGroupStart());
    if (self.rank == 3) check(ncclSend(send.data(), kCount, ncclFloat, 0, self.comm, stream));
    if (self.rank == 0) check(ncclRecv(receive.data(), kCount, ncclFloat, 3, self.comm, stream));
    check(ncclGroupEnd());
  });
}

TEST_CASE("Broadcast, AllReduce and messages are counted by the same rules") {
  // AllReduce: segments of one unit, as ReduceScatter and then AllGather. Broadcast from 1: to 0, and to 3,
  // which tells 2.
  CHECK(traffic_of("worker: other traffic", "2") ==
        "nodes 0 0 1 1 -1\n"
        "0 4 2 0 \n"
        "5 0 0 3 \n"
        "2 0 0 4 \n"
        "1 2 5 0 \n"
        "in 18 between 10 operations 10\n"
        "4 x AllReduce(count 4000, float, sum)\n"
        "4 x Broadcast(count 1000, float, root 1)\n"
        "1 x Send(count 1000, float)\n");
}

TEST_CASE("worker: traffic of a process", "[.worker]") {
  const Rank self = cluster::join_as_worker();
  const Buffer send = Buffer::of(std::vector<float>(4 * kCount, 1));
  const Buffer receive(4 * kCount * sizeof(float));
  check(ncclAllGather(send.data(), receive.data(), kCount, ncclFloat, self.comm, nullptr));
  check(cudaStreamSynchronize(nullptr));
  check(ncclCommDestroy(self.comm));
}

TEST_CASE("Processes are nodes by NCCL_HOSTID and print what they sent at exit") {
  const auto outcomes = cluster::run_processes(
      4, "worker: traffic of a process", {{"SANDBOX_NCCL_TRAFFIC", "1"}},
      {{{"NCCL_HOSTID", "a"}}, {{"NCCL_HOSTID", "b"}}, {{"NCCL_HOSTID", "a"}}, {{"NCCL_HOSTID", "b"}}});
  for (const cluster::Outcome& outcome : outcomes) {
    INFO(outcome.output);
    CHECK(outcome.status == 0);
    CHECK(outcome.output.find("sent 8000 bytes in its nodes and 4000 between nodes in 1 operations") !=
          std::string::npos);
  }
  CHECK(outcomes[0].output.find(" rank 0 sent 4000 to rank 1, 8000 to rank 2, 12000 bytes in all") !=
        std::string::npos);
}
