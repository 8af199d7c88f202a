// A GPU: how long a launch takes, and its share of what a copy of the same bytes reaches.
#include <algorithm>
#include <stdexcept>

#include "machine.h"

namespace sdp4bit::bench {
namespace {

class Event {
 public:
  Event() { check(cudaEventCreate(&event_)); }
  ~Event() { cudaEventDestroy(event_); }
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Seconds of the median repeat. Each repeat works on memory that left the cache in between: `evict` is
/// larger than it and written every time.
double median_seconds(int repeats, const std::function<cudaError_t(cudaStream_t)>& launch, std::byte* evict,
                      std::size_t evict_bytes) {
  std::vector<double> seconds;
  const Event begin, end;
  for (int i = -2; i < repeats; ++i) {
    check(cudaMemsetAsync(evict, i & 0xff, evict_bytes, nullptr));
    check(cudaEventRecord(begin.get(), nullptr));
    check(launch(nullptr));
    check(cudaEventRecord(end.get(), nullptr));
    check(cudaEventSynchronize(end.get()));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin.get(), end.get()));
    if (i >= 0) seconds.push_back(static_cast<double>(milliseconds) * 1e-3);
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2),
                   seconds.end());
  return seconds[seconds.size() / 2];
}

constexpr std::size_t kEvictedBytes = std::size_t{256} << 20;

}  // namespace

Machine::Machine(const Options& options) : options_(options) {
  if (!options.record.empty())
    throw std::invalid_argument("--record is for the emulated machine: use the program in sandbox/bin");
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0)
    throw std::runtime_error("no GPU; the program of this name in sandbox/bin counts on an emulated one");
  int device = 0, driver = 0, runtime = 0;
  check(cudaGetDevice(&device));
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device));
  check(cudaDriverGetVersion(&driver));
  check(cudaRuntimeGetVersion(&runtime));
  name_ = properties.name;
  DeviceMemory memory;
  constexpr std::size_t bytes = std::size_t{512} << 20;
  std::byte* const from = memory.zeros(bytes);
  std::byte* const to = memory.zeros(bytes);
  const double seconds = median_seconds(
      options.repeats,
      [=](cudaStream_t stream) { return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream); },
      memory.zeros(kEvictedBytes), kEvictedBytes);
  copy_bytes_per_second_ = 2.0 * static_cast<double>(bytes) / seconds;
  facts_ = {{"compute_capability", std::to_string(properties.major) + "." + std::to_string(properties.minor)},
            {"cuda_driver", std::to_string(driver)},
            {"cuda_runtime", std::to_string(runtime)},
            {"copy_gigabytes_per_second", std::to_string(copy_bytes_per_second_ * 1e-9)}};
}

std::size_t Machine::default_count() {
  return std::size_t{64} << 20;
}

std::vector<Figure> Machine::measure(const Case& row, PreparedCase& prepared) {
  DeviceMemory evict;
  const double seconds =
      median_seconds(options_.repeats, prepared.launch, evict.zeros(kEvictedBytes), kEvictedBytes);
  const auto bytes = static_cast<double>(prepared.read_bytes + prepared.written_bytes);
  (void)row;
  return {{"microseconds", seconds * 1e6},
          {"megabytes", bytes * 1e-6},
          {"gigabytes_per_second", bytes / seconds * 1e-9},
          {"share_of_copy", bytes / seconds / copy_bytes_per_second_}};
}

}  // namespace sdp4bit::bench
