// The kernels of health as plain loops; see launch_health.h.
#include "kernels/reference_health.h"

#include <cstring>

#include "kernels/health_record.h"
#include "kernels/index.h"

namespace sdp4bit::reference {

void count_scales(const CountScalesArgs& args) {
  const SegmentLayout layout(args.count, args.codec);
  const std::size_t bytes = scale_bytes(args.codec.scale);
  for (std::uint32_t message = 0; message < args.message_count; ++message) {
    for (std::uint32_t segment = 0; segment < args.segments_per_message; ++segment) {
      const std::byte* const scales =
          args.messages.data + message * args.messages.stride + layout.segment_offset(segment);
      for (std::size_t group = 0; group < group_count(args.count, args.codec); ++group) {
        std::uint32_t bits = 0;  // little-endian: a bf16 scale is the high half of its float
        std::memcpy(reinterpret_cast<std::byte*>(&bits) + sizeof bits - bytes, scales + group * bytes, bytes);
        ++args.histogram->groups[bits >> 23 & 0xffu];
      }
    }
  }
}

void write_health(ScaleHistogram* histogram, HealthRecord* record) {
  *record = summarize(*histogram);
  *histogram = {};
}

void publish_health(const PublishHealthArgs& args) {
  *args.words = {};
  for (std::uint32_t rank = 0; rank < args.ranks; ++rank) {
    HealthRecord record;
    std::memcpy(&record, args.records + rank * args.stride, sizeof record);
    add_health(*args.words, record, rank);
  }
  args.words->number = args.number;
}

}  // namespace sdp4bit::reference
