// Damage in flight, on request: what arrives at this process is not what was sent.
#pragma once

#include <cstddef>

namespace sandbox::nccl {

class Communicator;

// Counts one receive; if it is the one that sandboxNcclDamageReceive() chose, flips a byte of it.
void damage(std::byte* received, size_t bytes);

// Notes what one rank brought, and damages it where sandboxNcclDamageTransfer() chose it.
void pass_transfer(Communicator& communicator, int sender, std::byte* received, size_t bytes,
                   bool is_collective);

}  // namespace sandbox::nccl
