// What a rank says about one call under SDP4BIT_CHECK=1, and where descriptions differ: pure functions.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <span>
#include <string>

#include "plugin/policy.h"

namespace sdp4bit {

/// Always the same size, whatever the call: descriptions of different calls still meet each other.
struct CallDescription {
  std::uint64_t number = 0;  // of the call on its communicator, from 1
  std::uint64_t count = 0;
  std::uint32_t collective = 0;
  std::uint32_t type = 0;
  std::uint32_t op = 0;        // as described_op() gives it; of a ReduceScatter
  std::uint32_t in_group = 1;  // calls on the communicator in the outermost group ...
  std::uint32_t place = 0;     // ... and which of them this is
  // What the library is about to do: follows from agreed facts, so a difference is an error of its own.
  std::uint32_t reason = 0;
  std::uint32_t gather = 0;
  std::uint32_t weight_class = 0;
  std::uint32_t slots = 0;
  std::uint32_t stage = 0;
  std::uint64_t checksum = 0;  // of the description

  friend bool operator==(const CallDescription&, const CallDescription&) = default;
};
static_assert(sizeof(CallDescription) == 64);

/// Handles of operators that the program made differ between ranks; that it is one does not.
[[nodiscard]] std::uint32_t described_op(ncclRedOp_t op);

/// What `checksum` has to be; sender and receivers alike.
[[nodiscard]] std::uint64_t checksum_of_description(const CallDescription& call);
/// The first rank whose description did not arrive as it was sent, -1 if all did.
[[nodiscard]] std::int64_t find_damaged(std::span<const CallDescription> of_ranks);

/// Names the first field in which ranks differ, with both values and the ranks that gave them; "" if none
/// does. The same text on every rank.
[[nodiscard]] std::string find_disagreement(std::span<const CallDescription> of_ranks);

}  // namespace sdp4bit
