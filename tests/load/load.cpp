// Eight threads with eight communicators each, eight weight buffers on each communicator: 512 slots, and as
// many calls as one wants. What the job holds once all is agreed is what it holds at the end.
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>
#include <thread>

#include "catch.h"
#include "cluster.h"

namespace sdp4bit::test {
namespace {

constexpr int kThreads = 8, kCommsPerThread = 8, kBuffers = 8;
constexpr std::size_t kWeights = 300, kGradients = 300;
constexpr int kStepsPerCheck = 16;

struct Memory {
  std::size_t device_free = 0, host = 0;
};
Memory memory() {
  Memory now;
  std::size_t total = 0;
  check(cudaMemGetInfo(&now.device_free, &total));
  now.host = ::mallinfo2().uordblks;
  return now;
}

/// One communicator's buffers. Weights never change, so gathered ones are exact; gradients are the same on
/// all ranks and constant, which every codec carries with little error.
class Worker {
 public:
  Worker(const RankContext& rank, ncclComm_t comm)
      : rank_(rank.rank),
        ranks_(rank.ranks),
        comm_(comm),
        gradients_(constant(ranks_ * kGradients, 0.5f)),
        sum_(kGradients * 4) {
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    for (int i = 0; i < kBuffers; ++i) {
      weights_.push_back(std::make_unique<DeviceBytes>(Bytes(kWeights * 2 * ranks_)));
      shards_.push_back(std::make_unique<DeviceBytes>(shard(rank_, i)));
    }
  }
  ~Worker() {
    (void)ncclCommDestroy(comm_);
    (void)cudaStreamDestroy(stream_);
  }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void step(int number) const {
    const auto buffer = static_cast<std::size_t>(number % kBuffers);
    const bool grouped = number % 3 == 0;
    if (grouped) check(ncclGroupStart());
    check(
        ncclReduceScatter(gradients_.data(), sum_.data(), kGradients, ncclFloat32, ncclAvg, comm_, stream_));
    check(ncclAllGather(shards_[buffer]->data(), weights_[buffer]->data(), kWeights, ncclBfloat16, comm_,
                        stream_));
    if (grouped) check(ncclGroupEnd());
    if (number % kStepsPerCheck == kStepsPerCheck - 1) check_buffer(buffer);
  }

 private:
  static Bytes constant(std::size_t count, float value) {
    Bytes content(count * 4);
    for (std::size_t i = 0; i < count; ++i) std::memcpy(content.data() + 4 * i, &value, 4);
    return content;
  }
  /// Powers of two, which bfloat16 holds.
  static Bytes shard(int owner, int buffer) {
    Bytes content(kWeights * 2);
    const auto bits = static_cast<std::uint16_t>(0x3f80 + 0x80 * (owner + buffer));
    for (std::size_t i = 0; i < kWeights; ++i) std::memcpy(content.data() + 2 * i, &bits, 2);
    return content;
  }
  void check_buffer(std::size_t buffer) const {
    check(cudaStreamSynchronize(stream_));
    const Bytes gathered = weights_[buffer]->read();
    for (int owner = 0; owner < ranks_; ++owner) {
      const Bytes right = shard(owner, static_cast<int>(buffer));
      expect(std::memcmp(gathered.data() + static_cast<std::size_t>(owner) * right.size(), right.data(),
                         right.size()) == 0,
             "gathered weights are wrong");
    }
    const Bytes sum = sum_.read();
    // A block of 32 equal numbers is one coefficient, sqrt(32) times the number, which sets the scale: every
    // code is off by up to a fifteenth of that. Of a block's mean that is a fifteenth of the number (and what
    // the scale is rounded by), of an element, in which all 32 meet, 32 times as much at worst.
    constexpr std::size_t kBlock = 32;
    constexpr float kWorst = 0.5f / 15 * 1.02f;
    for (std::size_t begin = 0; begin + kBlock <= kGradients; begin += kBlock) {
      float values[kBlock], mean = 0;
      std::memcpy(values, sum.data() + 4 * begin, sizeof values);
      for (const float value : values) {
        expect(std::fabs(value - 0.5f) < kBlock * kWorst, "a gradient is " + std::to_string(value));
        mean += value / kBlock;
      }
      expect(std::fabs(mean - 0.5f) < kWorst, "the mean of a block is " + std::to_string(mean));
    }
  }

