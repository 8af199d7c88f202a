// libnccl-net-sdp4bit.so: what NCCL loads for NCCL_NET_PLUGIN=sdp4bit. It has sdp4bit take the calls, and
// declines to be a network.
//
// NCCL dlopens RTLD_LOCAL, after its callers were bound; so the work is done by sdp4bitTakeCalls(). The table
// is of version 6, which NCCL 2.18 to 2.32 look for, the newer ones last. No devices: NCCL goes on to the
// next plugin of the list, or to its own network.
#include <nccl.h>
#include <sdp4bit/sdp4bit.h>

namespace {

__attribute__((constructor)) void when_loaded() {
  (void)sdp4bitTakeCalls("net");
}

/// NCCL's struct of that name. After these three come functions about devices, and there are none.
struct Net6 {
  using Logger = void (*)(int level, unsigned long flags, const char* file, int line, const char* format,
                          ...);
  const char* name;
  ncclResult_t (*init)(Logger logger);
  ncclResult_t (*devices)(int* count);
  void (*about_devices[14])();
};

ncclResult_t start(Net6::Logger) {
  when_loaded();  // NCCL may come again, and objects may have been loaded since
  return ncclSuccess;
}

ncclResult_t count_devices(int* count) {
  *count = 0;
  return ncclSuccess;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const Net6 ncclNetPlugin_v6;
const Net6 ncclNetPlugin_v6 = {
    .name = "sdp4bit", .init = start, .devices = count_devices, .about_devices = {}};
