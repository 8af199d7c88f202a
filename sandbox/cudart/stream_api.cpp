// The functions of CUDA that create, order and query streams.
#include <limits>

#include "capture.h"
#include "event.h"
#include "host_function.h"
#include "stream.h"

using namespace sandbox::cudart;

namespace {

constexpr unsigned kKnownFlags = cudaStreamNonBlocking;

StreamPtr resolve(cudaStream_t stream) {
  return resolve_stream(stream, enter());
}

void create(cudaStream_t* out, unsigned flags, int priority) {
  Device& device = enter();
  require(out != nullptr && (flags & ~kKnownFlags) == 0);
  const int clamped = priority < kGreatestPriority ? kGreatestPriority
                      : priority > kLeastPriority  ? kLeastPriority
                                                   : priority;
  *out = create_stream(device, flags, clamped)->handle();
}

}  // namespace

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* pStream) {
  return entry([&] { create(pStream, cudaStreamDefault, kLeastPriority); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* pStream, unsigned int flags) {
  return entry([&] { create(pStream, flags, kLeastPriority); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* pStream, unsigned int flags, int priority) {
  return entry([&] { create(pStream, flags, priority); });
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return entry([&] {
    enter_process();
    if (stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread) {
      fail(cudaErrorInvalidResourceHandle);
    }
    const auto gone = stream_table().remove(stream);
    abandon_capture(*gone);
    gone->close();
  });
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return entry([&] {
    const auto target = resolve(stream);
    target->device.check();
    refuse_capture(*target);
    const auto point = target->join();
    if (point != nullptr && !point->done()) fail(cudaErrorNotReady);
    target->device.check();
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return entry([&] {
    const auto target = resolve(stream);
    refuse_capture(*target);
    if (const auto point = target->join(); point != nullptr) point->wait();
    target->device.check();
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags) {
  return entry([&] {
    const auto target = resolve(stream);
    require(flags == cudaEventWaitDefault || flags == cudaEventWaitExternal);
    const auto awaited = event_table().get(event);
    auto operation = std::make_shared<EventWaitOperation>(awaited);
    if (flags == cudaEventWaitExternal) {
      if (!capture_operation(*target, operation)) fail(cudaErrorIllegalState);
      return;
    }
    if (capture_event_wait(*target, awaited)) return;
    if (awaited->latest() == nullptr) return;  // never recorded: nothing to wait for
    target->device.check();
    target->submit(std::move(operation));
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t fn, void* userData) {
  return entry([&] {
    const auto target = resolve(stream);
    require(fn != nullptr);
    enqueue(*target, std::make_shared<HostFunctionOperation>(fn, userData));
  });
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void* userData,
                                  unsigned int flags) {
  return entry([&] {
    const auto target = resolve(stream);
    require(callback != nullptr && flags == 0);
    enqueue_now(*target, std::make_shared<CallbackOperation>(stream, callback, userData));
  });
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void* devPtr, size_t length, unsigned int flags) {
  return entry([&] {
    const auto target = resolve(stream);
    require(flags == cudaMemAttachGlobal || flags == cudaMemAttachHost || flags == cudaMemAttachSingle);
    require(length == 0 || devPtr != nullptr);
    enqueue(*target, std::make_shared<EmptyOperation>());
  });
}

cudaError_t cudaStreamGetFlags(cudaStream_t hStream, unsigned int* flags) {
  return entry([&] {
    const auto target = resolve(hStream);
    require(flags != nullptr);
    *flags = target->flags;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t hStream, int* priority) {
  return entry([&] {
    const auto target = resolve(hStream);
    require(priority != nullptr);
    *priority = target->priority;
  });
}

cudaError_t cudaStreamGetId(cudaStream_t hStream, unsigned long long* streamId) {
  return entry([&] {
    const auto target = resolve(hStream);
    require(streamId != nullptr);
    *streamId = target->id;
  });
}

cudaError_t cudaStreamGetDevice(cudaStream_t hStream, int* device) {
  return entry([&] {
    const auto target = resolve(hStream);
    require(device != nullptr);
    *device = target->device.index;
  });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* leastPriority, int* greatestPriority) {
  return entry([&] {
    enter();
    if (leastPriority != nullptr) *leastPriority = kLeastPriority;
    if (greatestPriority != nullptr) *greatestPriority = kGreatestPriority;
  });
}

}  // extern "C"
