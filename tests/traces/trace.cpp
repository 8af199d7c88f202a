// Data, calls, verdicts and checks of the traces; see trace.h.
#include "trace.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/reference_codec.h"

namespace sdp4bit::test {
namespace {

/// Between -1 and 1.
float noise(std::uint64_t key) {
  key += 0x9e3779b97f4a7c15;
  key = (key ^ (key >> 30)) * 0xbf58476d1ce4e5b9;
  key = (key ^ (key >> 27)) * 0x94d049bb133111eb;
  key ^= key >> 31;
  return static_cast<float>(key >> 40) * 0x1p-23f - 1.0f;
}

std::uint64_t key_of(int layer, int version, int rank, std::size_t index) {
  return ((static_cast<std::uint64_t>(layer) * 4096 + static_cast<std::uint64_t>(version)) * 64 +
          static_cast<std::uint64_t>(rank))
             << 32 ^
         index;
}

ElementType element(ncclDataType_t type) {
  return type == ncclBfloat16  ? ElementType::bfloat16
         : type == ncclFloat16 ? ElementType::float16
                               : ElementType::float32;
}

float rounded(ElementType type, float value) {
  std::byte bytes[4];
  reference::store_element(type, bytes, 0, value);
  return reference::load_element(type, bytes, 0);
}

void store(std::byte* to, ElementType type, const std::vector<float>& values) {
  Bytes bytes(values.size() * element_bytes(type));
  for (std::size_t i = 0; i < values.size(); ++i) reference::store_element(type, bytes.data(), i, values[i]);
  check(cudaMemcpy(to, bytes.data(), bytes.size(), cudaMemcpyHostToDevice));
}

Bytes load(const std::byte* from, std::size_t bytes) {
  Bytes content(bytes);
  check(cudaMemcpy(content.data(), from, bytes, cudaMemcpyDeviceToHost));
  return content;
}

std::string place(const char* what, int layer, int version, std::size_t shard) {
  return std::string(what) + " of layer " + std::to_string(layer) + ", version " + std::to_string(version) +
         ", shard " + std::to_string(shard);
}

}  // namespace

float weight(int layer, int version, int rank, std::size_t index) {
  const float start = 0.07f * noise(key_of(layer, 0, rank, index));
  const float base = start + std::copysign(0.03f, start);  // none near zero
  return base *
         (1.0f + 0.04f * std::sin(0.7f * static_cast<float>(version) + static_cast<float>(index % 97)));
}

float gradient(int layer, int version, int rank, std::size_t index) {
  return noise(key_of(layer, version + 1, rank, index));
}

Program::Program(RankContext& rank, ncclComm_t comm) : context_(rank), comm_(comm) {
  check(ncclCommUserRank(comm, &rank_));
  check(ncclCommCount(comm, &ranks_));
}

std::uint64_t Program::compressed(const char* collective) const {
  sdp4bitStatistics read{};
  read.size = sizeof read;
  // Before its first call nothing is known of a communicator.
  return library().get_statistics(comm_, collective, &read) == 0 ? read.compressed_calls : 0;
}

void Program::record(const std::string& kind, const char* collective) {
  pending_.push_back({kind, collective});
  if (depth_ == 0) end_group();
}

void Program::gather(const std::string& kind, const std::byte* send, std::byte* receive, std::size_t count,
                     ncclDataType_t type) {
  check(ncclAllGather(send, receive, count, type, comm_, context_.stream));
  record(kind, "all_gather");
}

void Program::reduce(const std::string& kind, const std::byte* send, std::byte* receive, std::size_t count,
                     ncclDataType_t type, ncclRedOp_t op) {
  check(ncclReduceScatter(send, receive, count, type, op, comm_, context_.stream));
  record(kind, "reduce_scatter");
}

void Program::group(const std::function<void()>& calls) {
  begin_group();
  check(ncclGroupStart());
  calls();
  check(ncclGroupEnd());
  end_group();
}

void Program::end_group() {
  if (depth_ > 0 && --depth_ > 0) return;
  check(cudaStreamSynchronize(context_.stream));
  for (const char* collective : {"all_gather", "reduce_scatter"}) {
    const auto calls =
        static_cast<std::uint64_t>(std::count_if(pending_.begin(), pending_.end(), [&](const Pending& call) {
          return call.collective == collective;
        }));
    if (calls == 0) continue;
    const std::uint64_t before = std::exchange(compressed_before_[collective], compressed(collective));
    const std::uint64_t taken = compressed_before_[collective] - before;
    expect(taken == 0 || taken == calls, "calls of one function in a group go one way");
    for (const Pending& call : pending_) {
      if (call.collective == collective) verdicts_[call.kind] += taken == 0 ? 'n' : 'c';
    }
  }
  pending_.clear();
}

void Program::store_weights(std::byte* shard, std::size_t count, int layer, int version,
                            ncclDataType_t type) const {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = weight(layer, version, rank_, i);
  store(shard, element(type), values);
}

void Program::check_weights(const std::byte* all, std::size_t count, int layer, int version, double bound,
                            ncclDataType_t type) {
  const ElementType element_type = element(type);
  const Bytes got = load(all, ranks() * count * element_bytes(element_type));
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : got) hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3;
  for (std::size_t i = 0; i < ranks() * count; ++i) {
    const float wanted =
        rounded(element_type, weight(layer, version, static_cast<int>(i / count), i % count));
    const double error = std::abs(double{reference::load_element(element_type, got.data(), i)} - wanted);
    if (!(error <= bound))
      expect(false, place("weights", layer, version, i / count) + ": error " + std::to_string(error));
  }
  const auto* bytes = reinterpret_cast<const std::byte*>(&hash);
  if (comm_ == context_.comm) context_.result.insert(context_.result.end(), bytes, bytes + sizeof hash);
}

