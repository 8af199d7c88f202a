// How ranks find each other: unique ids, and the segments of communicators made from communicators.
#pragma once

#include <nccl.h>

#include <memory>
#include <vector>

#include "sandbox/nccl/segment.h"

namespace sandbox::nccl {

class Communicator;

[[nodiscard]] ncclUniqueId new_unique_id();
// Throws on an id that new_unique_id() did not make.
[[nodiscard]] SegmentAddress address_of(const ncclUniqueId& id);

// What a rank gets from a split or a shrink: null address where it does not take part.
struct Place {
  SegmentAddress address;
  int ranks = 0;
  int rank = -1;
};

// Meets the other `participants` (ranks of the parent, ascending) in round `round` of the parent; those with
// the same color form a communicator, ordered by key and then by rank. Throws Failure or Aborted.
[[nodiscard]] Place meet(Communicator& parent, uint64_t round, const std::vector<int>& participants,
                         int color, int key);

// Meets all ranks of a parent that grows in round `round`: the one that has the new communicator's address
// gives it to the others. Throws Failure or Aborted.
[[nodiscard]] SegmentAddress meet_to_grow(Communicator& parent, uint64_t round,
                                          const SegmentAddress* address);

}  // namespace sandbox::nccl
