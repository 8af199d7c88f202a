// usage: lookups NCCL NCCL: eight threads ask which copy a call reaches and for its functions, 40,000 times,
// while the second copy comes. Made of the library's own sources, so that sanitizers see them.
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <thread>
#include <vector>

#include "plugin/loaded_object.h"
#include "plugin/real_nccl.h"

namespace {

const sdp4bit::RealNccl* copy_in(void* library) {
  const auto object = sdp4bit::LoadedObject::at(dlsym(library, "pncclAllGather"));
  for (const sdp4bit::RealNccl* nccl : sdp4bit::loaded_nccls()) {
    if (object && nccl->identity == object->identity()) return nccl;
  }
  return nullptr;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 3) return 2;
  void* const first = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (first == nullptr) return std::printf("%s\n", dlerror()), 2;
  void* const address_in_first = dlsym(first, "ncclAllGather");
  constexpr int kThreads = 8, kTimes = 5000;
  std::atomic<int> wrong{0}, started{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      ++started;
      for (int time = 0; time < kTimes; ++time) {
        // An address in the first copy: NCCL's own calls stay in it. Different ones, so that few were asked
        // before.
        const auto caller = static_cast<const char*>(address_in_first) + time % 64;
        const sdp4bit::RealNccl& nccl = sdp4bit::nccl_reached_from(caller);
        if (nccl.index != 0 || nccl.all_gather == nullptr || nccl.group_end == nullptr || nccl.version == 0)
          ++wrong;
      }
    });
  }
  while (started < kThreads) std::this_thread::yield();
  void* const second = dlopen(arguments[2], RTLD_NOW | RTLD_LOCAL);
  const sdp4bit::RealNccl* const of_second = second != nullptr ? copy_in(second) : nullptr;
  for (std::thread& thread : threads) thread.join();
  if (wrong != 0 || of_second == nullptr || of_second->index != 1) {
    std::printf("%d lookups were wrong, the second copy is %s\n", wrong.load(),
                of_second ? "known" : "unknown");
    return 1;
  }
  return &sdp4bit::nccl_reached_from(dlsym(second, "ncclAllGather")) == of_second ? 0 : 1;
}
