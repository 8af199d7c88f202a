// Stands for a site's own net plugin: it starts and has a device. NCCL asks for nothing more here.
#include <nccl.h>

namespace {

struct Net {
  const char* name;
  ncclResult_t (*init)(void (*)(int, unsigned long, const char*, int, const char*, ...));
  ncclResult_t (*devices)(int*);
  void (*others[14])();
};

}  // namespace

#define SITE_NET(version)                                                                           \
  extern "C" __attribute__((visibility("default"))) const Net ncclNetPlugin_##version;              \
  const Net ncclNetPlugin_##version = {                                                             \
      "site",                                                                                       \
      [](void (*)(int, unsigned long, const char*, int, const char*, ...)) { return ncclSuccess; }, \
      [](int* count) {                                                                              \
        *count = 1;                                                                                 \
        return ncclSuccess;                                                                         \
      },                                                                                            \
      {}};
SITE_NET(v6)
SITE_NET(v8)
