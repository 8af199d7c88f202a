// Damage in flight, on request: what arrives at this process is not what was sent.
#pragma once

#include <cstddef>

namespace sandbox::nccl {

// Counts one receive; if it is the one that sandboxNcclDamageReceive() chose, flips a byte of it.
void damage(std::byte* received, size_t bytes);

}  // namespace sandbox::nccl
