// One point in the history of a stream: whether it was reached, and when.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

namespace sandbox::cudart {

class Completion {
 public:
  using Clock = std::chrono::steady_clock;

  void finish() {
    {
      std::lock_guard lock(mutex_);
      done_ = true;
      when_ = Clock::now();
    }
    changed_.notify_all();
  }
  bool done() const {
    std::lock_guard lock(mutex_);
    return done_;
  }
  void wait() const {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
  }
  /// Only of a finished one.
  Clock::time_point when() const {
    std::lock_guard lock(mutex_);
    return when_;
  }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
  Clock::time_point when_{};
};

using CompletionPtr = std::shared_ptr<Completion>;
using Completions = std::vector<CompletionPtr>;

}  // namespace sandbox::cudart
