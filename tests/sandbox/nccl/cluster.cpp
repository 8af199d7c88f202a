// Threads and processes as ranks.
#include "cluster.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

extern char** environ;

namespace cluster {
namespace {

// Before any library reads its environment: enough devices, and errors that come soon.
const bool kPrepared = [] {
  setenv("SANDBOX_DEVICES", "4", 0);
  setenv("SANDBOX_NCCL_TIMEOUT", "30", 0);
  return true;
}();

std::string hex(const ncclUniqueId& id) {
  std::string result;
  char digits[3];
  for (const char byte : id.internal) {
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    result += digits;
  }
  return result;
}

ncclUniqueId id_from(const std::string& text) {
  ncclUniqueId id{};
  for (size_t i = 0; i < sizeof id.internal; ++i) {
    id.internal[i] = static_cast<char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return id;
}

struct Process {
  pid_t pid;
  int output;
};

Process start(const std::string& worker, const Environment& environment) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe");
  std::vector<std::string> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string text = *variable;
    if (environment.count(text.substr(0, text.find('='))) == 0) variables.push_back(text);
  }
  for (const auto& [name, value] : environment) variables.push_back(name + "=" + value);
  std::vector<char*> pointers;
  for (std::string& variable : variables) pointers.push_back(variable.data());
  pointers.push_back(nullptr);
  std::string name = worker;
  char program[] = "/proc/self/exe";
  char* arguments[] = {program, name.data(), nullptr};
  const pid_t pid = fork();
  if (pid == 0) {
    dup2(ends[1], 1);
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    execve(program, arguments, pointers.data());
    _exit(127);
  }
  close(ends[1]);
  return {pid, ends[0]};
}

}  // namespace

void check(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

void check(ncclResult_t result) {
  if (result != ncclSuccess)
    throw std::runtime_error(std::string(ncclGetErrorString(result)) + ": " + ncclGetLastError(nullptr));
}

Buffer::Buffer(size_t bytes) : bytes_(bytes) {
  check(cudaMalloc(&data_, bytes == 0 ? 1 : bytes));
}
Buffer::~Buffer() {
  cudaFree(data_);
}

void run_plain_threads(int count, const std::function<void(int)>& body) {
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::thread> threads;
  for (int index = 0; index < count; ++index) {
    threads.emplace_back([&, index] {
      try {
        body(index);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

void run_threads(int ranks, const std::function<void(const Rank&)>& body) {
  ncclUniqueId id;
  check(ncclGetUniqueId(&id));
  run_plain_threads(ranks, [&](int rank) {
    check(cudaSetDevice(rank));
    ncclComm_t comm = nullptr;
    check(ncclCommInitRank(&comm, ranks, id, rank));
    body({rank, ranks, comm});
    check(cudaDeviceSynchronize());
    check(ncclCommDestroy(comm));
  });
}

Rank join_as_worker(ncclConfig_t* config) {
  Rank self{std::atoi(std::getenv("TEST_RANK")), std::atoi(std::getenv("TEST_RANKS")), nullptr};
  check(cudaSetDevice(0));
  check(ncclCommInitRankConfig(&self.comm, self.ranks, id_from(std::getenv("TEST_ID")), self.rank, config));
  return self;
}

std::vector<Outcome> run_processes(int processes, const std::string& worker, const Environment& common,
                                   const std::vector<Environment>& additional) {
  ncclUniqueId id;
  check(ncclGetUniqueId(&id));
  std::vector<Process> running;
  for (int rank = 0; rank < processes; ++rank) {
    Environment environment = common;
    if (static_cast<size_t>(rank) < additional.size()) {
      for (const auto& [name, value] : additional[static_cast<size_t>(rank)]) environment[name] = value;
    }
    environment["TEST_RANK"] = std::to_string(rank);
    environment["TEST_RANKS"] = std::to_string(processes);
    environment["TEST_ID"] = hex(id);
    running.push_back(start(worker, environment));
  }
  std::vector<Outcome> outcomes;
  for (const Process& process : running) {
    Outcome outcome{};
    char buffer[4096];
    for (ssize_t length = 0; (length = read(process.output, buffer, sizeof buffer)) > 0;) {
      outcome.output.append(buffer, static_cast<size_t>(length));
    }
    close(process.output);
    int status = 0;
    waitpid(process.pid, &status, 0);
    outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcomes.push_back(outcome);
  }
  return outcomes;
}

}  // namespace cluster
