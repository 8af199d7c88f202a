// The rules real NCCL has but does not enforce, and the freedom it has but rarely uses.
//
// Always: ranks agree on function, count, type, operation and root of each collective; a send and its receive
// agree on bytes. With SANDBOX_NCCL_STRICT on (default) also: ranks agree on what is in a group and on
// capture, the first use of a pair of ranks (or of a communicator's collectives) blocks in GroupEnd until the
// other side comes to its own first use, and the collectives of a group run in another order than issued, the
// same on all ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sandbox/nccl/operation.h"

namespace sandbox::nccl {

class Endpoint;

// Throws a Failure that names both sides where two ranks stand in different collectives.
void require_agreement(Endpoint& endpoint);
// In which order `count` collectives of one group run, the first being number `first` of the communicator.
[[nodiscard]] std::vector<size_t> execution_order(size_t count, uint64_t first);

// The two halves of first use; a group announces all its communicators before it waits for any.
void announce_first_use(Communicator& communicator, const std::vector<Operation>& operations);
void await_first_use(Communicator& communicator, const std::vector<Operation>& operations);

}  // namespace sandbox::nccl
