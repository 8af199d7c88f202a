// Attributes of streams: kept and given back; they are hints that change no result.
#include <map>

#include "stream.h"

using namespace sandbox::cudart;

namespace {

std::mutex& attribute_mutex() {
  static auto& mutex = *new std::mutex;
  return mutex;
}

using Attributes = std::map<cudaLaunchAttributeID, cudaLaunchAttributeValue>;

/// By stream number, which is never used again.
std::map<std::uint64_t, Attributes>& attributes() {
  static auto& all = *new std::map<std::uint64_t, Attributes>;
  return all;
}

void require_known(cudaLaunchAttributeID attr) {
  switch (attr) {
    case cudaLaunchAttributeAccessPolicyWindow:
    case cudaLaunchAttributeSynchronizationPolicy:
    case cudaLaunchAttributePriority:
    case cudaLaunchAttributeMemSyncDomainMap:
    case cudaLaunchAttributeMemSyncDomain:
      return;
    default:
      fail(cudaErrorInvalidValue);
  }
}

}  // namespace

extern "C" {

cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaLaunchAttributeID attr,
                                   const cudaLaunchAttributeValue* value) {
  return entry([&] {
    const auto target = resolve_stream(stream, enter());
    require(value != nullptr);
    require_known(attr);
    std::lock_guard lock(attribute_mutex());
    attributes()[target->id][attr] = *value;
  });
}

cudaError_t cudaStreamGetAttribute(cudaStream_t stream, cudaLaunchAttributeID attr,
                                   cudaLaunchAttributeValue* value_out) {
  return entry([&] {
    const auto target = resolve_stream(stream, enter());
    require(value_out != nullptr);
    require_known(attr);
    *value_out = {};
    if (attr == cudaLaunchAttributePriority) value_out->priority = target->priority;
    std::lock_guard lock(attribute_mutex());
    const auto& own = attributes()[target->id];
    if (const auto found = own.find(attr); found != own.end()) *value_out = found->second;
  });
}

cudaError_t cudaStreamCopyAttributes(cudaStream_t dst, cudaStream_t src) {
  return entry([&] {
    Device& device = enter();
    const auto to = resolve_stream(dst, device);
    const auto from = resolve_stream(src, device);
    std::lock_guard lock(attribute_mutex());
    attributes()[to->id] = attributes()[from->id];
  });
}

}  // extern "C"
