// Runs one launch: hands its blocks to the pool and the calling thread until all have finished or one failed.
#include <xmmintrin.h>

#include <sched.h>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <deque>

#include "sandbox/ptx/address_space.h"
#include "sandbox/ptx/module.h"
#include "sandbox/ptx/pool.h"
#include "sandbox/ptx/print.h"

namespace sandbox::ptx {
namespace {

constexpr std::size_t kMaximumSharedBytes = 227 * 1024;

bool checking() {
  const char* text = std::getenv("SANDBOX_CHECK");
  return !(text && text[0] == '0' && text[1] == '\0');
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double time_limit() {
  const char* text = std::getenv("SANDBOX_KERNEL_TIMEOUT");
  return text ? std::atof(text) : 0;
}

/// The processor's floating-point mode while kernels run: nearest, nothing flushed, no traps.
class FloatMode {
 public:
  FloatMode() : before_(_mm_getcsr()) { _mm_setcsr(0x1f80); }
  ~FloatMode() { _mm_setcsr(before_); }
  FloatMode(const FloatMode&) = delete;
  FloatMode& operator=(const FloatMode&) = delete;

 private:
  unsigned before_;
};

/// Where the blocks of a cooperative launch meet: device memory that the kernel finds through %envreg1 and
/// %envreg2, as cooperative groups expect it. Its barrier counts arrivals.
class GridWorkspace {
 public:
  explicit GridWorkspace(int device) : words_(std::make_unique<Words>()) {
    AddressSpace::instance().adopt(words_.get(), sizeof(Words), device, MemoryKind::module_variable);
  }
  ~GridWorkspace() { AddressSpace::instance().disown(words_.get()); }
  GridWorkspace(const GridWorkspace&) = delete;
  GridWorkspace& operator=(const GridWorkspace&) = delete;
  std::uint64_t address() const { return reinterpret_cast<std::uint64_t>(words_.get()); }

 private:
  struct alignas(16) Words {
    std::uint32_t bytes = sizeof(Words);
    std::uint32_t barrier = 0;
  };
  std::unique_ptr<Words> words_;
};

class LaunchRun : public Work {
 public:
  LaunchRun(Kernel& kernel, const LaunchContext& context, unsigned threads, std::uint64_t blocks)
      : kernel_(kernel), context_(context), threads_(threads), total_(blocks) {}

  bool step() override {
    std::unique_ptr<BlockRun> block;
    if (!take(block)) return false;
    BlockRun::Status status = BlockRun::Status::finished;
    {
      const FloatMode mode;
      try {
        if (!failed_.load(std::memory_order_relaxed)) status = block->run();
      } catch (const Fault& fault) {
        fail(fault);
      }
    }
    give(std::move(block), status);
    if (status == BlockRun::Status::yielded) ::sched_yield();
    return true;
  }

  void finish() {
    for (;;) {
      if (step()) continue;
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return finished_ == total_ || !waiting_.empty() || next_ < total_; });
      if (finished_ == total_) return;
    }
  }

  std::optional<Fault> fault() const { return fault_; }
  const WarpCounters& work() const { return work_; }

 private:
  /// The next piece: a suspended block, or a new one. New blocks join suspended ones only when those have
  /// been round many times without one of them finishing: they may be waiting for blocks that have not begun.
  /// Those of a cooperative launch surely are.
  bool take(std::unique_ptr<BlockRun>& block) {
    std::uint64_t index = 0;
    {
      std::lock_guard lock(mutex_);
      const bool more = next_ < total_;
      // A thread of the pool may come when all is done and the launch is gone: it must be asked only while
      // blocks are left.
      const bool start = more && (context_.launch->cooperative || resumed_ > 16 * (waiting_.size() + 2));
      if (!waiting_.empty() && !start) {
        block = std::move(waiting_.front());
        waiting_.pop_front();
        ++resumed_;
        return true;
      }
      if (!more) return false;
      if (failed_) {  // the rest never begins
        finished_ += total_ - next_;
        next_ = total_;
        changed_.notify_all();
        return false;
      }
      index = next_++;
      resumed_ = 0;
      if (!spare_.empty()) {
        block = std::move(spare_.back());
        spare_.pop_back();
      }
    }
    try {
      if (!block) block = kernel_.take_block(context_, threads_);
      block->start(context_, index);
    } catch (const Fault& fault) {
      fail(fault);
      finish_one();
      return false;
    }
    return true;
  }

