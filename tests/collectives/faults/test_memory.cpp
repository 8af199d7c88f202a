// Communicators come and go, and take their memory along.
#include <unistd.h>

#include <fstream>
#include <memory>
#include <vector>

#include "catch.h"
#include "cluster.h"

namespace sdp4bit::test {
namespace {

constexpr int kRanks = 2;
constexpr std::size_t kCount = 3000;

std::size_t free_device_memory(int device) {
  std::size_t free = 0, total = 0;
  check(cudaSetDevice(device));
  check(cudaMemGetInfo(&free, &total));
  return free;
}

std::size_t resident_bytes() {
  std::size_t pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

/// All devices of this process, and a communicator over them for as long as it takes to compress.
class Devices {
 public:
  Devices() {
    for (int device = 0; device < kRanks; ++device) {
      check(cudaSetDevice(device));
      cudaStream_t stream = nullptr;
      check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
      streams_.push_back(stream);
      buffers_.push_back(std::make_unique<DeviceBytes>(Bytes(kCount * 4 * kRanks)));
      sums_.push_back(std::make_unique<DeviceBytes>(kCount * 4));
    }
  }
  void train_on_a_new_communicator(bool abort) const {
    ncclComm_t comms[kRanks];
    const int devices[kRanks] = {0, 1};
    check(ncclCommInitAll(comms, kRanks, devices));
    for (int call = 0; call < 12; ++call) {
      check(ncclGroupStart());
      for (std::size_t rank = 0; rank < kRanks; ++rank) {
        std::byte* const data = buffers_[rank]->data();
        check(ncclReduceScatter(data, sums_[rank]->data(), kCount, ncclFloat32, ncclSum, comms[rank],
                                streams_[rank]));
        check(
            ncclAllGather(data + rank * kCount * 2, data, kCount, ncclBfloat16, comms[rank], streams_[rank]));
      }
      check(ncclGroupEnd());
    }
    for (int rank = 0; rank < kRanks; ++rank) {
      check(cudaSetDevice(rank));
      check(cudaStreamSynchronize(streams_[static_cast<std::size_t>(rank)]));
      check(abort ? ncclCommAbort(comms[rank]) : ncclCommDestroy(comms[rank]));
    }
  }

 private:
  std::vector<cudaStream_t> streams_;
  std::vector<std::unique_ptr<DeviceBytes>> buffers_, sums_;
};

/// Memory in use after `first` communicators is what is in use after `more` of them.
void stay_flat(int first, int more, bool abort) {
  const auto body = [=](RankContext&) {
    const Devices all;
    std::size_t free[kRanks] = {}, resident = 0;
    for (int i = 1; i <= first + more; ++i) {
      all.train_on_a_new_communicator(abort);
      if (i != first && i != first + more) continue;
      const bool begins = i == first;
      for (int device = 0; device < kRanks; ++device) {
        const std::size_t now = free_device_memory(device);
        expect(begins || now == free[device], "device memory: " + std::to_string(free[device]) +
                                                  " bytes were free, now " + std::to_string(now));
        free[device] = now;
      }
      if (abort) continue;
      const std::size_t now = resident_bytes();
      // A communicator's workspace and tables would be tens of mebibytes each, its state some hundred
      // kibibytes.
      expect(begins || now < resident + (4u << 20),
             "host memory: " + std::to_string(resident) + " bytes were in use, now " + std::to_string(now));
      resident = now;
    }
    const CallCounts gradients = calls_of("reduce_scatter"), weights = calls_of("all_gather");
    expect(gradients.compressed >= static_cast<std::uint64_t>(first + more) * kRanks * 7, "gradients");
    expect(weights.compressed > 0, "weights");
  };
  const Cluster cluster{.node_of = {0},
                        .environment = {{"SANDBOX_DEVICES", "2"},
                                        {"SDP4BIT_LOCAL_SIZE", "1"},
                                        {"SDP4BIT_MIN_BYTES", "0"},
                                        {"SDP4BIT_COMMS", "all"},
                                        {"SDP4BIT_WORKSPACE", "1M"}},
                        .connect = false};
  CHECK(failures(run_cluster(cluster, body)) == "");
}

TEST_CASE("Memory.AHundredCommunicatorsTakeTheMemoryOfOne") {
  // The emulator remembers freed memory, to name it in its messages, up to a bound that the first ones reach.
  stay_flat(260, 100, false);
}

TEST_CASE("Memory.AbortedCommunicatorsGiveTheirMemoryBack") {
  stay_flat(40, 30, true);
}

}  // namespace
}  // namespace sdp4bit::test
