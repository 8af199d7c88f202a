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

Range::Range(const char* name) noexcept {
  nvtxEventAttributes_t attributes{};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  (void)nvtxDomainRangePushEx(domain(), &attributes);
}

Range::~Range() {
  (void)nvtxDomainRangePop(domain());
}

#else

Range::Range(const char*) noexcept {}
Range::~Range() = default;

#endif

}  // namespace sdp4bit
