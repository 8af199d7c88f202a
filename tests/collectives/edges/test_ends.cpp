// Processes and threads that end at odd moments: the library never keeps them from ending, and works until
// they do.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>

#include "catch.h"
#include "life_case.h"
#include "tests/collectives/statistics/statistics.h"

namespace sdp4bit::test {
namespace {

const GradientCase kGradient{.count = 900};

/// What a process that ends needs in its last moments; never freed, as a program's own globals are not when
/// it exits.
struct Job {
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  std::unique_ptr<Reduction> call;
  std::unique_ptr<DeviceBytes> weights;

  void step() const {
    call->issue(comm, stream);
    check(ncclAllGather(weights->data(), weights->data(), 50, ncclBfloat16, comm, stream));
  }
};
Job* job = nullptr;

void start_job(RankContext& rank) {
  job = new Job{std::exchange(rank.comm, nullptr), new_stream(),
                std::make_unique<Reduction>(kGradient, rank.rank, rank.ranks),
                std::make_unique<DeviceBytes>(Bytes(400))};
  for (int i = 0; i < 6; ++i) job->step();
  check(cudaStreamSynchronize(job->stream));
}

/// Runs a job that ends its process by itself; it must end, soon and without a signal.
std::vector<Outcome> run_to_its_end(const std::function<void(RankContext&)>& body,
                                    const Environment& more = {}) {
  Environment environment = kEverything;
  environment.insert(environment.end(), more.begin(), more.end());
  return run_cluster({.node_of = even_nodes(2, 1), .environment = environment, .timeout_seconds = 20},
                     [&](RankContext& rank) {
                       start_job(rank);
                       body(rank);
                       expect(false, "the process should have ended");
                     });
}

/// Where statistics go; gone with the test.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/sdp4bit_ends_XXXXXX";
    expect(::mkdtemp(name) != nullptr, "a folder");
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] Environment environment() const {
    return {{"SDP4BIT_STATS", path_ + "/%p.json"},
            {"SDP4BIT_METRICS", path_ + "/%p.prom"},
            {"SDP4BIT_LOG", "info"}};
  }
  [[nodiscard]] std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_))
      names.insert(entry.path().filename());
    return names;
  }

 private:
  std::string path_;
};

void sleep_ms(int milliseconds) {
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
}

TEST_CASE("Ends.ByQuickExitAndByUnderscoreExit") {
  for (const bool quick : {true, false}) {
    const auto outcomes = run_to_its_end([=](RankContext&) {
      for (int i = 0; i < 3; ++i) job->step();
      if (!quick) ::_exit(0);
      (void)std::at_quick_exit([] {
        job->step();
        check(cudaStreamSynchronize(job->stream));
      });
      std::quick_exit(0);
    });
    CHECK(failures(outcomes) == "");
  }
}

/// Handlers that were registered before the library's run after it.
TEST_CASE("Ends.CallsOfExitHandlersStillWork") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kEverything, .timeout_seconds = 20},
                  [](RankContext& rank) {
                    (void)std::atexit([] {
                      for (int i = 0; i < 3; ++i) job->step();
                      if (cudaStreamSynchronize(job->stream) != cudaSuccess) ::_exit(3);
                      if (ncclCommDestroy(job->comm) != ncclSuccess) ::_exit(4);
                      if (calls_of("reduce_scatter").compressed != 7) ::_exit(5);
                    });
                    start_job(rank);
                  });
  CHECK(failures(outcomes) == "");
}

/// A peer that never comes leaves this rank inside NCCL; the handler of a signal ends the process there.
TEST_CASE("Ends.ByASignalHandlerInsideACallThatWaits") {
  for (const bool exits : {true, false}) {
    const auto outcomes = run_to_its_end(
        [=](RankContext& rank) {
          if (rank.rank == 1) {
            sleep_ms(800);
            ::_exit(0);
          }
          ::signal(
              SIGTERM, exits ? +[](int) { std::exit(0); } : +[](int) { ::_exit(0); });
          std::thread([main = ::pthread_self()] {
            sleep_ms(300);
            ::pthread_kill(main, SIGTERM);
          }).detach();
          ncclComm_t child = nullptr;
          (void)ncclCommSplit(job->comm, 0, 0, &child, nullptr);  // waits for rank 1
        },
        {{"SANDBOX_NCCL_TIMEOUT", "60"}});
    CHECK(failures(outcomes) == "");
  }
}

/// While this very thread holds what the library's own exit handler needs, as it does most of the time.
TEST_CASE("Ends.ByASignalHandlerThatExitsInsideTheLibrary") {
  for (int round = 0; round < 2; ++round) {
    const auto outcomes = run_cluster({.node_of = even_nodes(2, 1),
                                       .environment = everything_and("SDP4BIT_LOG", "info"),
                                       .timeout_seconds = 20},
                                      [](RankContext& rank) {
                                        // Registered first, runs last: what other libraries do at exit is not
                                        // asked here.
                                        (void)std::atexit([] { ::_exit(0); });
                                        start_job(rank);
                                        ::signal(SIGTERM, [](int) { std::exit(1); });
                                        std::thread([main = ::pthread_self()] {
                                          sleep_ms(50);
                                          ::pthread_kill(main, SIGTERM);
                                        }).detach();
                                        std::uint64_t all = 0;
                                        while (true)
                                          (void)library().get_calls("reduce_scatter", &all, nullptr);
                                      });
    CHECK(failures(outcomes) == "");
  }
}