  void give(std::unique_ptr<BlockRun> block, BlockRun::Status status) {
    std::lock_guard lock(mutex_);
    if (status == BlockRun::Status::yielded && !failed_) {
      waiting_.push_back(std::move(block));
      changed_.notify_one();
      return;
    }
    resumed_ = 0;
    block->collect(work_);
    spare_.push_back(std::move(block));
    if (failed_) {
      finished_ += waiting_.size();
      for (auto& suspended : waiting_) spare_.push_back(std::move(suspended));
      waiting_.clear();
    }
    if (++finished_ == total_) {
      for (auto& idle : spare_) kernel_.give_block(std::move(idle), context_.launch->device);
      spare_.clear();
      changed_.notify_all();
    }
  }

  void finish_one() {
    std::lock_guard lock(mutex_);
    if (++finished_ == total_) changed_.notify_all();
  }

  void fail(const Fault& fault) {
    std::lock_guard lock(mutex_);
    if (!fault_) fault_ = fault;
    failed_ = true;
  }

  Kernel& kernel_;
  const LaunchContext& context_;
  const unsigned threads_;
  const std::uint64_t total_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t next_ = 0, finished_ = 0;
  std::uint64_t resumed_ = 0;  // since a block last began or finished
  std::deque<std::unique_ptr<BlockRun>> waiting_;
  std::vector<std::unique_ptr<BlockRun>> spare_;
  std::atomic<bool> failed_{false};
  std::optional<Fault> fault_;
  WarpCounters work_;
};

std::optional<Fault> check_launch(const Kernel& kernel, const Launch& launch) {
  const auto invalid = [&](const std::string& what) {
    return Fault{FaultKind::invalid_launch, "kernel " + kernel.demangled + ": " + what};
  };
  const Dim3 b = launch.block, g = launch.grid;
  if (b.x == 0 || b.y == 0 || b.z == 0 || g.x == 0 || g.y == 0 || g.z == 0)
    return invalid("an empty grid or block");
  const std::uint64_t threads = std::uint64_t{b.x} * b.y * b.z;
  if (threads > static_cast<std::uint64_t>(kernel.attributes.max_threads_per_block) || b.x > 1024 ||
      b.y > 1024 || b.z > 64)
    return invalid(std::to_string(threads) + " threads in a block");
  if (g.x > 0x7fffffffu || g.y > 65535 || g.z > 65535) return invalid("a grid beyond the device's limits");
  if (launch.dynamic_shared_bytes + kernel.attributes.static_shared_bytes > kMaximumSharedBytes)
    return invalid(std::to_string(launch.dynamic_shared_bytes) + " bytes of dynamic shared memory");
  if (std::uint64_t{launch.cluster.x} * launch.cluster.y * launch.cluster.z > 1)
    return Fault{FaultKind::unsupported, "kernel " + kernel.demangled + ": clusters of several blocks"};
  return std::nullopt;
}

}  // namespace

std::optional<Fault> refusal(Kernel& kernel, const Launch& launch) {
  if (auto fault = check_launch(kernel, launch)) return fault;
  try {
    kernel.program();
  } catch (const Fault& fault) {
    return fault;
  }
  return std::nullopt;
}

std::optional<Fault> run(Kernel& kernel, const Launch& launch) {
  static std::atomic<std::uint64_t> launches{0};
  if (auto fault = refusal(kernel, launch)) return fault;
  Printer printer;
  LaunchContext context;
  std::optional<Fault> fault;
  try {
    context.program = &kernel.program();
    context.launch = &launch;
    context.kernel_name = kernel.demangled;
    context.grid_id = launches.fetch_add(1) + 1;
    context.printer = &printer;
    std::optional<GridWorkspace> workspace;
    if (launch.cooperative) context.grid_workspace = workspace.emplace(launch.device).address();
    context.check = checking();
    if (const double limit = time_limit(); limit > 0) context.deadline = now() + limit;
    context.address_of = [&](const Variable& variable) {
      return reinterpret_cast<std::uint64_t>(kernel.module.memory_of(variable, launch.device).address);
    };
    const std::uint64_t blocks = std::uint64_t{launch.grid.x} * launch.grid.y * launch.grid.z;
    auto run = std::make_shared<LaunchRun>(kernel, context, launch.block.x * launch.block.y * launch.block.z,
                                           blocks);
    if (blocks > 1) Pool::instance().offer(run);
    run->finish();
    if (blocks > 1) Pool::instance().withdraw(*run);
    kernel.count(run->work());
    fault = run->fault();
  } catch (const Fault& thrown) {
    fault = thrown;
  }
  printer.flush();
  return fault;
}

}  // namespace sandbox::ptx
