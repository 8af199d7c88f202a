// usage: loads_module MODULE [take|deep]: loads a library RTLD_LOCAL and runs its job. `take`: loads sdp4bit
// after it, and has it take the calls. `deep`: loads the library RTLD_DEEPBIND.
#include <dlfcn.h>
#include <sdp4bit/sdp4bit.h>

#include <cstdio>
#include <cstring>

namespace {

int fail(const char* what) {
  std::fprintf(stderr, "%s\n", what);
  return 1;
}

}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return fail("usage: loads_module MODULE [take|deep]");
  const bool deep = count > 2 && std::strcmp(arguments[2], "deep") == 0;
  void* const module = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL | (deep ? RTLD_DEEPBIND : 0));
  if (module == nullptr) return fail(dlerror());
  if (count > 2 && std::strcmp(arguments[2], "take") == 0) {
    void* const library = dlopen("libsdp4bit.so.0", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return fail(dlerror());
    const auto take = reinterpret_cast<sdp4bitTakeCallsFunction>(dlsym(library, "sdp4bitTakeCalls"));
    if (take == nullptr || take(nullptr) <= 0) return fail("no calls were taken");
  }
  const auto job = reinterpret_cast<int (*)()>(dlsym(module, "module_job"));
  return job != nullptr ? job() : fail(dlerror());
}
