// The workers that all launches share, one a core, beside the threads that launch.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace sandbox::ptx {

/// Something that workers can take pieces of.
class Work {
 public:
  virtual ~Work() = default;
  /// Does one piece if there is one that can be done now.
  virtual bool step() = 0;
};

class Pool {
 public:
  static Pool& instance();
  /// Offers work to the workers until it is withdrawn.
  void offer(const std::shared_ptr<Work>& work);
  void withdraw(const Work& work);

 private:
  Pool();
  void serve();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::shared_ptr<Work>> offered_;
  std::size_t turn_ = 0;
};

}  // namespace sandbox::ptx
