// Children, threads, and steps in order; see execute.h.
#include "execute.h"

#include <dlfcn.h>
#include <sdp4bit/sdp4bit.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "rank.h"

namespace sdp4bit::model {
namespace {

using Ranks = std::vector<std::unique_ptr<Rank>>;

/// Runs all steps for some ranks: one, by its own thread, or all of a process, in groups.
class Driver {
 public:
  Driver(const Program& program, const Plan& plan, Trace& trace, int first, int count, int first_device)
      : program_(program), shared_(trace.shared()) {
    for (int i = 0; i < count; ++i) {
      ranks_.push_back(std::make_unique<Rank>(program, plan, trace, first + i, first_device + i));
    }
  }

  void run() {
    for (std::size_t step = 0; step < program_.steps.size(); ++step) {
      try {
        run_step(step, program_.steps[step]);
      } catch (const std::exception& error) {
        throw std::runtime_error("step " + std::to_string(step) + ": " + error.what());
      }
    }
    each([](Rank& rank) { rank.synchronize(); });
    each([](Rank& rank) { rank.examine(); });
    for (const Step& step : program_.steps) {
      if (step.action == Action::create) each([&](Rank& rank) { rank.destroy(step.target); });
    }
  }

 private:
  [[nodiscard]] bool alone() const { return ranks_.size() == 1; }

  template <typename Do>
  void each(Do act) {
    for (const auto& rank : ranks_) {
      rank->select();
      act(*rank);
    }
  }

  template <typename Do>
  void grouped(bool group, Do act) {
    if (group) check(ncclGroupStart());
    each(act);
    if (group) check(ncclGroupEnd());
    for (const auto& rank : ranks_) rank->settle();
  }

  void run_step(std::size_t index, const Step& step) {
    switch (step.action) {
      case Action::create:
        if (step.birth == Birth::shrink_abort) all_idle(index);
        each([&](Rank& rank) { rank.offer_id(step); });
        grouped(!alone(), [&](Rank& rank) { rank.create(step); });
        each([&](Rank& rank) { rank.created(step); });
        break;
      case Action::destroy:
        each([&](Rank& rank) { rank.destroy(step.target, step.finalized); });
        break;
      case Action::abort:
      case Action::revoke:
        each([&](Rank& rank) { rank.allocate(step); });
        all_idle(index);
        end_while_busy(step);
        break;
      case Action::hint:
        each([&](Rank& rank) { rank.hint(step); });
        break;
      case Action::reset:
        each([&](Rank& rank) { rank.reset(step); });
        break;
      case Action::differ:
        differ(step);
        break;
      case Action::refused:
        each([&](Rank& rank) { rank.refused(step); });
        break;
      case Action::simulate:
        simulate(step);
        break;
      case Action::group:
        run_calls(step,
                  [&](Rank& rank, const Call& call) { rank.prepare(index, call, 0, rank.stream_of(call)); });
        each_call(step, [&](Rank& rank, const Call& call) { rank.finish(call, rank.stream_of(call)); });
        break;
      case Action::capture:
        graphs_.emplace(step.target, std::make_pair(&step, std::uint64_t{0}));
        each([&](Rank& rank) { rank.allocate(step); });
        each([&](Rank& rank) { rank.begin_capture(step, !alone()); });
        grouped(!alone() || step.calls.size() > 1, [&](Rank& rank) {
          for (const Call& call : step.calls) rank.issue(call, step.stream);
        });
        each([&](Rank& rank) { rank.end_capture(step); });
        break;
      case Action::replay: {
        auto& [graph, times] = graphs_.at(step.target);
        const std::uint64_t repeat = times++;
        each_call(*graph,
                  [&](Rank& rank, const Call& call) { rank.prepare(index, call, repeat, step.stream); });
        each([&](Rank& rank) { rank.replay(step); });
        each_call(*graph, [&](Rank& rank, const Call& call) { rank.finish(call, step.stream); });
        break;
      }
      case Action::delay:
        each([&](Rank& rank) { rank.delay(step); });
        break;
      case Action::synchronize:
        each([&](Rank& rank) { rank.synchronize(); });
        break;
      default:
        each([&](Rank& rank) { rank.change(step); });
        break;
    }
  }

