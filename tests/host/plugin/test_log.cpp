// Lines that cannot be written end no program, and what they quote makes no lines of its own.
#include "plugin/log.h"

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "catch.h"

namespace {

/// In a process of its own: what becomes of `body`, as waitpid() says it.
template <typename Body>
int status_of(Body body) {
  std::fflush(nullptr);
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::signal(SIGPIPE, SIG_DFL);
    ::signal(SIGXFSZ, SIG_DFL);
    ::_exit(body());
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status;
}

bool write_to_nobody() {
  int ends[2];
  return ::pipe(ends) == 0 && ::close(ends[0]) == 0 && ::dup2(ends[1], STDERR_FILENO) == STDERR_FILENO;
}

bool is_pending(int signal) {
  sigset_t pending;
  ::sigpending(&pending);
  return ::sigismember(&pending, signal) == 1;
}

}  // namespace

TEST_CASE("Log.WhoReadsItMayBeGone") {
  CHECK(status_of([] {
          if (!write_to_nobody()) return 1;
          for (int i = 0; i < 3; ++i) sdp4bit::log_warn("a line that nobody reads");
          return is_pending(SIGPIPE) ? 2 : 0;
        }) == 0);
}

TEST_CASE("Log.AFileMayBeAsLongAsItIsAllowedToBe") {
  CHECK(status_of([] {
          std::FILE* const file = std::tmpfile();
          if (!file || ::dup2(::fileno(file), STDERR_FILENO) != STDERR_FILENO) return 1;
          const rlimit none{0, 0};
          if (::setrlimit(RLIMIT_FSIZE, &none) != 0) return 1;
          sdp4bit::log_warn("a line for which there is no room");
          return is_pending(SIGXFSZ) ? 2 : 0;
        }) == 0);
}

TEST_CASE("Log.ASignalThatTheProgramHoldsBackStaysPending") {
  CHECK(status_of([] {
          sigset_t pipes;
          ::sigemptyset(&pipes);
          ::sigaddset(&pipes, SIGPIPE);
          ::pthread_sigmask(SIG_BLOCK, &pipes, nullptr);
          ::raise(SIGPIPE);
          if (!write_to_nobody()) return 1;
          sdp4bit::log_warn("a line that nobody reads");
          return is_pending(SIGPIPE) ? 0 : 2;
        }) == 0);
}

TEST_CASE("Log.NothingThatALineQuotesBeginsALine") {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  CHECK(status_of([&] {
          if (::dup2(ends[1], STDERR_FILENO) != STDERR_FILENO) return 1;
          sdp4bit::log_warn("cannot write %s", "/no/such\nsdp4bit error \x1b[31mforged\r\x7f");
          return 0;
        }) == 0);
  char text[256] = {};
  REQUIRE(::read(ends[0], text, sizeof text - 1) > 0);
  ::close(ends[0]);
  ::close(ends[1]);
  const std::string line = text;
  CHECK(line.substr(line.find(": ")) == ": cannot write /no/such?sdp4bit error ?[31mforged??\n");
}
