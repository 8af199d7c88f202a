// Ranks of a gathering program; see gather_job.h.
#include "gather_job.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "kernels/reference_codec.h"
#include "sandbox/cudart/extension.h"
#include "sandbox/nccl/extension.h"

namespace sdp4bit::test {
namespace {

constexpr std::size_t kGuard = 64;  // bytes around each buffer that nobody may touch
constexpr std::byte kGuarded{0x5a};

std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Roughly normal, of variance 1.
float noise(std::uint64_t key) {
  const std::uint64_t bits = mix(key);
  float sum = 0;
  for (int i = 0; i < 4; ++i) sum += static_cast<float>(bits >> (16 * i) & 0xffff) * 0x1p-16f;
  return (sum - 2.0f) * 1.732f;
}

ElementType element(ncclDataType_t type) {
  return type == ncclBfloat16  ? ElementType::bfloat16
         : type == ncclFloat16 ? ElementType::float16
                               : ElementType::float32;
}

double half_ulp(ElementType type, double value) {
  const int bits = type == ElementType::bfloat16 ? 8 : type == ElementType::float16 ? 11 : 24;
  const int smallest = type == ElementType::float16 ? -14 : -126;
  int exponent = 0;
  (void)std::frexp(value, &exponent);
  return std::ldexp(0.5, std::max(exponent - 1, smallest) - (bits - 1));
}

constexpr std::uint64_t kNotCompared = 0;

std::uint64_t hash(const std::byte* data, std::size_t bytes) {
  std::uint64_t value = 0xcbf29ce484222325;
  for (std::size_t i = 0; i < bytes; ++i)
    value = (value ^ std::to_integer<std::uint64_t>(data[i])) * 0x100000001b3;
  return value;
}

/// One rank of the program.
class Rank final : public Disturbance {
 public:
  Rank(const GatherJob& job, RankContext& context)
      : job_(job),
        context_(context),
        type_(element(job.type)),
        ranks_(static_cast<std::size_t>(context.ranks)),
        own_(static_cast<std::size_t>(context.rank)),
        shard_bytes_(job.count * element_bytes(type_)) {
    check(cudaStreamCreateWithFlags(&second_stream_, cudaStreamNonBlocking));
    for (int b = 0; b < job.buffers; ++b) {
      masters_.emplace_back(ranks_ * job.count);
      std::vector<float>& master = masters_.back();
      for (std::size_t i = 0; i < master.size(); ++i) {
        // None near zero: a step changes even a single weight by less than its sixteenth.
        const float start = 0.02f * noise(i * 64 + static_cast<std::size_t>(b));
        master[i] = start + std::copysign(0.03f, start);
      }
      previous_.push_back({});
      receive_.push_back(new_buffer());
      send_.push_back(guarded(shard_bytes_));
      unchecked_until_.push_back(0);
    }
  }

  void step(int number) {
    step_ = number;
    if (job_.before) job_.before(context_.rank, step_, *this);
    if (job_.grouped) {
      for (int b = 0; b < job_.buffers; ++b) prepare(b);
      check(ncclGroupStart());
      for (int b = 0; b < job_.buffers; ++b) gather(b);
      check(ncclGroupEnd());
      synchronize();
      for (int b = 0; b < job_.buffers; ++b) examine(b);
    } else {
      for (int b = 0; b < job_.buffers; ++b) {
        prepare(b);
        gather(b);
        synchronize();
        examine(b);
      }
    }
  }
  [[nodiscard]] const std::vector<std::uint64_t>& hashes() const { return hashes_; }

  void scribble(int buffer) override {
    DeviceBytes& receive = *receive_[at(buffer)];
    Bytes garbage(receive.bytes());
    for (std::size_t i = 0; i < garbage.size(); ++i) {
      garbage[i] = static_cast<std::byte>(mix(i + static_cast<std::size_t>(step_)));
    }
    garbage_into(buffer, garbage);
  }
  void fill(int buffer, std::byte byte) override {
    garbage_into(buffer, Bytes(receive_[at(buffer)]->bytes(), byte));
  }
  void move(int buffer) override {
    retired_.push_back(std::move(receive_[at(buffer)]));  // kept, so that the address is a new one
    receive_[at(buffer)] = new_buffer();
    disturbed(buffer);
  }
  void exchange(int buffer, int other) override {
    std::swap(receive_[at(buffer)], receive_[at(other)]);
    disturbed(buffer);
    disturbed(other);
  }
  void reload(int buffer) override {
    std::vector<float>& master = masters_[at(buffer)];
    for (std::size_t i = 0; i < master.size(); ++i)
      master[i] = 0.03f * noise(i * 64 + 63 + static_cast<std::size_t>(step_) * 65536);
    disturbed(buffer);
  }
  void expect_jump(int buffer) override { disturbed(buffer); }
  void fail_next_allocation() override { sandboxFailAllocation(0, 1); }

