// Ranks are processes: starts them on this machine, or finds out which one this is when someone else started
// it.
#include "launch.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "check.h"

namespace collectives {
namespace {

namespace fs = std::filesystem;

constexpr auto kIdPatience = std::chrono::seconds(120);

// A folder that is gone when its owner is.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string name = (fs::temp_directory_path() / "collectives-XXXXXX").string();
    if (!mkdtemp(name.data())) throw std::runtime_error("cannot make a temporary folder: " + name);
    path_ = name;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

std::optional<int> integer_variable(const char* name) {
  const char* text = std::getenv(name);
  if (!text) return std::nullopt;
  int value = 0;
  const char* end = text + std::strlen(text);
  const auto [rest, error] = std::from_chars(text, end, value);
  if (error != std::errc() || rest != end) return std::nullopt;
  return value;
}

[[noreturn]] void become_rank(int rank, const Options& options, std::vector<char*> arguments) {
  const int ranks = options.nodes * options.ranks_per_node;
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(ranks).c_str(), 1);
  // Every rank is on this machine, whatever node it plays, so every one needs a device of its own.
  setenv("LOCAL_RANK", std::to_string(rank).c_str(), 1);
  setenv("NCCL_HOSTID", ("node" + std::to_string(rank / options.ranks_per_node)).c_str(), 1);
  setenv("SANDBOX_DEVICES", std::to_string(ranks).c_str(), 0);
  execv("/proc/self/exe", arguments.data());
  std::perror("collectives: cannot start a rank");
  _exit(127);
}

int exit_status(int wait_status) {
  return WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : 128 + WTERMSIG(wait_status);
}

}  // namespace

int start_ranks(const Options& options, int argc, char** argv) {
  const TemporaryFolder folder;
  std::string option = "--id-file", file = (folder.path() / "id").string();
  std::vector<char*> arguments(argv, argv + argc);
  arguments.insert(arguments.end(), {option.data(), file.data(), nullptr});

  std::vector<pid_t> running;
  for (int rank = 0; rank < options.nodes * options.ranks_per_node; ++rank) {
    const pid_t child = fork();
    if (child == 0) become_rank(rank, options, arguments);
    if (child < 0) throw std::runtime_error("cannot fork");
    running.push_back(child);
  }
  // The first rank that fails takes the others with it: they would wait for it for ever.
  int result = 0;
  while (!running.empty()) {
    int status = 0;
    const pid_t ended = wait(&status);
    std::erase(running, ended);
    if (exit_status(status) != 0 && result == 0) {
      result = exit_status(status);
      for (const pid_t other : running) kill(other, SIGTERM);
    }
  }
  return result;
}

RankIdentity identify_rank() {
  static constexpr const char* kNames[][3] = {
      {"RANK", "WORLD_SIZE", "LOCAL_RANK"},
      {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"},
      {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"},
      {"SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID"},
  };
  for (const auto& [rank, ranks, local_rank] : kNames) {
    const auto rank_value = integer_variable(rank), ranks_value = integer_variable(ranks);
    if (rank_value && ranks_value && *rank_value >= 0 && *rank_value < *ranks_value) {
      return {*rank_value, *ranks_value, integer_variable(local_rank).value_or(*rank_value)};
    }
  }
  throw std::runtime_error(
      "--id-file is for ranks started by mpirun, torchrun or srun, and none of their variables is set");
}

ncclUniqueId share_unique_id(const std::string& path, const RankIdentity& identity) {
  ncclUniqueId id;
  if (identity.rank == 0) {
    if (fs::exists(path))
      throw std::runtime_error(path + " exists already: it may be of another run; remove it");
    check(ncclGetUniqueId(&id));
    // Written aside and renamed: whoever sees the file sees all of it.
    const std::string unfinished = path + ".unfinished";
    std::ofstream(unfinished, std::ios::binary).write(id.internal, sizeof id.internal);
    fs::rename(unfinished, path);
    return id;
  }
  const auto give_up = std::chrono::steady_clock::now() + kIdPatience;
  while (!fs::exists(path)) {
    if (std::chrono::steady_clock::now() > give_up) throw std::runtime_error("rank 0 never wrote " + path);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  if (!std::ifstream(path, std::ios::binary).read(id.internal, sizeof id.internal)) {
    throw std::runtime_error("cannot read " + path);
  }
  return id;
}

}  // namespace collectives
