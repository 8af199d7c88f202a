// Stream capture: which streams record into which graph, and which calls are illegal meanwhile.
#pragma once

#include <cuda_runtime_api.h>

#include "event.h"
#include "operation.h"
#include "stream.h"

namespace sandbox::cudart {

/// Takes work of a capturing stream into its graph. False: the stream does not capture, execute the work.
/// Throws where the capture is invalid, or where the NULL stream would depend on a capturing blocking stream.
bool capture_operation(Stream& stream, const OperationPtr& operation);

/// Calls that cannot be part of a capture (waits, queries, copies that return when done).
void refuse_capture(Stream& stream);
/// Work that cannot become a node, but is no unsafe call elsewhere.
void refuse_capture_of(Stream& stream);
/// Device-wide waits: illegal while any stream of the device captures.
void refuse_capture_on(Device& device);
/// Calls that CUDA calls potentially unsafe: illegal in the thread, or everywhere, depending on the modes.
void refuse_unsafe_call();

/// cudaEventRecord without flags. False: not capturing.
bool capture_event_record(Stream& stream, const EventPtr& event);
/// cudaStreamWaitEvent without flags. False: neither the stream nor the event is part of a capture.
bool capture_event_wait(Stream& stream, const EventPtr& event);
/// Queries of an event that was last recorded in a capture are errors.
void refuse_captured_event(const EventPtr& event);
/// The event is recorded outside of captures again.
void forget_captured_record(const EventPtr& event);
/// A stream goes away: its capture cannot be ended any more.
void abandon_capture(Stream& stream);

}  // namespace sandbox::cudart
