// Waiting for a rank that is not there yet: it is dead only if it said which process it is, and that one
// ended.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <memory>
#include <string>

#include "catch.h"
#include "sandbox/nccl/transport.h"

namespace {

using namespace sandbox::nccl;

/// A process of its own, which lives until it is let go.
class Child {
 public:
  Child() : process_(fork()) {
    if (process_ == 0) {
      pause();
      _exit(0);
    }
  }
  ~Child() { end(); }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  [[nodiscard]] pid_t process() const { return process_; }
  void end() {
    if (process_ <= 0) return;
    kill(process_, SIGKILL);
    waitpid(process_, nullptr, 0);
    process_ = 0;
  }

 private:
  pid_t process_;
};

/// What waiting for rank 1 ends with.
std::string end_of_wait(Endpoint& endpoint) {
  Waiter waiter(endpoint, Signature{}, 0.5);
  try {
    while (true) waiter.pause(waiter.bell(), 1);
  } catch (const Failure& failure) {
    return failure.text;
  }
}

}  // namespace

TEST_CASE("Arrival.ARankThatStopsWhileItComesIsNotDead") {
  const std::shared_ptr<Segment> segment = Segment::attach(Segment::create(), 2);
  Endpoint endpoint(segment, 0, "test");
  Child child;
  // As between two lines of its arrival: the number of its process is there, when it began is not.
  segment->rank(1).process = child.process();
  segment->rank(1).presence = Presence::arriving;
  CHECK(end_of_wait(endpoint).find("gave up after 0.5 s") != std::string::npos);
}

TEST_CASE("Arrival.ARankWhoseProcessEndedIsDead") {
  const std::shared_ptr<Segment> segment = Segment::attach(Segment::create(), 2);
  Endpoint endpoint(segment, 0, "test");
  Child child;
  segment->rank(1).process = child.process();
  segment->rank(1).process_start = 1;
  segment->rank(1).presence = Presence::present;
  child.end();
  CHECK(end_of_wait(endpoint).find("whose process ended") != std::string::npos);
}