TEST_CASE("Ends.ByExitWhileAnotherThreadCalls") {
  const Folder folder;
  for (int round = 0; round < 6; ++round) {
    const auto outcomes = run_to_its_end(
        [=](RankContext&) {
          std::thread([] {
            check(cudaSetDevice(0));
            while (job->call->try_on(job->comm, job->stream) == ncclSuccess) {
            }
            ::pause();
          }).detach();
          sleep_ms(2 + 5 * round);
          std::exit(0);
        },
        folder.environment());
    CHECK(failures(outcomes) == "");
  }
}

/// A child of fork, such as a loader of data, has copies of its parent's counters and none of its threads.
TEST_CASE("Ends.AForkedChildWritesNothing") {
  const Folder folder;
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1),
                   .environment =
                       [&] {
                         Environment all = kEverything;
                         for (const auto& each : folder.environment()) all.push_back(each);
                         return all;
                       }()},
                  [](RankContext& rank) {
                    // Registered first, runs last: what the emulated device does at the end is not asked
                    // here.
                    (void)std::atexit([] { ::_exit(0); });
                    const Reduction call(kGradient, rank.rank, rank.ranks);
                    for (int i = 0; i < 4; ++i) call.issue(rank.comm, rank.stream);
                    check(cudaStreamSynchronize(rank.stream));
                    const auto start = std::chrono::steady_clock::now();
                    const pid_t child = ::fork();
                    if (child == 0) std::exit(7);
                    int status = 0;
                    expect(::waitpid(child, &status, 0) == child && status == 0, "the child ends");
                    expect(std::chrono::steady_clock::now() - start < std::chrono::seconds(2), "at once");
                    const std::string pid = std::to_string(::getpid());
                    rank.result.resize(pid.size());
                    std::memcpy(rank.result.data(), pid.data(), pid.size());
                  });
  REQUIRE(failures(outcomes) == "");
  std::set<std::string> wanted;
  for (const Outcome& outcome : outcomes) {
    const std::string pid(reinterpret_cast<const char*>(outcome.result.data()), outcome.result.size());
    wanted.insert(pid + ".json");
    wanted.insert(pid + ".prom");
  }
  CHECK(folder.files() == wanted);
}

/// What such a group held is gone, as with NCCL; communicators that were not in it go on.
TEST_CASE("Ends.AThreadWithAnOpenGroup") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kEverything}, [](RankContext& rank) {
        const Reduction call(kGradient, rank.rank, rank.ranks);
        ncclComm_t left = nullptr;
        check(ncclCommSplit(rank.comm, 0, rank.rank, &left, nullptr));
        for (int i = 0; i < 4; ++i) {
          call.issue(rank.comm, rank.stream);
          call.issue(left, rank.stream);
        }
        std::thread([&] {
          check(cudaSetDevice(0));
          check(ncclGroupStart());
          check(ncclGroupStart());
          call.issue(left, rank.stream);
        }).join();
        for (int i = 0; i < 3; ++i) call.issue(rank.comm, rank.stream);
        check(cudaStreamSynchronize(rank.stream));
        expect(calls_of("reduce_scatter").compressed == 5, "those of the open group never ran");
        check(ncclCommAbort(left));
        call.issue(rank.comm, rank.stream);
        check(cudaStreamSynchronize(rank.stream));
      });
  CHECK(failures(outcomes) == "");
}

/// Its destructor runs behind that of everything the library keeps for the thread.
struct LastCaller {
  std::function<void()> call;
  ~LastCaller() {
    if (call) call();
  }
};

TEST_CASE("Ends.AThreadWhoseLastDestructorCalls") {
  const auto outcomes =
      run_cluster({.node_of = even_nodes(2, 1), .environment = kEverything}, [](RankContext& rank) {
        const Reduction call(kGradient, rank.rank, rank.ranks);
        for (int i = 0; i < 3; ++i) call.issue(rank.comm, rank.stream);
        for (int round = 0; round < 3; ++round) {
          ncclResult_t alone = ncclInternalError, grouped = ncclInternalError;
          std::thread([&] {
            static thread_local LastCaller last;  // made before the library is called
            last.call = [&] {
              alone = call.try_on(rank.comm, rank.stream);
              (void)ncclGroupStart();
              (void)call.try_on(rank.comm, rank.stream);
              grouped = ncclGroupEnd();
            };
            check(cudaSetDevice(0));
            call.issue(rank.comm, rank.stream);
          }).join();
          expect(alone == ncclSuccess && grouped == ncclSuccess, "the last calls work");
        }
        check(cudaStreamSynchronize(rank.stream));
        expect(calls_of("reduce_scatter").compressed == 9, "and are compressed");
      });
  CHECK(failures(outcomes) == "");
}

}  // namespace
}  // namespace sdp4bit::test