 private:
  static std::size_t at(int buffer) { return static_cast<std::size_t>(buffer); }
  [[nodiscard]] std::size_t offset_bytes() const {
    return kGuard + job_.misalignment * element_bytes(type_) + job_.odd;
  }
  [[nodiscard]] std::unique_ptr<DeviceBytes> guarded(std::size_t bytes) const {
    auto buffer = std::make_unique<DeviceBytes>(offset_bytes() + bytes + kGuard);
    buffer->write(Bytes(buffer->bytes(), kGuarded));
    return buffer;
  }
  [[nodiscard]] std::unique_ptr<DeviceBytes> new_buffer() const { return guarded(ranks_ * shard_bytes_); }
  /// All of it but the guards.
  void garbage_into(int buffer, const Bytes& garbage) {
    const auto end = garbage.begin() + static_cast<std::ptrdiff_t>(ranks_ * shard_bytes_);
    receive_[at(buffer)]->write(Bytes(garbage.begin(), end), offset_bytes());
  }
  void disturbed(int buffer) { unchecked_until_[at(buffer)] = step_ + job_.recovery; }
  [[nodiscard]] std::byte* receive(int buffer) const {
    return receive_[job_.pool ? 0 : at(buffer)]->data() + offset_bytes();
  }
  [[nodiscard]] std::byte* send(int buffer) const {
    return job_.in_place ? receive(buffer) + own_ * shard_bytes_ : send_[at(buffer)]->data() + offset_bytes();
  }

  /// The optimizer's step: the own shard gets its new weights.
  void prepare(int buffer) {
    if (job_.fresh) move(buffer);
    std::vector<float>& master = masters_[at(buffer)];
    const auto step = static_cast<std::size_t>(step_) + 1;
    for (std::size_t i = 0; i < master.size() && !job_.still; ++i) {
      master[i] += 4e-4f * noise((i * 64 + at(buffer)) * 4096 + step);
    }
    Bytes shard(shard_bytes_);
    for (std::size_t i = 0; i < job_.count; ++i) {
      reference::store_element(type_, shard.data(), i, master[own_ * job_.count + i]);
    }
    check(cudaMemcpy(send(buffer), shard.data(), shard.size(), cudaMemcpyHostToDevice));
  }
  void gather(int buffer) {
    check(
        ncclAllGather(send(buffer), receive(buffer), job_.count, job_.type, context_.comm, context_.stream));
  }

  void synchronize() const {
    check(cudaStreamSynchronize(context_.stream));
    check(cudaStreamSynchronize(second_stream_));
  }

  void examine(int buffer) {
    Bytes got(ranks_ * shard_bytes_);
    check(cudaMemcpy(got.data(), receive(buffer), got.size(), cudaMemcpyDeviceToHost));
    for (std::size_t r = 0; r < ranks_; ++r) {
      const bool counts = !(job_.owner_is_exact && r == own_);
      hashes_.push_back(counts ? hash(got.data() + r * shard_bytes_, shard_bytes_) : kNotCompared);
    }
    std::vector<float> now(ranks_ * job_.count);
    for (std::size_t i = 0; i < now.size(); ++i) now[i] = reference::load_element(type_, got.data(), i);
    for (std::size_t r = 0; r < ranks_; ++r) check_shard(buffer, r, now.data() + r * job_.count);
    check_guards(*receive_[job_.pool ? 0 : at(buffer)], ranks_ * shard_bytes_, "receive buffer");
    check_guards(*send_[at(buffer)], shard_bytes_, "send buffer");
    previous_[at(buffer)] = std::move(now);
  }

  void check_guards(const DeviceBytes& buffer, std::size_t used, const char* what) const {
    const Bytes got = buffer.read();
    for (std::size_t i = 0; i < got.size(); ++i) {
      if (i >= offset_bytes() && i < offset_bytes() + used) continue;
      if (got[i] != kGuarded) {
        expect(false, "step " + std::to_string(step_) + ": byte " + std::to_string(i) + " beside the " +
                          what + " was written");
      }
    }
  }

  /// Every element within half its group's scale and half an ulp of the true weight.
  void check_shard(int buffer, std::size_t rank, const float* now) {
    const std::vector<float>& previous = previous_[at(buffer)];
    if (previous.empty() || step_ < unchecked_until_[at(buffer)]) return;
    const bool exact = job_.owner_is_exact && rank == own_;
    const std::vector<float> weights = shard_weights(buffer, rank);
    for (std::size_t first = 0; first < job_.count; first += job_.group) {
      const std::size_t end = std::min(first + job_.group, job_.count);
      double largest = 0, largest_weight = 0;
      for (std::size_t i = first; i < end; ++i) {
        largest = std::max(largest, std::abs(double{weights[i]} - previous[rank * job_.count + i]));
        largest_weight = std::max(largest_weight, std::abs(double{weights[i]}));
      }
      const double narrow = job_.narrow_scales ? 1 + 0x1p-7 : 1;
      const double scale = job_.bound > 0 ? 2 * job_.bound * largest_weight : largest / job_.levels * narrow;
      for (std::size_t i = first; i < end; ++i) {
        const double error = std::abs(double{weights[i]} - now[i]);
        const double rounding = (std::abs(weights[i]) + largest) * 0x1p-21;
        const double allowed = exact ? 0.0 : scale / 2 + half_ulp(type_, now[i]) + rounding;
        if (error <= allowed) continue;
        expect(false, "step " + std::to_string(step_) + " buffer " + std::to_string(buffer) + " shard " +
                          std::to_string(rank) + " element " + std::to_string(i) + ": error " +
                          std::to_string(error) + ", allowed " + std::to_string(allowed));
      }
    }
  }
  [[nodiscard]] std::vector<float> shard_weights(int buffer, std::size_t rank) const {
    std::vector<float> weights(job_.count);
    for (std::size_t i = 0; i < job_.count; ++i) {
      std::byte bytes[4];
      reference::store_element(type_, bytes, 0, masters_[at(buffer)][rank * job_.count + i]);
      weights[i] = reference::load_element(type_, bytes, 0);
    }
    return weights;
  }

