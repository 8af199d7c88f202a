// Names of what is counted, for files and for people.
#include "plugin/stats.h"
#include "plugin/stats_snapshot.h"

namespace sdp4bit {
namespace {

struct Name {
  const char* name;
  const char* help;
};

constexpr std::array<Name, kCounterCount> kNames{{
    {"elements", "Elements of the larger buffer of all calls"},
    {"bytes_given", "Bytes of the larger buffer of all calls"},
    {"compressed_bytes_given", "Bytes of the larger buffer of compressed calls"},
    {"native_bytes_in_node", "Bytes that NCCL would have sent at least in the node for compressed calls"},
    {"native_bytes_between_nodes",
     "Bytes that NCCL would have sent at least between nodes for compressed calls"},
    {"sent_bytes_in_node", "Bytes that compressed calls sent in the node"},
    {"sent_bytes_between_nodes", "Bytes that compressed calls sent between nodes"},
    {"sends", "Point-to-point sends of NCCL that carried compressed calls"},
    {"gathers", "AllGathers of NCCL that carried compressed calls"},
    {"captured_calls", "Compressed calls that became part of a CUDA graph"},
    {"executed_calls", "Compressed ReduceScatters that ran on the device, replays of graphs included"},
    {"nonfinite_groups_sent", "Groups with a NaN or an infinity that this rank coded"},
    {"nonfinite_groups_received", "Groups that arrived as NaN"},
    {"checksums_verified", "Messages and records that arrived and fit their checksum"},
    {"checksums_failed", "Messages and records that arrived and did not fit their checksum"},
}};

}  // namespace

const char* counter_name(Counter counter) {
  return kNames[static_cast<std::size_t>(counter)].name;
}

const char* counter_help(Counter counter) {
  return kNames[static_cast<std::size_t>(counter)].help;
}

const char* sample_kind_name(SampleKind kind) {
  switch (kind) {
    case SampleKind::gradient_first:
      return "gradient_first_exchange";
    case SampleKind::gradient_second:
      return "gradient_between_nodes";
    case SampleKind::weight:
      return "weight_difference";
    case SampleKind::count_:
      break;
  }
  return "unknown";
}

}  // namespace sdp4bit
