// Forks the ranks, gives them their node and their communicator, and collects what they say.
#include "cluster.h"

#include <dlfcn.h>
#include <sdp4bit/sdp4bit.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <thread>

namespace sdp4bit::test {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& text) {
  throw std::runtime_error(text);
}

std::string at(const char* file, int line) {
  return std::string(file) + ":" + std::to_string(line) + ": ";
}

/// A file without a name that a child writes and its parent reads.
class Pad {
 public:
  Pad() : file_(std::tmpfile()) {
    if (!file_) fail("no temporary file");
  }
  ~Pad() { std::fclose(file_); }
  Pad(const Pad&) = delete;
  Pad& operator=(const Pad&) = delete;
  [[nodiscard]] int descriptor() const { return ::fileno(file_); }
  void write(const void* data, std::size_t bytes) const {
    if (std::fwrite(data, 1, bytes, file_) != bytes || std::fflush(file_) != 0) fail("writing a result");
  }
  [[nodiscard]] Bytes read() const {
    Bytes content;
    std::rewind(file_);
    std::byte block[65536];
    while (const std::size_t bytes = std::fread(block, 1, sizeof block, file_)) {
      content.insert(content.end(), block, block + bytes);
    }
    return content;
  }

 private:
  std::FILE* file_;
};

struct RankPads {
  Pad failure, log, result;
  pid_t process = -1;
};

/// Where rank 0 leaves the id for the others: memory that forked processes share.
struct Meeting {
  std::atomic<int> ready{0};
  ncclUniqueId id;
};

