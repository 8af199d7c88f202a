// The emulated devices of the process: created at the first call, left in order at exit and after fork.
#include "device.h"

#include <pthread.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "counters.h"
#include "sandbox/ptx/address_space.h"
#include "stream.h"

namespace sandbox::cudart {
namespace {

constexpr std::size_t kDefaultDevices = 4;
constexpr std::size_t kDefaultMemoryBytes = std::size_t{2} << 30;
constexpr auto kExitPatience = std::chrono::seconds(2);

std::atomic<bool> g_exiting{false};
std::atomic<bool> g_forked{false};
std::atomic<int> g_active{0};
thread_local int t_device = 0;
thread_local int t_host_functions = 0;

/// A number with an optional suffix K, M or G.
std::size_t setting(const char* variable, std::size_t otherwise, std::size_t most) {
  const char* text = std::getenv(variable);
  if (text == nullptr || *text == '\0') return otherwise;
  const std::string_view view(text);
  std::size_t value = 0;
  auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), value);
  unsigned shift = 0;
  if (error == std::errc() && end + 1 == view.data() + view.size()) {
    if (*end == 'K' || *end == 'k') shift = 10;
    if (*end == 'M' || *end == 'm') shift = 20;
    if (*end == 'G' || *end == 'g') shift = 30;
    if (shift != 0) ++end;
  }
  if (error != std::errc() || end != view.data() + view.size() || value > (most >> shift)) {
    say("%s=%s is not a number up to %zu; using %zu", variable, text, most, otherwise);
    return otherwise;
  }
  return value << shift;
}

/// Work in flight is cut short; what runs now ends before memory and code are torn down.
void at_exit() {
  g_exiting.store(true);
  for (int i = 0; i < device_count(); ++i) device_at(i).cancel.store(true);
  const auto deadline = std::chrono::steady_clock::now() + kExitPatience;
  while (g_active.load() > 0 && std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (const char* wanted = std::getenv("SANDBOX_COUNTERS");
      wanted != nullptr && std::string_view(wanted) == "1") {
    print_counters();
  }
}

/// Never destroyed: streams' threads may outlive every static destructor.
struct Process {
  std::vector<std::unique_ptr<Device>> devices;

  Process() {
    ptx::AddressSpace::instance();  // constructed before, so destroyed after, the exit handler below
    const std::size_t count = setting("SANDBOX_DEVICES", kDefaultDevices, kMaxDevices);
    const std::size_t bytes = setting("SANDBOX_DEVICE_MEMORY", kDefaultMemoryBytes, std::size_t{1} << 46);
    for (std::size_t i = 0; i < count; ++i)
      devices.push_back(std::make_unique<Device>(static_cast<int>(i), bytes));
    pthread_atfork(nullptr, nullptr, [] { g_forked.store(true); });
  }
};

Process& process() {
  static Process& instance = *new Process;
  return instance;
}

/// Separate from Process: the handler must be registered when devices can already be listed.
void register_exit_handler() {
  static const int registered = std::atexit(at_exit);
  (void)registered;
}

}  // namespace

Device::Device(int index_, std::size_t memory_bytes_) : index(index_), memory_bytes(memory_bytes_) {
  ptx::AddressSpace::instance().set_capacity(index, memory_bytes);
  limits[cudaLimitStackSize] = 1024;
  limits[cudaLimitPrintfFifoSize] = std::size_t{1} << 20;
  limits[cudaLimitMallocHeapSize] = std::size_t{8} << 20;
  limits[cudaLimitDevRuntimeSyncDepth] = 2;
  limits[cudaLimitDevRuntimePendingLaunchCount] = 2048;
  limits[cudaLimitMaxL2FetchGranularity] = 64;
  legacy_ = std::make_shared<Stream>(*this, Stream::Kind::legacy, 0U, 0);
}

bool Device::set_sticky(cudaError_t error) {
  cudaError_t none = cudaSuccess;
  return sticky_.compare_exchange_strong(none, error, std::memory_order_acq_rel);
}

void Device::add_stream(const StreamPtr& stream) {
  std::lock_guard lock(order);
  std::erase_if(streams_, [](const auto& known) { return known.expired(); });
  streams_.push_back(stream);
}

std::vector<StreamPtr> Device::streams_locked() {
  std::vector<StreamPtr> live;
  for (const auto& known : streams_) {
    if (auto stream = known.lock()) live.push_back(std::move(stream));
  }
  return live;
}

Completions Device::tails() {
  std::lock_guard lock(order);
  Completions points;
  if (auto tail = legacy_->tail()) points.push_back(std::move(tail));
  for (const auto& stream : streams_locked()) {
    if (auto tail = stream->tail()) points.push_back(std::move(tail));
  }
  return points;
}

void Device::synchronize() {
  for (const auto& point : tails()) point->wait();
}

bool Device::allocation_fails() {
  std::uint64_t left = failing_allocation_.load();
  while (left != 0 && !failing_allocation_.compare_exchange_weak(left, left - 1)) {
  }
  return left == 1;
}

int device_count() {
  return static_cast<int>(process().devices.size());
}

Device& device_at(int index) {
  if (index < 0 || index >= device_count()) fail(cudaErrorInvalidDevice);
  return *process().devices[static_cast<std::size_t>(index)];
}

Device& current_device() {
  if (device_count() == 0) fail(cudaErrorNoDevice);
  return device_at(t_device);
}

void set_current_device(int index) {
  t_device = device_at(index).index;
}

void enter_process() {
  if (g_forked.load(std::memory_order_relaxed)) fail(cudaErrorInitializationError);
  if (t_host_functions > 0) fail(cudaErrorNotPermitted);
  if (process_is_exiting()) fail(cudaErrorCudartUnloading);
  process();
  register_exit_handler();
}

Device& enter() {
  enter_process();
  Device& device = current_device();
  device.check();
  return device;
}

HostFunctionScope::HostFunctionScope() {
  ++t_host_functions;
}
HostFunctionScope::~HostFunctionScope() {
  --t_host_functions;
}

ActiveWork::ActiveWork() {
  g_active.fetch_add(1);
  allowed_ = !g_exiting.load();
}
ActiveWork::~ActiveWork() {
  g_active.fetch_sub(1);
}

bool process_is_exiting() {
  return g_exiting.load();
}

}  // namespace sandbox::cudart
