// Checksums of messages as plain loops; see launch_checksum.h.
#include "kernels/reference_checksum.h"

#include <cstring>

#include "kernels/checksum.h"
#include "kernels/element.h"
#include "kernels/reference_codec.h"

namespace sdp4bit::reference {
namespace {

std::size_t place_of(const ChecksummedParts& parts, std::uint32_t part) {
  return parts.places ? parts.places[part] : part;
}

std::uint64_t sum_of(const ChecksummedParts& parts, std::uint32_t part) {
  return checksum_of(parts.data + place_of(parts, part) * parts.stride, parts.bytes,
                     parts.is_inside ? parts.checksum_offset : kNoHole);
}

std::byte* header_of(const ChecksummedParts& parts, std::uint32_t part) {
  return parts.headers + place_of(parts, part) * parts.header_stride;
}

void report(const VerifyChecksumsArgs& args, std::uint32_t exchange, std::uint32_t part) {
  args.state->found = 1;
  ++args.counts->failed;
  if (args.state->reported != 0) return;
  args.state->reported = 1;
  *args.failure = {.found = 1,
                   .exchange = exchange,
                   .part = part,
                   .chunk = args.chunk,
                   .call = args.call + (args.call_counter ? *args.call_counter : 0),
                   .class_number = args.class_number,
                   .padding = 0};
  *args.error = 1;
}

}  // namespace

void seal_checksums(const ChecksummedParts& parts) {
  for (std::uint32_t part = 0; part < parts.count; ++part) {
    const std::uint64_t sum = sum_of(parts, part);
    std::memcpy(header_of(parts, part) + parts.checksum_offset, &sum, sizeof sum);
  }
}

void verify_checksums(const VerifyChecksumsArgs& args) {
  const ChecksummedParts& parts = args.parts;
  ChecksumState& state = *args.state;
  const std::uint64_t call = args.call + (args.call_counter ? *args.call_counter : 0);
  for (std::uint32_t part = 0; part < parts.count; ++part) {
    auto* const headers = reinterpret_cast<MessageHeader*>(header_of(parts, part));
    if (args.flags != 0 && (headers->flags & args.flags) != args.flags) continue;
    std::uint64_t said;
    std::memcpy(&said, header_of(parts, part) + parts.checksum_offset, sizeof said);
    const bool fits = said == sum_of(parts, part);
    if (fits) {
      ++args.counts->verified;
    } else {
      report(args, args.exchange, static_cast<std::uint32_t>(place_of(parts, part)));
    }
    for (std::uint32_t i = 0; fits && args.passed_on != 0 && i < args.headers_per_part; ++i) {
      if (headers[i].magic == kDamagedMagic) report(args, args.passed_on, part * args.headers_per_part + i);
    }
    const bool failed_before =
        state.failed != 0 && (state.failed_use != args.use || state.failed_call != call);
    for (std::uint32_t i = 0; (!fits || failed_before) && i < args.headers_per_part; ++i)
      headers[i].magic = kDamagedMagic;
  }
  *args.host_counts = *args.counts;
  if (state.found != 0 && state.failed == 0) {
    state.failed_use = args.use;
    state.failed_call = call;
    state.failed = 1;
  }
  state.found = 0;
}

void fill_damaged(const FillDamagedArgs& args) {
  const auto* const records = reinterpret_cast<const MessageHeader*>(args.records);
  for (std::uint32_t m = 0; m < args.sender_count; ++m) {
    const std::uint32_t sender = args.senders[m];
    if (records[sender].magic != kDamagedMagic) continue;
    for (std::size_t i = 0; i < args.count; ++i) {
      store_element(args.type, args.receive, sender * args.count + i, float_from_bits(kNanBits));
    }
  }
}

}  // namespace sdp4bit::reference
