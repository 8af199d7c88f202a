// One rank of the job as a program of its own, so that each may have another library, another limit and other
// signals: faults_job RANK RANKS ID_FILE [DISTURBANCE STEP]. It says RIGHT (0), ERROR and why (3), or WRONG
// (4).
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "job.h"

namespace {

using namespace sdp4bit;
using test::check;

std::atomic<int> interruptions{0};

/// The id of rank 0, which the others find in a file.
ncclUniqueId meet(int rank, const std::string& path) {
  ncclUniqueId id{};
  if (rank == 0) {
    check(ncclGetUniqueId(&id));
    std::ofstream(path + ".new", std::ios::binary).write(reinterpret_cast<const char*>(&id), sizeof id);
    std::filesystem::rename(path + ".new", path);
    return id;
  }
  while (!std::ifstream(path, std::ios::binary).read(reinterpret_cast<char*>(&id), sizeof id))
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return id;
}

/// The main thread gets it a moment later, in the middle of the next step.
void send_soon(int signal) {
  const pthread_t main_thread = ::pthread_self();
  std::thread([=] {
    std::this_thread::sleep_for(std::chrono::microseconds(1500));
    ::pthread_kill(main_thread, signal);
  }).detach();
}

void fork_and_go_on() {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child == 0) std::exit(0);  // with the handlers of all libraries
  int status = 0;
  if (child < 0 || ::waitpid(child, &status, 0) != child || status != 0)
    throw std::runtime_error("a child ended with status " + std::to_string(status));
}

void disturb(const std::string& what) {
  if (what == "absent") {
    while (true) ::pause();
  } else if (what == "fork") {
    fork_and_go_on();
  } else if (what == "term") {
    send_soon(SIGTERM);
  } else if (what == "crash") {
    struct sigaction handler {};
    handler.sa_handler = [](int) { ::_exit(42); };
    ::sigaction(SIGSEGV, &handler, nullptr);
    send_soon(SIGSEGV);
  } else if (what == "signal") {
    struct sigaction handler {};  // without SA_RESTART
    handler.sa_handler = [](int) { interruptions.fetch_add(1); };
    ::sigaction(SIGALRM, &handler, nullptr);
    const itimerval every_millisecond{{0, 1000}, {0, 1000}};
    ::setitimer(ITIMER_REAL, &every_millisecond, nullptr);
  } else {
    throw std::runtime_error("no such disturbance: " + what);
  }
}

void run(int count, char** words) {
  if (count != 4 && count != 6)
    throw std::runtime_error("usage: faults_job RANK RANKS ID_FILE [DISTURBANCE STEP]");
  const int disturbed_step = count == 6 ? std::atoi(words[5]) : -1;
  test::RankContext rank{.rank = std::atoi(words[1]), .ranks = std::atoi(words[2]), .result = {}};
  check(cudaSetDevice(0));
  if (disturbed_step == 0) disturb(words[4]);
  rank.id = meet(rank.rank, words[3]);
  check(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking));
  int step = 0;
  try {
    faults::run_job(rank, faults::settings()[0], [&](const test::Bytes&) {
      if (++step == disturbed_step) disturb(words[4]);
    });
  } catch (const std::exception&) {
    if (rank.comm) (void)ncclCommAbort(rank.comm);
    throw;
  }
  if (count == 6 && std::string_view(words[4]) == "signal" && interruptions == 0)
    throw std::runtime_error("no signal has come, so nothing was disturbed");
}

}  // namespace

int main(int count, char** words) {
  try {
    run(count, words);
  } catch (const faults::WrongResult& wrong) {
    std::printf("WRONG: %s\n", wrong.text.c_str());
    return 4;
  } catch (const std::exception& failure) {
    std::printf("ERROR: %s\n", failure.what());
    return 3;
  }
  std::printf("RIGHT\n");
  return 0;
}
