// libnccl-profiler-sdp4bit.so: what NCCL loads for NCCL_PROFILER_PLUGIN=sdp4bit (2.23 and later). It has
// sdp4bit take the calls, and offers no profiler, so that NCCL goes on without one.
#include <sdp4bit/sdp4bit.h>

namespace {

__attribute__((constructor)) void when_loaded() {
  (void)sdp4bitTakeCalls("profiler");
}

}  // namespace
