// AllGather of weights by one thread that drives all devices: nothing may wait for a rank that comes later.
#include <cmath>
#include <cstring>
#include <memory>

#include "catch.h"
#include "cluster.h"
#include "kernels/reference_codec.h"

using namespace sdp4bit;
using namespace sdp4bit::test;

namespace {

constexpr int kRanks = 4;
constexpr std::size_t kCount = 2500;

float weight(int rank, std::size_t i, int step) {
  const auto phase = static_cast<float>(i * 7 + static_cast<std::size_t>(rank) * 1000);
  return 0.02f * std::sin(phase) + 1e-4f * std::sin(phase * 3 + static_cast<float>(step));
}

void gather_on_all_devices(RankContext&) {
  ncclComm_t comms[kRanks];
  cudaStream_t streams[kRanks];
  const int devices[kRanks] = {0, 1, 2, 3};
  std::vector<std::unique_ptr<DeviceBytes>> receive;
  check(ncclCommInitAll(comms, kRanks, devices));
  for (int r = 0; r < kRanks; ++r) {
    check(cudaSetDevice(r));
    check(cudaStreamCreateWithFlags(&streams[r], cudaStreamNonBlocking));
    receive.push_back(std::make_unique<DeviceBytes>(kRanks * kCount * 2));
    receive.back()->write(Bytes(kRanks * kCount * 2, std::byte{0}));
  }
  for (int step = 0; step < 40; ++step) {
    Bytes shard(kCount * 2);
    for (int r = 0; r < kRanks; ++r) {
      for (std::size_t i = 0; i < kCount; ++i) {
        reference::store_element(ElementType::bfloat16, shard.data(), i, weight(r, i, step));
      }
      check(cudaSetDevice(r));
      receive[static_cast<std::size_t>(r)]->write(shard, static_cast<std::size_t>(r) * shard.size());
    }
    check(ncclGroupStart());
    for (int r = 0; r < kRanks; ++r) {
      std::byte* const buffer = receive[static_cast<std::size_t>(r)]->data();
      check(ncclAllGather(buffer + static_cast<std::size_t>(r) * kCount * 2, buffer, kCount, ncclBfloat16,
                          comms[r], streams[r]));
    }
    check(ncclGroupEnd());
    Bytes first;
    for (int r = 0; r < kRanks; ++r) {
      check(cudaSetDevice(r));
      check(cudaStreamSynchronize(streams[r]));
      const Bytes got = receive[static_cast<std::size_t>(r)]->read();
      if (r == 0) first = got;
      expect(got == first, "device " + std::to_string(r) + " differs in step " + std::to_string(step));
    }
    for (std::size_t i = 0; i < kRanks * kCount; ++i) {
      const float got = reference::load_element(ElementType::bfloat16, first.data(), i);
      const float want = weight(static_cast<int>(i / kCount), i % kCount, step);
      expect(std::abs(got - want) <= 2e-4f, "an element is far from its weight");
    }
  }
  const CallCounts calls = calls_of("all_gather");
  expect(calls.compressed == kRanks * (40 - 3 - 8),
         std::to_string(calls.compressed) + " calls were compressed");
  for (int r = 0; r < kRanks; ++r) check(ncclCommDestroy(comms[r]));
}

}  // namespace

TEST_CASE("AllGather.OneThreadDrivesAllDevices") {
  for (const char* vote : {"0", "1"}) {
    const Cluster cluster{.node_of = {0},
                          .environment = {{"SANDBOX_DEVICES", "4"},
                                          {"SDP4BIT_LOCAL_SIZE", "2"},
                                          {"SDP4BIT_MIN_BYTES", "0"},
                                          {"SDP4BIT_COMMS", "all"},
                                          {"SDP4BIT_OWN_SHARD", "replica"},
                                          {"SDP4BIT_WEIGHT_VOTE", vote}},
                          .connect = false};
    REQUIRE(failures(run_cluster(cluster, gather_on_all_devices)) == "");
  }
}
