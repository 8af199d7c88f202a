// Checksums of records and votes, and of the shards that a native gather brings for the ledger.
//
// NCCL moves those shards, but entries are set from them: a bit that flips on the way would stay in the entry
// of one holder, under all differences that follow. So a record that says "ready" carries the checksum of its
// sender's shard, and holders compare what they gathered before they take it.
#pragma once

#include <cuda_runtime_api.h>

#include "kernels/launch_weight.h"
#include "plugin/all_gather.h"
#include "plugin/checksums.h"
#include "plugin/weight_tables.h"

namespace sdp4bit {

/// Behind write_record(): the record is sealed, before that with the shard's checksum in it if `with_shard`.
void seal_record(const CommState& comm, const WeightChunk& shard, const AllGatherArgs& args,
                 std::byte* record, bool with_shard, cudaStream_t stream);

/// The records of all ranks, before they are read.
void verify_records(const CommState& comm, Exchange exchange, std::byte* records, const ChecksumCall& call,
                    cudaStream_t stream);

/// The gathered shards of senders whose records say "ready", before entries are set from them.
void verify_shards(const CommState& comm, const WeightTables& tables, const WeightChunk& shard,
                   const AllGatherArgs& args, std::byte* records, const ChecksumCall& call,
                   cudaStream_t stream);

}  // namespace sdp4bit
