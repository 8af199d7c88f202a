// Carries the handshake: its memory, its one AllGather, and what follows from the verdict.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "plugin/check_vote.h"
#include "plugin/comm_state.h"
#include "plugin/cuda_raii.h"
#include "plugin/phased_call.h"

namespace sdp4bit {

/// A handshake under way.
struct Handshake {
  DeviceBuffer device;  // mine, then the records of all ranks
  PinnedBuffer host;    // likewise
  Event arrived;
  std::unique_ptr<PhasedCall> call;
  std::unique_ptr<CheckVote> vote;  // for the communicator, if all ranks check
};

/// At the end of the communicator's first group: allocates what an agreement would need. The call returned
/// belongs to comm.handshake.
[[nodiscard]] PhasedCall* start_handshake(CommState& comm, cudaStream_t stream);
/// Waits (bounded) for the records, decides, and prepares or gives back the memory. Throws if the verdict is
/// abort.
void read_handshake(CommState& comm);
/// Once after an agreement, before any other call: uploads the tables, and opens the connections to all
/// peers. The call returned belongs to comm.connecting.
[[nodiscard]] PhasedCall* start_connecting(CommState& comm, cudaStream_t stream);

}  // namespace sdp4bit
