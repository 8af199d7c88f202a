// The memory that an agreement needs: had before it, for what a rank can have is part of its answer.
#pragma once

#include <cstddef>

#include "plugin/comm_state.h"

namespace sdp4bit {

inline constexpr std::size_t kHello = 16;  // bytes to each peer when connecting
inline constexpr std::size_t kScratch =
    round_up(sizeof(DeviceWords), kMessageAlign);  // where they lie in `words`

/// All that the handshake answers for; false, and nothing is kept, where a part of it cannot be had.
[[nodiscard]] bool allocate_memory(CommState& comm);
/// Zeros it, and sets counters to where they begin. Waits for the device.
void initialize_memory(CommState& comm);
void give_back_memory(CommState& comm);

}  // namespace sdp4bit
