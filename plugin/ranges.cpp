// Ranges in a domain of their own; NVTX is headers only, and loads a profiler if the environment names one.
#include "plugin/ranges.h"

#ifdef SDP4BIT_NVTX
#include <nvtx3/nvToolsExt.h>
#endif

namespace sdp4bit {

#ifdef SDP4BIT_NVTX

namespace {

nvtxDomainHandle_t domain() noexcept {
  static const nvtxDomainHandle_t handle = nvtxDomainCreateA("sdp4bit");
  return handle;
}

}  // namespace

/// NVTX answers without a domain where no profiler was loaded with the process.
void Range::open(const char* name) noexcept {
  if (!domain()) {
    ranges_are_seen.store(false, std::memory_order_relaxed);
    return;
  }
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  (void)nvtxDomainRangePushEx(domain(), &attributes);
}

void Range::close() noexcept {
  if (domain()) (void)nvtxDomainRangePop(domain());
}

#else

void Range::open(const char*) noexcept {
  ranges_are_seen.store(false, std::memory_order_relaxed);
}
void Range::close() noexcept {}

#endif

}  // namespace sdp4bit
