// Runs a piece of a program in a process of its own: for failures that stick, exits and forks.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <string>

#include "support.h"

namespace sandbox::test {

struct Ended {
  bool by_signal = false;
  int status = 0;
  std::string text;  // what it wrote to stderr
};

/// Runs a function in a child, which leaves by exit(), like a program that returns from main. CUDA must not
/// have been used before in this process.
inline Ended run_alone(const std::function<int()>& body) {
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    close(ends[0]);
    close(ends[1]);
    alarm(20);
    std::exit(body());
  }
  close(ends[1]);
  Ended ended;
  char buffer[4096];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof buffer)) > 0;) {
    ended.text.append(buffer, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  ended.by_signal = WIFSIGNALED(status);
  ended.status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
  return ended;
}

/// In the child: the number of the first expectation that does not hold, 0 when all do.
class Checks {
 public:
  void that(bool holds) {
    ++count_;
    if (!holds && first_failed_ == 0) first_failed_ = count_;
  }
  void code(cudaError_t got, cudaError_t wanted) { that(got == wanted); }
  int result() const { return first_failed_; }

 private:
  int count_ = 0;
  int first_failed_ = 0;
};

inline void require_clean(const Ended& ended) {
  INFO(ended.text);
  REQUIRE_FALSE(ended.by_signal);
  REQUIRE(ended.status == 0);
}

inline std::size_t lines(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace sandbox::test
