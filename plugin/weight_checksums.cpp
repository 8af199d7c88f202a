// Checksums of records and gathered shards; see weight_checksums.h.
#include "plugin/weight_checksums.h"

#include <cstddef>

#include "plugin/comm_state.h"

namespace sdp4bit {
namespace {

constexpr std::size_t kRecord = sizeof(MessageHeader);

std::size_t shard_bytes(const WeightChunk& shard) {
  return shard.shard * element_bytes(shard.type);
}

}  // namespace

void seal_record(const CommState& comm, const WeightChunk& shard, const AllGatherArgs& args,
                 std::byte* record, bool with_shard, cudaStream_t stream) {
  if (!comm.checksums.on()) return;
  if (with_shard) {
    comm.checksums.seal({.data = static_cast<const std::byte*>(args.send),
                         .bytes = shard_bytes(shard),
                         .count = 1,
                         .headers = record,
                         .checksum_offset = offsetof(MessageHeader, draw),
                         .is_inside = false},
                        stream);
  }
  comm.checksums.seal(checksummed_messages(record, kRecord, kRecord, 1), stream);
}

void verify_records(const CommState& comm, Exchange exchange, std::byte* records, const ChecksumCall& call,
                    cudaStream_t stream) {
  if (!comm.checksums.on()) return;
  comm.checksums.verify(
      comm, {.exchange = exchange, .parts = checksummed_messages(records, kRecord, kRecord, comm.ranks)},
      call, stream);
}

void verify_shards(const CommState& comm, const WeightTables& tables, const WeightChunk& shard,
                   const AllGatherArgs& args, std::byte* records, const ChecksumCall& call,
                   cudaStream_t stream) {
  if (!comm.checksums.on()) return;
  const auto senders = static_cast<std::uint32_t>(tables.holdings.size());
  comm.checksums.verify(comm,
                        {.exchange = Exchange::gathered_shard,
                         .parts = {.data = static_cast<const std::byte*>(args.receive),
                                   .stride = shard_bytes(shard),
                                   .bytes = shard_bytes(shard),
                                   .count = senders,
                                   .places = tables.device_holdings(),
                                   .headers = records,
                                   .header_stride = kRecord,
                                   .checksum_offset = offsetof(MessageHeader, draw),
                                   .is_inside = false},
                         .flags = kReady},
                        call, stream);
  check(fill_damaged({.type = shard.type,
                      .count = shard.shard,
                      .senders = tables.device_holdings(),
                      .sender_count = senders,
                      .records = records,
                      .receive = args.receive},
                     stream));
}

}  // namespace sdp4bit
