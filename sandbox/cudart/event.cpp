// The functions of CUDA that create, record, query and compare events.
#include "event.h"

#include "capture.h"
#include "stream.h"

namespace sandbox::cudart {

HandleTable<Event>& event_table() {
  static auto& table = *new HandleTable<Event>;
  return table;
}

}  // namespace sandbox::cudart

using namespace sandbox::cudart;

namespace {

constexpr unsigned kKnownFlags = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;

void create(cudaEvent_t* out, unsigned flags) {
  Device& device = enter();
  require(out != nullptr && (flags & ~kKnownFlags) == 0);
  if ((flags & cudaEventInterprocess) != 0) {
    require((flags & cudaEventDisableTiming) != 0);
    fail(cudaErrorNotSupported, "events shared between processes are not implemented");
  }
  auto event = std::make_shared<Event>(device, flags);
  *out = reinterpret_cast<cudaEvent_t>(event.get());
  event_table().insert(std::move(event));
}

void record(cudaEvent_t handle, cudaStream_t stream, unsigned flags) {
  const auto target = resolve_stream(stream, enter());
  require(flags == cudaEventRecordDefault || flags == cudaEventRecordExternal);
  const auto event = event_table().get(handle);
  if (&event->device != &target->device) fail(cudaErrorInvalidResourceHandle);
  target->device.check();
  auto operation = std::make_shared<EventRecordOperation>(event);
  if (flags == cudaEventRecordExternal) {
    if (!capture_operation(*target, operation)) fail(cudaErrorIllegalState);
    return;
  }
  if (capture_event_record(*target, event)) return;
  forget_captured_record(event);
  target->submit(std::move(operation));
}

}  // namespace

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return entry([&] { create(event, cudaEventDefault); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned int flags) {
  return entry([&] { create(event, flags); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return entry([&] {
    enter_process();
    event_table().remove(event);
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return entry([&] { record(event, stream, cudaEventRecordDefault); });
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned int flags) {
  return entry([&] { record(event, stream, flags); });
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  return entry([&] {
    enter_process();
    const auto target = event_table().get(event);
    target->device.check();
    refuse_captured_event(target);
    refuse_unsafe_call();
    const auto point = target->latest();
    if (point != nullptr && !point->done()) fail(cudaErrorNotReady);
    target->device.check();
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return entry([&] {
    enter_process();
    const auto target = event_table().get(event);
    refuse_captured_event(target);
    refuse_unsafe_call();
    if (const auto point = target->latest(); point != nullptr) point->wait();
    target->device.check();
  });
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  return entry([&] {
    enter_process();
    require(ms != nullptr);
    const auto first = event_table().get(start);
    const auto last = event_table().get(end);
    const bool timed = ((first->flags | last->flags) & cudaEventDisableTiming) == 0;
    if (!timed || &first->device != &last->device) fail(cudaErrorInvalidResourceHandle);
    first->device.check();
    refuse_captured_event(first);
    refuse_captured_event(last);
    const auto from = first->latest();
    const auto to = last->latest();
    if (from == nullptr || to == nullptr) fail(cudaErrorInvalidResourceHandle);
    if (!from->done() || !to->done()) fail(cudaErrorNotReady);
    *ms = std::chrono::duration<float, std::milli>(to->when() - from->when()).count();
  });
}

}  // extern "C"
