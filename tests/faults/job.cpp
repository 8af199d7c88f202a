// Gradients and weights whose right results are known on every rank; see job.h.
#include "job.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/element.h"

namespace sdp4bit::faults {
namespace {

using test::Bytes;
using test::check;
using test::DeviceBytes;
using test::RankContext;

constexpr std::size_t kGradients = 2500, kWeights = 2100;  // elements of a segment and of a shard
constexpr int kReplays = 3;

/// Between -1 and 1, without a pattern.
float noise(std::uint32_t a, std::uint32_t b) {
  std::uint32_t x = a * 0x9E3779B9u ^ b * 0x85EBCA6Bu;
  x = (x ^ x >> 15) * 0x2C1B3C6Du;
  x = (x ^ x >> 12) * 0x297A2D39u;
  return static_cast<float>(static_cast<std::int32_t>(x ^ x >> 15)) * 0x1p-31f;
}

float gradient(int rank, std::size_t element) {
  return noise(static_cast<std::uint32_t>(rank) + 1, static_cast<std::uint32_t>(element));
}

/// Every step moves each weight by up to kStep: less than a sixteenth of the weights, more than what the
/// bound allows, so that a rank that is left with the weights of the step before is found out.
constexpr float kStep = 1.0f / 16;
float weight(int owner, int step, std::size_t element) {
  const auto i = static_cast<std::uint32_t>(element);
  const float level = 1.5f + 0.4f * noise(static_cast<std::uint32_t>(owner) + 77, i);
  return level + (step % 2 != 0 ? kStep : 0.0f) * (0.75f + 0.25f * noise(99, i));
}

class Job {
 public:
  Job(RankContext& rank, bool in_place, const WatchWeights& watch)
      : rank_(rank),
        watch_(watch),
        in_place_(in_place),
        ranks_(static_cast<std::size_t>(rank.ranks)),
        gradients_(gradients_of(rank)),
        sum_(kGradients * 4),
        shard_(kShardBytes),
        weights_(kWeights * 2 * ranks_) {}

  void set_weights(int step) {
    std::vector<std::uint16_t> own(kWeights);
    for (std::size_t i = 0; i < kWeights; ++i)
      own[i] = from_float<BFloat16>(weight(rank_.rank, step, i)).bits;
    Bytes content(own.size() * 2);
    std::memcpy(content.data(), own.data(), content.size());
    in_place_ ? weights_.write(content, own_offset()) : shard_.write(content);
  }
  void forget_results() {
    check(cudaMemset(sum_.data(), 0, sum_.bytes()));
    const std::size_t behind = in_place_ ? own_offset() + kShardBytes : 0;
    if (in_place_) check(cudaMemset(weights_.data(), 0, own_offset()));
    check(cudaMemset(weights_.data() + behind, 0, weights_.bytes() - behind));
    check(cudaDeviceSynchronize());  // not a part of the job's stream
  }
  void reduce() {
    check(ncclReduceScatter(gradients_.data(), sum_.data(), kGradients, ncclFloat32, ncclAvg, rank_.comm,
                            rank_.stream));
  }
  void gather() {
    const std::byte* const own = in_place_ ? weights_.data() + own_offset() : shard_.data();
    check(ncclAllGather(own, weights_.data(), kWeights, ncclBfloat16, rank_.comm, rank_.stream));
  }
  /// One group for both; an error inside it ends it too, as programs' own guards do.
  void reduce_and_gather() {
    check(ncclGroupStart());
    try {
      reduce();
      gather();
    } catch (...) {
      (void)ncclGroupEnd();
      throw;
    }
    check(ncclGroupEnd());
  }