  /// What is under way when a communicator is aborted gives no results: here is nothing.
  void all_idle(std::size_t step) {
    each([](Rank& rank) { rank.synchronize(); });
    shared_.meet(step, program_.ranks(), static_cast<int>(ranks_.size()));
  }

  template <typename Do>
  void each_call(const Step& step, Do act) {
    each([&](Rank& rank) {
      for (const Call& call : step.calls) {
        if (rank.takes_part(call)) act(rank, call);
      }
    });
  }

  void simulate(const Step& step) {
    each([&](Rank& rank) { rank.allocate(step); });
    check(ncclGroupStart());
    each([&](Rank& rank) {
      for (const Call& call : step.calls) {
        if (has(step.ranks, rank.number()) && rank.takes_part(call)) rank.issue(call, rank.stream_of(call));
      }
    });
    ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;
    check(ncclGroupSimulateEnd(&info));
  }

  template <typename Prepare>
  void run_calls(const Step& step, Prepare prepare) {
    each_call(step, prepare);
    const auto starve = [&](bool starving) {
      if (step.starved == 0) return;
      each([&](Rank& rank) {
        if (has(step.starved, rank.number())) rank.starve(starving);
      });
    };
    starve(true);
    issue_all(step);
    starve(false);
  }

  void issue_all(const Step& step) {
    grouped(!alone() || step.calls.size() > 1, [&](Rank& rank) {
      for (const Call& call : step.calls) {
        if (rank.takes_part(call)) rank.issue(call, rank.stream_of(call));
      }
    });
  }

  /// Some ranks' calls wait for others that never come, perhaps on the host: this thread ends that, as a
  /// watchdog does.
  void end_while_busy(const Step& step) {
    std::atomic<bool> calling{step.calls.empty()};
    std::jthread busy([&] {
      if (step.calls.empty()) return;
      try {
        bool first = true;
        for (const auto& rank : ranks_) {
          if (!has(step.ranks, rank->number())) continue;
          rank->select();
          if (std::exchange(first, false)) check(ncclGroupStart());
          calling.store(true);
          for (const Call& call : step.calls) {
            if (rank->takes_part(call)) rank->issue(call, rank->stream_of(call));
          }
        }
        calling.store(true);
        if (!first) check(ncclGroupEnd());
      } catch (const std::exception&) {
        // It may fail in any way.
      }
    });
    while (!calling.load()) std::this_thread::sleep_for(std::chrono::microseconds(50));
    std::this_thread::sleep_for(std::chrono::milliseconds(step.milliseconds));
    const bool aborts = step.action == Action::abort;
    each([&](Rank& rank) { aborts ? rank.abort(step.target) : rank.revoke(step.target); });
    busy.join();
    if (!aborts) each([&](Rank& rank) { rank.expect_refusals(step.target); });
    each([](Rank& rank) { rank.synchronize(); });
    each([&](Rank& rank) { aborts ? rank.forget(step.target) : rank.destroy(step.target); });
  }

  /// Every rank has to hear of it.
  void differ(const Step& step) {
    const Call& usual = step.calls[0];
    Call longer = usual;
    ++longer.count;
    each([&](Rank& rank) {
      if (rank.takes_part(longer)) rank.allocate_for(longer);
    });
    if (!alone()) check(ncclGroupStart());
    bool refused = false;
    each([&](Rank& rank) {
      if (!rank.takes_part(usual)) return;
      refused = !rank.try_to_issue(has(step.ranks, rank.number()) ? longer : usual) || refused;
    });
    if (!alone()) refused = ncclGroupEnd() == ncclInvalidUsage || refused;
    if (!refused && ranks_.front()->takes_part(usual))
      throw std::runtime_error("a call went on that is not the same on all ranks");
    each([](Rank& rank) { rank.synchronize(); });
  }

