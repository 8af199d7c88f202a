// What the header of a gradient's message says, and whether a received one can be.
#pragma once

#include <cstdint>

#include "kernels/host_device.h"
#include "kernels/random.h"
#include "kernels/wire_format.h"

namespace sdp4bit {

SDP4BIT_HOST_DEVICE MessageHeader gradient_header(MessageKind kind, std::uint64_t draw, std::uint32_t sender,
                                                  std::uint32_t chunk, std::uint64_t count, PhiloxKey key) {
  MessageHeader header{};  // every byte travels, so every byte is set
  header.magic = kMagic;
  header.wire_version = kWireVersion;
  header.kind = kind;
  header.draw = draw;
  header.call_or_key = std::uint64_t{key.k1} << 32 | key.k0;
  header.sender = sender;
  header.chunk = chunk;
  header.count = count;
  return header;
}

SDP4BIT_HOST_DEVICE bool gradient_header_is_valid(const MessageHeader& header, MessageKind kind,
                                                  std::uint32_t chunk, std::uint64_t count) {
  return header.magic == kMagic && header.wire_version == kWireVersion && header.kind == kind &&
         header.chunk == chunk && header.count == count;
}

/// The key of the noise of a gradient's message.
SDP4BIT_HOST_DEVICE PhiloxKey header_key(const MessageHeader& header) {
  return {static_cast<std::uint32_t>(header.call_or_key),
          static_cast<std::uint32_t>(header.call_or_key >> 32)};
}

}  // namespace sdp4bit
