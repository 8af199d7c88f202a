// Workers go round the offered launches, so that all of them make progress.
#include "sandbox/ptx/pool.h"

#include <algorithm>
#include <chrono>

namespace sandbox::ptx {

Pool& Pool::instance() {
  // Never destroyed: workers may still run while the program exits.
  static auto* const pool = new Pool;
  return *pool;
}

Pool::Pool() {
  const unsigned workers = std::max(1u, std::thread::hardware_concurrency());
  for (unsigned k = 0; k < workers; ++k) std::thread([this] { serve(); }).detach();
}

void Pool::offer(const std::shared_ptr<Work>& work) {
  {
    std::lock_guard lock(mutex_);
    offered_.push_back(work);
  }
  wake_.notify_all();
}

void Pool::withdraw(const Work& work) {
  std::lock_guard lock(mutex_);
  std::erase_if(offered_, [&](const auto& other) { return other.get() == &work; });
}

void Pool::serve() {
  std::size_t idle = 0;
  for (;;) {
    std::shared_ptr<Work> work;
    {
      std::unique_lock lock(mutex_);
      if (!offered_.empty() && idle > offered_.size())  // everything offered is in others' hands
        wake_.wait_for(lock, std::chrono::milliseconds(1));
      wake_.wait(lock, [this] { return !offered_.empty(); });
      work = offered_[turn_++ % offered_.size()];
    }
    idle = work->step() ? 0 : idle + 1;
  }
}

}  // namespace sandbox::ptx