std::string text_of(const Bytes& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

void apply(const Environment& environment) {
  for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
}

void run_rank(const Cluster& cluster, int rank, Meeting& meeting, RankPads& pads,
              const std::function<void(RankContext&)>& body) {
  ::dup2(pads.log.descriptor(), STDERR_FILENO);
  int code = 0;
  try {
    ::setenv("NCCL_HOSTID",
             ("node" + std::to_string(cluster.node_of[static_cast<std::size_t>(rank)])).c_str(), 1);
    apply(cluster.environment);
    if (cluster.environment_of_rank) apply(cluster.environment_of_rank(rank));
    RankContext context{.rank = rank, .ranks = static_cast<int>(cluster.node_of.size()), .result = {}};
    check(cudaSetDevice(0));
    if (rank == 0) {
      check(ncclGetUniqueId(&meeting.id));
      meeting.ready.store(1);
    }
    const auto deadline = Clock::now() + std::chrono::seconds(cluster.timeout_seconds);
    while (meeting.ready.load() == 0) {
      if (Clock::now() > deadline) fail("rank 0 never gave its id");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    context.id = meeting.id;
    check(cudaStreamCreateWithFlags(&context.stream, cudaStreamNonBlocking));
    if (cluster.connect) check(ncclCommInitRank(&context.comm, context.ranks, context.id, rank));
    body(context);
    if (context.comm) check(ncclCommDestroy(context.comm));
    check(cudaStreamDestroy(context.stream));
    pads.result.write(context.result.data(), context.result.size());
  } catch (const std::exception& error) {
    pads.failure.write(error.what(), std::strlen(error.what()));
    code = 1;
  }
  std::exit(code);  // runs the libraries' own exit handlers, as any program's end does
}

void wait_all(std::vector<RankPads>& ranks, int timeout_seconds) {
  const auto deadline = Clock::now() + std::chrono::seconds(timeout_seconds);
  auto end_of_grace = Clock::time_point::max();  // once a rank failed, the others may wait for it for ever
  for (std::size_t left = ranks.size(); left > 0;) {
    for (RankPads& rank : ranks) {
      int status = 0;
      if (rank.process < 0 || ::waitpid(rank.process, &status, WNOHANG) != rank.process) continue;
      rank.process = -1;
      --left;
      if (status == 0) continue;
      end_of_grace = std::min(end_of_grace, Clock::now() + std::chrono::seconds(10));
      std::string text;
      if (WIFSIGNALED(status)) {
        text = "ended by signal " + std::to_string(WTERMSIG(status));
      } else if (rank.failure.read().empty()) {  // a sanitizer does so, behind what it writes to the log
        text = "ended with code " + std::to_string(WEXITSTATUS(status)) + ":\n" + text_of(rank.log.read());
      }
      rank.failure.write(text.data(), text.size());
    }
    if (Clock::now() > std::min(deadline, end_of_grace)) {
      for (RankPads& rank : ranks) {
        if (rank.process < 0) continue;
        ::kill(rank.process, SIGKILL);
        ::waitpid(rank.process, nullptr, 0);
        rank.process = -1;
        const std::string text = "did not end in time";
        rank.failure.write(text.data(), text.size());
      }
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

}  // namespace

void expect(bool condition, const std::string& text) {
  if (!condition) fail(text);
}

void check(cudaError_t error, const char* file, int line) {
  if (error != cudaSuccess) fail(at(file, line) + cudaGetErrorName(error));
}

void check(ncclResult_t result, const char* file, int line) {
  if (result != ncclSuccess) fail(at(file, line) + ncclGetErrorString(result));
}

std::vector<int> even_nodes(int nodes, int local_ranks) {
  std::vector<int> node_of;
  for (int rank = 0; rank < nodes * local_ranks; ++rank) node_of.push_back(rank / local_ranks);
  return node_of;
}

std::vector<Outcome> run_cluster(const Cluster& cluster, const std::function<void(RankContext&)>& body) {
  void* const shared =
      ::mmap(nullptr, sizeof(Meeting), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (shared == MAP_FAILED) fail("no shared memory");
  Meeting& meeting = *new (shared) Meeting;
  std::vector<RankPads> ranks(cluster.node_of.size());
  std::fflush(nullptr);
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    ranks[rank].process = ::fork();
    if (ranks[rank].process < 0) fail("fork failed");
    if (ranks[rank].process == 0) run_rank(cluster, static_cast<int>(rank), meeting, ranks[rank], body);
  }
  wait_all(ranks, cluster.timeout_seconds);
  ::munmap(shared, sizeof(Meeting));
  std::vector<Outcome> outcomes;
  for (const RankPads& rank : ranks) {
    outcomes.push_back({text_of(rank.failure.read()), text_of(rank.log.read()), rank.result.read()});
  }
  return outcomes;
}

std::string failures(const std::vector<Outcome>& outcomes) {
  std::string text;
  for (std::size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (outcomes[rank].failure.empty()) continue;
    text += "rank " + std::to_string(rank) + ": " + outcomes[rank].failure + "\n" + outcomes[rank].log;
  }
  return text;
}

CallCounts calls_of(const char* collective) {
  const auto get_calls = reinterpret_cast<sdp4bitGetCallsFunction>(::dlsym(RTLD_DEFAULT, "sdp4bitGetCalls"));
  CallCounts counts;
  if (get_calls) expect(get_calls(collective, &counts.all, &counts.compressed) == 0, "sdp4bitGetCalls");
  return counts;
}

DeviceBytes::DeviceBytes(std::size_t bytes) : bytes_(bytes) {
  check(cudaMalloc(reinterpret_cast<void**>(&data_), bytes ? bytes : 1));
}

DeviceBytes::DeviceBytes(const Bytes& content) : DeviceBytes(content.size()) {
  write(content);
}

DeviceBytes::~DeviceBytes() {
  (void)cudaFree(data_);
}

void DeviceBytes::write(const Bytes& content, std::size_t offset) {
  check(cudaMemcpy(data_ + offset, content.data(), content.size(), cudaMemcpyHostToDevice));
}

Bytes DeviceBytes::read() const {
  Bytes content(bytes_);
  check(cudaMemcpy(content.data(), data_, bytes_, cudaMemcpyDeviceToHost));
  return content;
}

}  // namespace sdp4bit::test