  int rank_, ranks_;
  ncclComm_t comm_;
  cudaStream_t stream_ = nullptr;
  DeviceBytes gradients_, sum_;
  std::vector<std::unique_ptr<DeviceBytes>> weights_, shards_;
};

/// `steps` on each communicator, two calls each. Everything is measured where all threads wait.
void run_load(RankContext& rank, int steps) {
  std::vector<std::vector<std::unique_ptr<Worker>>> workers(kThreads);
  for (auto& own : workers) {
    for (int i = 0; i < kCommsPerThread; ++i) {
      ncclComm_t comm = nullptr;
      check(ncclCommSplit(rank.comm, 0, rank.rank, &comm, nullptr));
      own.push_back(std::make_unique<Worker>(rank, comm));
    }
  }
  Memory then, now;
  // Eight slots pass at call 32, and run differences from call 64 on.
  const int warm = std::max(steps / 4, 96);
  std::barrier meeting(kThreads + 1);
  std::vector<std::string> troubles(kThreads);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      const auto run = [&](int from, int to) {
        try {
          check(cudaSetDevice(0));
          for (int step = from; step < to && troubles[t].empty(); ++step) {
            for (const auto& worker : workers[t]) worker->step(step);
            if (rank.rank == 0 && t == 0 && step % 100 == 99)
              std::fprintf(stderr, "load: step %d of %d\n", step + 1, steps);
          }
          check(cudaDeviceSynchronize());
        } catch (const std::exception& error) {
          troubles[t] = error.what();
          // Said at once: the other rank's thread waits for this one, and what it says then is that.
          std::fprintf(stderr, "load: thread %zu of rank %d: %s\n", t, static_cast<int>(rank.rank),
                       error.what());
        }
      };
      run(0, warm);
      meeting.arrive_and_wait();
      meeting.arrive_and_wait();  // measured meanwhile
      run(warm, steps);
      meeting.arrive_and_wait();
      meeting.arrive_and_wait();
    });
  }
  for (Memory* measured : {&then, &now}) {
    meeting.arrive_and_wait();
    *measured = memory();
    meeting.arrive_and_wait();
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& trouble : troubles) expect(trouble.empty(), trouble);
  expect(now.device_free == then.device_free,
         "device memory is not flat: " + std::to_string(then.device_free) + " bytes were free, now " +
             std::to_string(now.device_free));
  expect(now.host < then.host + (512u << 10), "host memory is not flat: " + std::to_string(then.host) +
                                                  " bytes were in use, now " + std::to_string(now.host));
  const CallCounts gradients = calls_of("reduce_scatter"), weights = calls_of("all_gather");
  const auto made = static_cast<std::uint64_t>(steps) * kThreads * kCommsPerThread;
  expect(gradients.all == made && weights.all == made, "calls are counted");
  expect(gradients.compressed > made * 9 / 10, "gradients are compressed");
  expect(weights.compressed > made / 4, "weights are compressed: " + std::to_string(weights.compressed));
  rank.result.resize(2 * sizeof(std::uint64_t));
  const std::uint64_t counts[] = {gradients.compressed, weights.compressed};
  std::memcpy(rank.result.data(), counts, sizeof counts);
}

void load(int steps, const char* name) {
  const auto start = std::chrono::steady_clock::now();
  const auto outcomes = run_cluster({.node_of = even_nodes(2, 1),
                                     .environment = {{"SDP4BIT_COMMS", "all"},
                                                     {"SDP4BIT_MIN_BYTES", "0"},
                                                     {"SDP4BIT_WORKSPACE", "64K"},
                                                     {"SDP4BIT_OWN_SHARD", "replica"}},
                                     .timeout_seconds = 5000},
                                    [steps](RankContext& rank) { run_load(rank, steps); });
  REQUIRE(failures(outcomes) == "");
  std::uint64_t counts[2] = {};
  std::memcpy(counts, outcomes[0].result.data(), sizeof counts);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf(
      "{\"load\": \"%s\", \"calls_of_a_rank\": %d, \"communicators\": %d, \"threads\": %d, \"slots\": %d, "
      "\"gradients_compressed\": %llu, \"weights_compressed\": %llu, \"seconds\": %.0f}\n",
      name, 2 * steps * kThreads * kCommsPerThread, kThreads * kCommsPerThread, kThreads,
      kThreads * kCommsPerThread * kBuffers, static_cast<unsigned long long>(counts[0]),
      static_cast<unsigned long long>(counts[1]), seconds.count());
}

TEST_CASE("Load.FiveHundredSlotsOfSixtyFourCommunicators") {
  load(144, "sampled");
}
TEST_CASE("Load.AHundredThousandCalls", "[.slow]") {
  load(800, "a hundred thousand calls");
}

}  // namespace
}  // namespace sdp4bit::test
