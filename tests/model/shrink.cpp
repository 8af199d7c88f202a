// Tries what is left out one by one, larger pieces first; see run.h.
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>

#include "run.h"

namespace sdp4bit::model {
namespace {

/// What two failures of the same cause have in common: the first words, without numbers.
std::string kind_of(const std::string& failure) {
  std::string kind;
  for (const char character : failure.substr(0, failure.find(" on communicator"))) {
    if (character < '0' || character > '9') kind += character;
    if (kind.size() == 24) break;
  }
  return kind;
}

class Shrinker {
 public:
  Shrinker(Program program, const std::string& failure, double seconds)
      : best_(std::move(program)),
        kind_(kind_of(failure)),
        end_(std::chrono::steady_clock::now() +
             std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000))) {}

  Program shrink() {
    for (bool smaller = true; smaller && !late();) {
      smaller = drop_steps();
      smaller = drop_calls() || smaller;
      smaller = drop_variables() || smaller;
      smaller = drop_ranks() || smaller;
      smaller = simplify() || smaller;
    }
    return best_;
  }

 private:
  [[nodiscard]] bool late() const { return std::chrono::steady_clock::now() > end_; }

  /// Keeps the change if the program still makes sense and fails.
  bool attempt(const std::function<void(Program&)>& change) {
    if (late()) return false;
    Program candidate = best_;
    change(candidate);
    if (print(candidate) == print(best_)) return false;
    Tally tally;
    try {
      if (kind_of(run(candidate, tally)) != kind_) return false;
    } catch (const std::exception&) {
      return false;  // makes no sense
    }
    best_ = std::move(candidate);
    return true;
  }

  /// Leaves out runs of `count` things, shorter and shorter ones, from the end.
  bool drop(std::size_t count, const std::function<void(Program&, std::size_t, std::size_t)>& erase) {
    bool smaller = false;
    for (std::size_t length = std::max<std::size_t>(count / 2, 1); count > 0; length /= 2) {
      for (std::size_t end = count; end > 0;) {
        const std::size_t begin = end > length ? end - length : 0;
        if (attempt([&](Program& program) { erase(program, begin, end); })) {
          smaller = true;
          count -= end - begin;
        }
        end = begin;
      }
      if (length == 1) break;
    }
    return smaller;
  }

  template <typename Things>
  static void cut(Things& things, std::size_t begin, std::size_t end) {
    end = std::min(end, things.size());
    if (begin < end) {
      things.erase(things.begin() + static_cast<std::ptrdiff_t>(begin),
                   things.begin() + static_cast<std::ptrdiff_t>(end));
    }
  }

  bool drop_steps() {
    return drop(best_.steps.size(),
                [](Program& program, std::size_t begin, std::size_t end) { cut(program.steps, begin, end); });
  }
  bool drop_calls() {
    bool smaller = false;
    for (std::size_t step = 0; step < best_.steps.size(); ++step) {
      const std::size_t calls = best_.steps[step].calls.size();
      if (calls < 2) continue;
      smaller = drop(calls, [step](Program& program, std::size_t begin,
                                   std::size_t end) { cut(program.steps[step].calls, begin, end); }) ||
                smaller;
    }
    return smaller;
  }
  bool drop_variables() {
    return drop(best_.variables.size(), [](Program& program, std::size_t begin, std::size_t end) {
      cut(program.variables, begin, end);
    });
  }
  bool drop_ranks() {
    bool smaller = false;
    for (std::size_t process = best_.processes.size(); process-- > 0;) {
      if (best_.processes.size() > 1) {
        smaller = attempt([&](Program& program) { cut(program.processes, process, process + 1); }) || smaller;
      }
      while (process < best_.processes.size() && best_.processes[process].devices > 1 &&
             attempt([&](Program& program) { --program.processes[process].devices; })) {
        smaller = true;
      }
    }
    return smaller;
  }

  /// Everything that makes a call or a weight special, for all calls at once and then one by one.
  bool simplify() {
    using Change = std::function<void(Call&)>;
    const Change changes[] = {
        [](Call& call) { call.count = std::min<std::size_t>(call.count, 1); },
        [](Call& call) { call.count = std::min<std::size_t>(call.count, 32); },
        [](Call& call) { call.other_stream = 0; },
        [](Call& call) { call.in_place = 0; },
        [](Call& call) { call.misaligned = 0; },
        [](Call& call) { call.overwrite = 0; },
        [](Call& call) { call.nested = 0; },
        [](Call& call) { call.bad_rank = -1; },
        [](Call& call) { call.drift = 0; },
        [](Call& call) { call.data = Data::whole; },
        [](Call& call) {
          call.reduction = call.reduction == Reduction::max ? Reduction::max : Reduction::sum;
        },
        [](Call& call) { call.stream = 0; },
        [](Call& call) { call.type = ncclFloat32; },
    };
    bool smaller = false;
    for (const Change& change : changes) {
      smaller = attempt([&](Program& program) {
                  for (Step& step : program.steps)
                    std::for_each(step.calls.begin(), step.calls.end(), change);
                }) ||
                smaller;
      for (std::size_t step = 0; step < best_.steps.size(); ++step) {
        smaller = attempt([&](Program& program) {
                    for (Call& call : program.steps[step].calls) change(call);
                  }) ||
                  smaller;
      }
    }
    const std::function<void(Step&)> plainer[] = {
        [](Step& step) { step.nonblocking = 0; }, [](Step& step) { step.name.clear(); },
        [](Step& step) { step.starved = 0; }, [](Step& step) { step.birth = Birth::split; },
        [](Step& step) { step.reversed = false; }};
    for (const auto& change : plainer) {
      for (std::size_t step = 0; step < best_.steps.size(); ++step)
        smaller = attempt([&](Program& program) { change(program.steps[step]); }) || smaller;
    }
    for (std::size_t weight = 0; weight < best_.weights.size(); ++weight) {
      smaller = attempt([&](Program& program) { program.weights[weight].kept = 0; }) || smaller;
      for (const std::size_t count : {1u, 32u, 128u}) {
        smaller = attempt([&](Program& program) {
                    program.weights[weight].count =
                        std::min<std::size_t>(program.weights[weight].count, count);
                  }) ||
                  smaller;
      }
      smaller = attempt([&](Program& program) { program.weights[weight].misaligned = false; }) || smaller;
    }
    return smaller;
  }

  Program best_;
  const std::string kind_;
  const std::chrono::steady_clock::time_point end_;
};

}  // namespace

Program shrink(Program program, const std::string& failure, double seconds) {
  ::setenv("SANDBOX_NCCL_TIMEOUT", "2", 1);  // many candidates hang
  return Shrinker(std::move(program), failure, seconds).shrink();
}

}  // namespace sdp4bit::model
