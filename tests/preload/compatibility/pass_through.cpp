// usage: pass_through LIBNCCL NAME...: prints those functions of NCCL whose calls come to the preloaded
// library.
#include <dlfcn.h>

#include <cstdio>
#include <cstring>

int main(int count, char** arguments) {
  if (count < 2 || dlopen(arguments[1], RTLD_NOW | RTLD_GLOBAL) == nullptr) {
    std::fprintf(stderr, "%s\n", count < 2 ? "no library" : dlerror());
    return 1;
  }
  for (int i = 2; i < count; ++i) {
    void* const function = dlsym(RTLD_DEFAULT, arguments[i]);
    Dl_info where{};
    if (function == nullptr || dladdr(function, &where) == 0) {
      std::fprintf(stderr, "%s leads nowhere\n", arguments[i]);
      return 1;
    }
    if (std::strstr(where.dli_fname, "libsdp4bit.so") != nullptr) std::puts(arguments[i]);
  }
  return 0;
}