  const Program& program_;
  Shared& shared_;
  Ranks ranks_;
  std::map<int, std::pair<const Step*, std::uint64_t>> graphs_;  // and how often they were replayed
};

void count(ProcessCounts& counts) {
  const auto get_calls = reinterpret_cast<sdp4bitGetCallsFunction>(::dlsym(RTLD_DEFAULT, "sdp4bitGetCalls"));
  if (!get_calls) throw std::runtime_error("the library is not preloaded");
  (void)get_calls("reduce_scatter", &counts.gradients, &counts.compressed_gradients);
  (void)get_calls("all_gather", &counts.gathers, &counts.compressed_gathers);
  counts.kinds = sandboxNcclGetCalls(counts.calls.data(), counts.calls.size());
}

void run_process(const Program& program, const Plan& plan, Trace& trace, int process) {
  int first = 0;
  for (int before = 0; before < process; ++before)
    first += program.processes[static_cast<std::size_t>(before)].devices;
  const int devices = program.processes[static_cast<std::size_t>(process)].devices;
  check(cudaSetDevice(0));
  check(cudaHostRegister(trace.records(), trace.record_bytes(), cudaHostRegisterPortable));
  const auto run = [&](int rank, int ranks) {
    try {
      Driver(program, plan, trace, first + rank, ranks, rank).run();
    } catch (const std::exception& error) {
      trace.shared().fail(("rank " + std::to_string(first + rank) + ", " + error.what()).c_str());
    }
  };
  if (program.threads) {
    std::vector<std::thread> threads;
    for (int device = 0; device < devices; ++device) threads.emplace_back(run, device, 1);
    for (std::thread& thread : threads) thread.join();
  } else {
    run(0, devices);
  }
  if (trace.shared().failed.load() == 0) count(trace.shared().counts[static_cast<std::size_t>(process)]);
}

[[noreturn]] void run_child(const Program& program, const Plan& plan, Trace& trace, int process, int log) {
  ::dup2(log, STDERR_FILENO);
  try {
    ::setenv("NCCL_HOSTID",
             ("node" + std::to_string(program.processes[static_cast<std::size_t>(process)].node)).c_str(), 1);
    ::setenv("SANDBOX_DEVICES",
             std::to_string(program.processes[static_cast<std::size_t>(process)].devices).c_str(), 1);
    ::setenv("SANDBOX_NCCL_TIMEOUT", "20", 0);
    for (const Variable& variable : program.variables) {
      if (variable.process == -1 || variable.process == process)
        ::setenv(variable.name.c_str(), variable.value.c_str(), 1);
    }
    run_process(program, plan, trace, process);
  } catch (const std::exception& error) {
    trace.shared().fail(error.what());
  }
  if (trace.shared().failed.load() != 0) ::_exit(1);  // threads may still wait for each other
  std::exit(0);
}

std::string text_of(std::FILE* file) {
  std::string text;
  std::rewind(file);
  char block[4096];
  while (const std::size_t bytes = std::fread(block, 1, sizeof block, file)) text.append(block, bytes);
  return text;
}

std::string describe(int process, int status) {
  const std::string who = "process " + std::to_string(process);
  if (WIFSIGNALED(status)) return who + " was ended by signal " + std::to_string(WTERMSIG(status)) + "\n";
  return who + " ended with " + std::to_string(WEXITSTATUS(status)) + "\n";
}

}  // namespace

std::string execute(const Program& program, const Plan& plan, Trace& trace, double seconds) {
  std::FILE* const log = std::tmpfile();
  if (!log) throw std::runtime_error("no temporary file");
  std::fflush(nullptr);
  std::vector<pid_t> children;
  for (int process = 0; process < static_cast<int>(program.processes.size()); ++process) {
    const pid_t child = ::fork();
    if (child < 0) throw std::runtime_error("fork failed");
    if (child == 0) run_child(program, plan, trace, process, ::fileno(log));
    children.push_back(child);
  }
  std::string failure;
  const auto start = std::chrono::steady_clock::now();
  std::size_t left = children.size();
  while (left > 0) {
    for (std::size_t i = 0; i < children.size(); ++i) {
      int status = 0;
      if (children[i] < 0 || ::waitpid(children[i], &status, WNOHANG) == 0) continue;
      children[i] = -1;
      --left;
      if (status != 0) failure += describe(static_cast<int>(i), status);
    }
    if (left > 0 &&
        std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds) {
      failure += "not at its end after " + std::to_string(seconds) + " s\n";
      for (pid_t& child : children) {
        if (child < 0) continue;
        ::kill(child, SIGKILL);
        ::waitpid(child, nullptr, 0);
        --left;
      }
    }
    if (left > 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  if (trace.shared().failed.load() == 2)
    failure = std::string(trace.shared().failure.data()) + "\n" + failure;
  if (!failure.empty()) failure += text_of(log);
  std::fclose(log);
  return failure;
}

}  // namespace sdp4bit::model
