// Runs an ordinary NCCL program on an emulated cluster: one forked process for each rank, nodes by
// NCCL_HOSTID.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace sdp4bit::test {

using Bytes = std::vector<std::byte>;
using Environment = std::vector<std::pair<std::string, std::string>>;

/// Throw std::runtime_error: how a rank says that something is wrong. The launcher hands the text to the
/// test.
void expect(bool condition, const std::string& text);
void check(cudaError_t error, const char* file = __builtin_FILE(), int line = __builtin_LINE());
void check(ncclResult_t result, const char* file = __builtin_FILE(), int line = __builtin_LINE());

/// What the function of a rank gets.
struct RankContext {
  int rank = 0;
  int ranks = 1;
  ncclUniqueId id{};
  ncclComm_t comm = nullptr;  // all ranks, unless Cluster::connect is false
  cudaStream_t stream = nullptr;
  Bytes result;  // handed back to the test
};

struct Cluster {
  std::vector<int> node_of;  // of each rank
  Environment environment;   // of all ranks
  std::function<Environment(int rank)> environment_of_rank = nullptr;
  bool connect = true;
  int timeout_seconds = 100;
};

/// What became of a rank.
struct Outcome {
  std::string failure;  // "" if its function returned
  std::string log;      // what it wrote to stderr
  Bytes result;
};

/// Ranks in node order: `nodes` times `local_ranks`.
[[nodiscard]] std::vector<int> even_nodes(int nodes, int local_ranks);

/// Runs `body` for every rank. Never throws for what happens in a rank: look at the outcomes.
[[nodiscard]] std::vector<Outcome> run_cluster(const Cluster& cluster,
                                               const std::function<void(RankContext&)>& body);

/// All failures as one text, "" if there are none: REQUIRE(failures(outcomes) == "").
[[nodiscard]] std::string failures(const std::vector<Outcome>& outcomes);

/// Calls that the preloaded library counted in this process; zeros where none is preloaded.
struct CallCounts {
  std::uint64_t all = 0;
  std::uint64_t compressed = 0;
};
[[nodiscard]] CallCounts calls_of(const char* collective);

/// Device memory with the alignment of cudaMalloc.
class DeviceBytes {
 public:
  explicit DeviceBytes(std::size_t bytes);
  explicit DeviceBytes(const Bytes& content);
  ~DeviceBytes();
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  void write(const Bytes& content, std::size_t offset = 0);
  [[nodiscard]] Bytes read() const;

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace sdp4bit::test
