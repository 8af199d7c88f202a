// The helper thread that finishes what a call on a non-blocking communicator began.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace sandbox::nccl {

// One at a time: start() waits for the job before. A helper may be shared by the communicators of a group.
class Helper {
 public:
  Helper() = default;
  Helper(const Helper&) = delete;
  Helper& operator=(const Helper&) = delete;
  ~Helper();

  // `job` must not throw. It keeps alive what it uses.
  void start(std::function<void()> job);
  // Returns when no job runs. Called by the job itself it returns at once.
  void wait();

 private:
  struct Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool running = false;
    std::thread::id thread;
  };
  std::shared_ptr<Shared> shared_ = std::make_shared<Shared>();
};

}  // namespace sandbox::nccl
