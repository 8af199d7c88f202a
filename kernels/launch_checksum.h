// What the plugin calls to seal messages with checksums and to verify those that arrive (SDP4BIT_CHECKSUM=1).
//
// A message that does not fit its checksum gets kDamagedMagic for its magic, so that the kernel behind takes
// it for one whose header cannot be: its data is never decoded, what its sender gave becomes NaN. In later
// calls everything that arrives counts as damaged: entries of the ledger may differ between ranks by then,
// and calls may be on their way that the host had enqueued before it could know.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/wire_format.h"

namespace sdp4bit {

/// "SDP!"
inline constexpr std::uint32_t kDamagedMagic = 0x21504453;

/// Messages and records that arrived with a checksum.
struct ChecksumCounts {
  std::uint64_t verified = 0;  // it fits
  std::uint64_t failed = 0;
};

/// Pieces of memory of equal size, and where the checksum of each stands.
struct ChecksummedParts {
  const std::byte* data = nullptr;  // at any address; read 16 bytes at a time where it allows
  std::size_t stride = 0;           // bytes from one part to the next
  std::size_t bytes = 0;            // of a part; even
  std::uint32_t count = 0;
  const std::uint32_t* places = nullptr;  // device: part m is number places[m]; nullptr: m
  std::byte* headers = nullptr;           // a part's header: its first byte, or in a record beside it ...
  std::size_t header_stride = 0;
  std::size_t checksum_offset = 0;  // ... and where in it the checksum stands; a multiple of 8
  bool is_inside = true;            // the header is the part's beginning: the checksum counts as zero
};

/// Messages, or records without anything behind: the checksum stands in the (first) header.
constexpr ChecksummedParts checksummed_messages(std::byte* data, std::size_t stride, std::size_t bytes,
                                                std::uint32_t count) {
  return {.data = data,
          .stride = stride,
          .bytes = bytes,
          .count = count,
          .headers = data,
          .header_stride = stride,
          .checksum_offset = offsetof(MessageHeader, checksum)};
}

/// What a verification works with between its thread blocks, one for each part: zero before the first launch,
/// and left so by each.
struct ChecksumSum {
  std::uint64_t sum;
  std::uint32_t blocks_done;
  std::uint32_t padding;
};
/// What verifications of one communicator remember; zero before the first.
struct ChecksumState {
  std::uint32_t parts_done;  // of the launch
  std::uint32_t found;       // the launch found damage
  std::uint32_t failed;      // an earlier launch did ...
  std::uint32_t reported;
  std::uint64_t failed_use;  // ... in this call, whose other messages are taken for what they are
  std::uint64_t failed_call;
};

/// The first damage that was found, in pinned memory. The host zeroes it before.
struct ChecksumFailure {
  std::uint32_t found;  // 1, written last
  std::uint32_t exchange;
  std::uint32_t part;  // number of the message, or of the header that was passed on
  std::uint32_t chunk;
  std::uint64_t call;
  std::uint32_t class_number;
  std::uint32_t padding;
};

/// Writes each part's checksum where it stands.
cudaError_t seal_checksums(const ChecksummedParts& parts, ChecksumSum* sums, cudaStream_t stream);

struct VerifyChecksumsArgs {
  ChecksummedParts parts;
  std::uint32_t headers_per_part = 1;  // that are marked where it is damaged, one behind the other
  std::uint32_t flags = 0;             // parts whose header lacks one of these are not looked at
  ChecksumSum* sums = nullptr;
  ChecksumState* state = nullptr;
  std::uint64_t use =
      0;  // number of the call object's use on the communicator; in a graph that of its capture
  // What a failure says. `call` counts from call_counter where there is one, so that a replayed graph names
  // its own call.
  std::uint32_t exchange = 0;
  std::uint32_t passed_on =
      0;  // the one to name where the rank that passes a header on marked it; 0: none does
  std::uint32_t chunk = 0;
  std::uint64_t call = 0;
  const std::uint64_t* call_counter = nullptr;
  std::uint32_t class_number = 0;
  ChecksumFailure* failure = nullptr;
  std::uint32_t* error = nullptr;         // the host reads it; set to 1 behind a failure
  ChecksumCounts* counts = nullptr;       // device
  ChecksumCounts* host_counts = nullptr;  // pinned: their mirror
};
cudaError_t verify_checksums(const VerifyChecksumsArgs& args, cudaStream_t stream);

/// Fills gathered shards whose records are marked with NaN.
struct FillDamagedArgs {
  ElementType type = ElementType::bfloat16;
  std::size_t count = 0;                   // elements of a shard
  const std::uint32_t* senders = nullptr;  // device
  std::uint32_t sender_count = 0;
  const std::byte* records = nullptr;  // one header a rank
  void* receive = nullptr;
};
cudaError_t fill_damaged(const FillDamagedArgs& args, cudaStream_t stream);

/// For load_kernels().
cudaError_t load_checksum();

}  // namespace sdp4bit