void Program::store_gradients(std::byte* all, std::size_t count, int layer, int version,
                              ncclDataType_t type) const {
  std::vector<float> values(ranks() * count);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = gradient(layer, version, rank_, i);
  store(all, element(type), values);
}

void Program::check_gradients(const std::byte* shard, std::size_t count, int layer, int version,
                              double factor, double bound, ncclDataType_t type) const {
  const ElementType element_type = element(type);
  const Bytes got = load(shard, count * element_bytes(element_type));
  double squares = 0, errors = 0;
  for (std::size_t i = 0; i < count; ++i) {
    double exact = 0;
    for (int r = 0; r < ranks_; ++r) {
      const std::size_t index = static_cast<std::size_t>(rank_) * count + i;
      exact += factor * rounded(element_type, gradient(layer, version, r, index));
    }
    const double error = reference::load_element(element_type, got.data(), i) - exact;
    squares += exact * exact;
    errors += error * error;
  }
  const double relative = std::sqrt(errors / squares);
  expect(relative <= bound, place("gradients", layer, version, static_cast<std::size_t>(rank_)) +
                                ": relative error " + std::to_string(relative));
}

std::string Program::verdicts(const std::string& kind) const {
  const auto found = verdicts_.find(kind);
  const std::string letters = found == verdicts_.end() ? "" : found->second;
  std::string text;
  for (std::size_t first = 0; first < letters.size();) {
    const std::size_t end = std::min(letters.find_first_not_of(letters[first], first), letters.size());
    text += (text.empty() ? "" : ", ") + std::to_string(end - first) +
            (letters[first] == 'c' ? " compressed" : " native");
    first = end;
  }
  return text;
}

void Program::expect_verdicts(const std::string& kind, const std::string& wanted) const {
  const std::string got = verdicts(kind);
  expect(got == wanted, kind + ": " + got + "; expected " + wanted);
}

void Program::expect_why(const char* collective, const std::string& start) const {
  const std::string got = why(comm_, collective);
  expect(got.starts_with(start), std::string(collective) + ": " + got + "; expected " + start);
}

std::vector<Outcome> run_trace(const std::vector<int>& node_of, const Environment& more,
                               const std::function<void(RankContext&)>& body) {
  Environment environment{
      {"SDP4BIT_MIN_BYTES", "0"}, {"SDP4BIT_OWN_SHARD", "replica"}, {"SDP4BIT_LOG", "info"}};
  environment.insert(environment.end(), more.begin(), more.end());
  auto outcomes = run_cluster({.node_of = node_of, .environment = environment}, body);
  REQUIRE(failures(outcomes) == "");
  for (const Outcome& outcome : outcomes) REQUIRE(outcome.result == outcomes[0].result);
  return outcomes;
}

Environment job_of(int ranks) {
  return {{"WORLD_SIZE", std::to_string(ranks)}};
}

ncclComm_t split(RankContext& rank, int color, const char* name) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
#if NCCL_VERSION_CODE >= 22700
  config.commName = name;
#else
  (void)name;
#endif
  ncclComm_t comm = nullptr;
  check(ncclCommSplit(rank.comm, color, rank.rank, &comm, &config));
  return comm;
}

}  // namespace sdp4bit::test