  void check_sum() const {
    const Bytes content = sum_.read();
    double wrong = 0, all = 0;
    for (std::size_t i = 0; i < kGradients; ++i) {
      double right = 0;
      for (int peer = 0; peer < rank_.ranks; ++peer)
        right += double{gradient(peer, static_cast<std::size_t>(rank_.rank) * kGradients + i)} / rank_.ranks;
      float got = 0;
      std::memcpy(&got, content.data() + 4 * i, 4);
      if (!std::isfinite(got)) throw WrongResult{"a gradient is not finite"};
      wrong += (got - right) * (got - right);
      all += right * right;
    }
    // 4-bit gradients have 0.03 at most; a missing rank a quarter.
    if (wrong > 0.08 * all) throw WrongResult{"gradients are off by " + std::to_string(wrong / all)};
  }
  void check_weights(int step) const {
    const Bytes content = weights_.read();
    for (std::size_t i = 0; i < kWeights * ranks_; ++i) {
      BFloat16 got{};
      std::memcpy(&got.bits, content.data() + 2 * i, 2);
      const auto owner = static_cast<int>(i / kWeights);
      const float right = weight(owner, step, i % kWeights);
      // In its own slice a rank may find what asks whose it is: a step of a difference's usual size.
      const float asked = in_place_ && owner == rank_.rank ? kStep : 0.0f;
      // A quarter of a step for the code, bfloat16's half unit between 1 and 2; two steps where the scale is
      // large.
      if (!(std::fabs(to_float(got) - right) <= asked + 0.3f * kStep + 0x1p-8f)) {
        throw WrongResult{"weight " + std::to_string(i) + " of step " + std::to_string(step) + " is " +
                          std::to_string(to_float(got)) + " instead of " + std::to_string(right)};
      }
    }
  }
  void check_step(int step) const {
    check(cudaStreamSynchronize(rank_.stream));
    check_sum();
    check_weights(step);
    if (!watch_) return;
    Bytes seen = weights_.read();
    if (in_place_)
      std::fill_n(seen.begin() + static_cast<std::ptrdiff_t>(own_offset()), kShardBytes, std::byte{});
    watch_(seen);
  }

  void eager_step(int step) {
    set_weights(step);
    forget_results();
    if (step % 3 == 2) {
      reduce_and_gather();
    } else {
      reduce();
      gather();
    }
    check_step(step);
  }
  void replays(int step) {
    set_weights(step);
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t program = nullptr;
    check(cudaStreamBeginCapture(rank_.stream, cudaStreamCaptureModeThreadLocal));
    reduce();
    gather();
    check(cudaStreamEndCapture(rank_.stream, &graph));
    check(cudaGraphInstantiate(&program, graph, 0));
    for (int replay = 0; replay < kReplays; ++replay) {
      forget_results();
      check(cudaGraphLaunch(program, rank_.stream));
      check_step(step);
    }
    check(cudaGraphExecDestroy(program));
    check(cudaGraphDestroy(graph));
  }

 private:
  static constexpr std::size_t kShardBytes = kWeights * 2;
  [[nodiscard]] std::size_t own_offset() const { return static_cast<std::size_t>(rank_.rank) * kShardBytes; }

  static Bytes gradients_of(const RankContext& rank) {
    Bytes content(kGradients * 4 * static_cast<std::size_t>(rank.ranks));
    for (std::size_t i = 0; i < content.size() / 4; ++i) {
      const float value = gradient(rank.rank, i);
      std::memcpy(content.data() + 4 * i, &value, 4);
    }
    return content;
  }

  RankContext& rank_;
  const WatchWeights& watch_;
  bool in_place_;
  std::size_t ranks_;
  DeviceBytes gradients_, sum_, shard_, weights_;
};

}  // namespace

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all{
      {"default", {}, true},
      {"full ledger, exact own shard", {{"SDP4BIT_WEIGHT_LEDGER", "full"}, {"SDP4BIT_OWN_SHARD", "exact"}}},
      {"votes, checks and samples",
       {{"SDP4BIT_WEIGHT_VOTE", "1"}, {"SDP4BIT_CHECK", "1"}, {"SDP4BIT_SAMPLE_ERROR", "2"}}},
      {"direct weights, several chunks", {{"SDP4BIT_WEIGHT_DIRECT", "8"}, {"SDP4BIT_WORKSPACE", "64K"}}},
      {.name = "own shards asked for, checksums",
       .environment = {{"SDP4BIT_OWN_SHARD", "auto"}, {"SDP4BIT_CHECKSUM", "1"}},
       .in_place = true},
  };
  return all;
}

void run_job(RankContext& rank, const Setting& setting, const WatchWeights& watch) {
  check(ncclCommInitRank(&rank.comm, rank.ranks, rank.id, rank.rank));
  {
    Job job(rank, setting.in_place, watch);
    int step = 0;
    for (; step < setting.steps; ++step) job.eager_step(step);
    if (setting.captured) job.replays(step);
  }
  ncclComm_t comm = nullptr;
  std::swap(comm, rank.comm);
  check(ncclCommDestroy(comm));
}

}  // namespace sdp4bit::faults
