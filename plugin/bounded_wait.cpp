// Asks again and again, and looks at the communicator in between.
#include "plugin/bounded_wait.h"

#include <chrono>
#include <string>
#include <thread>

#include "plugin/boundary.h"
#include "plugin/real_nccl.h"
#include "plugin/watchdog.h"

namespace sdp4bit {
namespace {

template <typename Done>
void poll(CommState& comm, const char* what, Done done, std::uint64_t call = 0) {
  constexpr auto kLongest = std::chrono::minutes(30);  // longer than any framework's own timeout
  const auto start = std::chrono::steady_clock::now();
  const WatchedWait watched(what, comm.subject(), call);
  for (unsigned round = 0;; ++round) {
    ncclResult_t state = ncclSuccess;
    {
      const StayFromAbort stay(comm);
      check(real_nccl().comm_get_async_error(comm.handle, &state));
    }
    check(state);
    if (done(state)) return;
    if (std::chrono::steady_clock::now() - start > kLongest) {
      throw Error(
          ncclSystemError,
          std::string(what) +
              " has not ended after 30 minutes: some rank is gone, or waits in another call; the logs of "
              "the other ranks say where");
    }
    if (round < 64) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }
}

}  // namespace

void wait_bounded(CommState& comm, const Event& event, const char* what, std::uint64_t call) {
  if (!event.recorded()) throw Error(ncclInternalError, std::string(what) + " was never begun");
  poll(
      comm, what, [&](ncclResult_t) { return event.finished(); }, call);
}

void wait_bounded(CommState& comm, const std::function<bool()>& reached, const char* what) {
  poll(comm, what, [&](ncclResult_t) { return reached(); });
}

void wait_ready(CommState& comm) {
  poll(comm, "a communicator that does not block",
       [](ncclResult_t state) { return state != ncclInProgress; });
}

}  // namespace sdp4bit
