// Device memory of a case, and the numbers that it holds.
#include "device_memory.h"

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/element.h"

namespace sdp4bit::bench {
namespace {

/// Sixteen-bit halves of a 64-bit generator, four summed: near enough to a normal distribution, and fast
/// enough for gigabytes.
class Gaussian {
 public:
  explicit Gaussian(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  float operator()() {
    state_ += 0x9e3779b97f4a7c15u;
    std::uint64_t z = state_;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    z ^= z >> 31;
    float sum = -2.0f;
    for (unsigned i = 0; i < 4; ++i) sum += static_cast<float>(z >> (16 * i) & 0xffff) * 0x1p-16f;
    return sum * 1.7320508f;
  }

 private:
  std::uint64_t state_;
};

}  // namespace

void check(cudaError_t result) {
  if (result != cudaSuccess) throw std::runtime_error(std::string("CUDA: ") + cudaGetErrorString(result));
}

DeviceMemory::~DeviceMemory() {
  for (const Region& region : regions_) cudaFree(region.data);
}

std::byte* DeviceMemory::zeros(std::size_t bytes) {
  void* data = nullptr;
  check(cudaMalloc(&data, bytes));
  regions_.push_back({static_cast<std::byte*>(data), bytes});
  check(cudaMemset(data, 0, bytes));
  return static_cast<std::byte*>(data);
}

void* DeviceMemory::copy(std::span<const std::byte> content) {
  std::byte* const data = zeros(content.size());
  check(cudaMemcpy(data, content.data(), content.size(), cudaMemcpyHostToDevice));
  return data;
}

std::byte* DeviceMemory::gaussian_bfloat16(std::size_t count, unsigned seed, float spread) {
  Gaussian next(seed);
  std::vector<std::uint16_t> content(count);
  for (std::uint16_t& element : content) element = from_float<BFloat16>(spread * next()).bits;
  return reinterpret_cast<std::byte*>(copy_of(content));
}

std::byte* DeviceMemory::gaussian_float32(std::size_t count, unsigned seed) {
  Gaussian next(seed);
  std::vector<float> content(count);
  for (float& element : content) element = next();
  return reinterpret_cast<std::byte*>(copy_of(content));
}

}  // namespace sdp4bit::bench