  const GatherJob& job_;
  RankContext& context_;
  const ElementType type_;
  const std::size_t ranks_, own_, shard_bytes_;
  cudaStream_t second_stream_ = nullptr;
  int step_ = 0;
  std::vector<std::vector<float>> masters_;   // of all ranks, by buffer
  std::vector<std::vector<float>> previous_;  // what the last gather gave
  std::vector<std::unique_ptr<DeviceBytes>> receive_, send_, retired_;
  std::vector<int> unchecked_until_;
  std::vector<std::uint64_t> hashes_;
};

}  // namespace

GatherResult run(const GatherJob& job) {
  return run_together({job}).front();
}

std::vector<GatherResult> run_together(const std::vector<GatherJob>& jobs) {
  const GatherJob& first = jobs.front();
  Cluster cluster{
      .node_of = first.node_of.empty() ? even_nodes(first.nodes, first.local_ranks) : first.node_of,
      .environment = {{"SDP4BIT_MIN_BYTES", "0"},
                      {"SDP4BIT_COMMS", "all"},
                      {"SDP4BIT_LOG", "info"},
                      {"SDP4BIT_OWN_SHARD", "replica"}},  // auto: test_own_shard.cpp
      .environment_of_rank = first.environment_of_rank,
      .timeout_seconds = 400};  // sweeps on a busy machine; CTest has its own
  cluster.environment.insert(cluster.environment.end(), first.environment.begin(), first.environment.end());
  const std::vector<Outcome> outcomes = run_cluster(cluster, [&](RankContext& context) {
    std::vector<std::unique_ptr<Rank>> programs;
    for (const GatherJob& job : jobs) programs.push_back(std::make_unique<Rank>(job, context));
    for (int step = 0; step < first.steps; ++step) {
      if (step + 1 == first.steps) sandboxNcclResetTraffic();
      for (const auto& program : programs) program->step(step);
    }
    const CallCounts calls = calls_of("all_gather");
    std::vector<std::uint64_t> words{calls.all, calls.compressed};
    for (int r = 0; r < context.ranks; ++r)
      words.push_back(sandboxNcclPairBytes(context.comm, context.rank, r));
    for (const auto& program : programs) {
      words.push_back(program->hashes().size());
      words.insert(words.end(), program->hashes().begin(), program->hashes().end());
    }
    const auto* bytes = reinterpret_cast<const std::byte*>(words.data());
    context.result.assign(bytes, bytes + words.size() * sizeof(std::uint64_t));
  });
  const GatherResult common{
      .failure = failures(outcomes), .logs = {}, .hashes = {}, .calls = {}, .last_step = {}};
  std::vector<GatherResult> results(jobs.size(), common);
  const std::size_t ranks = outcomes.size();
  for (const Outcome& outcome : outcomes) {
    std::vector<std::uint64_t> words(outcome.result.size() / sizeof(std::uint64_t));
    std::memcpy(words.data(), outcome.result.data(), words.size() * sizeof(std::uint64_t));
    for (GatherResult& result : results) result.logs.push_back(outcome.log);
    if (words.size() < 2 + ranks) continue;
    auto next = words.begin() + 2 + static_cast<std::ptrdiff_t>(ranks);
    for (GatherResult& result : results) {
      result.calls.push_back({words[0], words[1]});
      result.last_step.emplace_back(words.begin() + 2,
                                    words.begin() + 2 + static_cast<std::ptrdiff_t>(ranks));
      const auto count = static_cast<std::ptrdiff_t>(*next++);
      result.hashes.emplace_back(next, next + count);
      next += count;
    }
  }
  return results;
}

std::string disagreement(const GatherResult& result) {
  const std::size_t ranks = result.hashes.size();
  if (ranks == 0) return "no rank has a result";
  for (const std::vector<std::uint64_t>& hashes : result.hashes) {
    if (hashes.size() != result.hashes[0].size()) return "ranks made different numbers of calls";
  }
  for (std::size_t i = 0; i < result.hashes[0].size(); ++i) {
    std::uint64_t first = kNotCompared;
    for (const std::vector<std::uint64_t>& hashes : result.hashes) {
      if (first == kNotCompared) first = hashes[i];
      if (hashes[i] == kNotCompared || hashes[i] == first) continue;
      return "ranks differ after call " + std::to_string(i / ranks) + " in shard " +
             std::to_string(i % ranks);
    }
  }
  return "";
}

}  // namespace sdp4bit::test
