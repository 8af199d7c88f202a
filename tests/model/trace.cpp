// Memory for traces; see trace.h.
#include "trace.h"

#include <sys/mman.h>

#include <chrono>
#include <cstdio>
#include <new>
#include <stdexcept>
#include <thread>

namespace sdp4bit::model {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t up(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage * kPage;
}

}  // namespace

void Shared::fail(const char* text) {
  int expected = 0;
  if (!failed.compare_exchange_strong(expected, 1)) return;
  std::snprintf(failure.data(), failure.size(), "%s", text);
  failed.store(2);
}

void Shared::meet(std::size_t step, int ranks, int coming) {
  at_barrier.at(step).fetch_add(coming);
  while (at_barrier[step].load() < ranks) {
    if (failed.load() != 0) throw std::runtime_error("another rank failed");
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

Trace::Trace(std::size_t record_bytes)
    : record_bytes_(up(record_bytes + 1)), bytes_(up(sizeof(Shared)) + record_bytes_) {
  void* const memory = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::runtime_error("no memory for a trace");
  shared_ = new (memory) Shared{};
  records_ = static_cast<std::byte*>(memory) + up(sizeof(Shared));
}

Trace::~Trace() {
  ::munmap(shared_, bytes_);
}

}  // namespace sdp4bit::model
