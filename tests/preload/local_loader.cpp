// usage: local_loader [FRAMEWORK]: loads it RTLD_LOCAL and calls it; without one calls NCCL where there is
// none.
#include <dlfcn.h>
#include <sdp4bit/sdp4bit.h>

#include <cstdio>

namespace {

int fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  return 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) {
    const auto start = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "ncclGroupStart"));
    return start ? start() : fail("the library is not preloaded");
  }
  void* const framework = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (!framework) return fail(dlerror());
  if (dlsym(RTLD_DEFAULT, "pncclAllGather")) return fail("NCCL is visible to all: this test shows nothing");
  const auto gather = reinterpret_cast<int (*)()>(dlsym(framework, "framework_gather"));
  const auto calls = reinterpret_cast<sdp4bitGetCallsFunction>(dlsym(RTLD_DEFAULT, "sdp4bitGetCalls"));
  if (!gather || !calls) return fail("a function is missing");
  if (const int code = gather()) return std::printf("the gather failed at step %d\n", code), 1;
  uint64_t all = 0;
  if (calls("all_gather", &all, nullptr) != 0 || all != 1) return fail("the call did not come by us");
  return 0;
}
