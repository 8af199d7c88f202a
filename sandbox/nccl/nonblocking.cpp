// The helper thread: detached, but waited for by everyone who would take something from under it.
#include "sandbox/nccl/nonblocking.h"

#include <utility>

namespace sandbox::nccl {

Helper::~Helper() {
  wait();
}

void Helper::start(std::function<void()> job) {
  wait();
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->running = true;
  }
  std::thread([shared = shared_, work = std::move(job)]() mutable {
    {
      const std::lock_guard lock(shared->mutex);
      shared->thread = std::this_thread::get_id();
    }
    work();
    work = nullptr;  // drops what the job kept alive while this thread still counts as running
    const std::lock_guard lock(shared->mutex);
    shared->running = false;
    shared->thread = {};
    shared->changed.notify_all();
  }).detach();
}

void Helper::wait() {
  std::unique_lock lock(shared_->mutex);
  if (shared_->thread == std::this_thread::get_id()) return;
  shared_->changed.wait(lock, [this] { return !shared_->running; });
}

}  // namespace sandbox::nccl
