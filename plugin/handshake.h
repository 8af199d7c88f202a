// What each rank of a communicator says about itself, and the verdict that all reach from it: pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "plugin/options.h"
#include "plugin/policy.h"
#include "plugin/topology.h"

namespace sdp4bit {

inline constexpr std::size_t kMostWireVariables = 40;
inline constexpr std::size_t kValueText = 32;

/// What a rank says. Its size never changes, so that libraries of different versions can still read each
/// other's first words.
struct HandshakeRecord {
  enum Bits : std::uint32_t {
    enabled = 1,   // SDP4BIT_ENABLE
    selected = 2,  // by name, size of the job and origin: what this rank alone can say about SDP4BIT_COMMS
    blocking = 4,  // the communicator's mode
    workspace_ready = 8,  // allocated, or not wanted because this rank says no anyway
    abort_on_mismatch = 16,
    hinted = 32,  // the program said what the communicator carries: the next two
    hint_gradients = 64,
    hint_weights = 128,
    garbage_padding = 256,  // a framework that leaves garbage in the padding of gradients was found
  };
  struct Variable {
    std::uint64_t digest;   // of the whole value
    char text[kValueText];  // its beginning, to show
  };

  std::uint32_t magic;
  std::uint16_t wire_version;
  std::uint16_t variable_count;
  std::uint32_t bits;
  std::uint32_t reserved;
  std::uint64_t host_hash;
  std::int64_t job_rank;  // -1: unknown
  Variable variables[kMostWireVariables];
  std::uint64_t padding[51];
  std::uint64_t checksum;  // of the whole record, never 0; before wire version 3 there was none
};
static_assert(sizeof(HandshakeRecord) == 2048);

/// What a rank knows about itself before it has heard the others.
struct OwnAnswer {
  bool enabled = true;
  bool selected = true;
  bool blocking = true;
  bool pads_gradients = false;
  bool abort_on_mismatch = false;
  std::uint32_t hint = 0;  // HandshakeRecord::Bits of the program's hint
};
/// Whether the rank may say yes, and needs memory for it.
[[nodiscard]] bool wants_workspace(const OwnAnswer& own);
/// HandshakeRecord::Bits. `held`: the memory was had, where it is wanted.
[[nodiscard]] std::uint32_t answer_bits(const OwnAnswer& own, bool held);

/// What the record of this rank says; `bits`: answer_bits().
[[nodiscard]] HandshakeRecord make_record(const Config& config, std::uint32_t bits,
                                          std::int64_t job_rank_of_comm);

/// The first rank whose record did not arrive as it was sent, -1 if all did. With such a record this rank
/// alone would come to another verdict.
[[nodiscard]] std::int64_t find_damaged(std::span<const HandshakeRecord> records);

struct Verdict {
  Agreement agreement = Agreement::off;
  std::string reason;  // one line for people, when off
  bool worth_a_line =
      true;  // false: nobody expected otherwise (switched off everywhere, one node, not data parallel)
  bool abort = false;             // SDP4BIT_ON_MISMATCH=abort, and ranks differ
  bool gradients_native = false;  // some rank's framework leaves garbage in their padding
  bool job_ranks_differ = false;  // usable as a key of the noise
  bool checks = false;            // SDP4BIT_CHECK=1, whether anything is compressed or not
  Carried carried;                // as hinted by all ranks, else everything
};

/// Pure: the same on every rank, from the records of all.
[[nodiscard]] Verdict judge(std::span<const HandshakeRecord> records, const Topology& topology,
                            const Config& config);

/// The bit `selected`: what a rank knows of its communicator before it has heard the others.
struct CommIdentity {
  std::string name;
  std::uint32_t ranks = 1;
  std::int64_t job_size = -1;
  bool part = false;
};
[[nodiscard]] bool selected_by_identity(const CommSelection& selection, const CommIdentity& comm);

}  // namespace sdp4bit
