// Whether a weight record that arrived can be: the same on host and device.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/launch_weight.h"
#include "kernels/weight_header.h"

namespace sdp4bit {

/// Slots of a class, at most: no record may name more, for memory is asked for as many.
inline constexpr std::uint32_t kMostSlots = 256;

/// While nothing is agreed, slots have no bound but that of every class.
SDP4BIT_HOST_DEVICE bool weight_record_is_valid(const MessageHeader& record, WeightChunk chunk,
                                                std::uint32_t sender) {
  if (!(record.flags & kReady)) chunk.slots = kMostSlots;
  return weight_header_is_valid(record, MessageKind::weight_record, chunk, sender) &&
         record.slot_count <= kMostSlots;
}

}  // namespace sdp4bit
