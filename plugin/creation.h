// Communicators and operators come and go: NCCL does the work, we take note.
#pragma once

#include <nccl.h>

#include "plugin/boundary.h"
#include "plugin/comm_state.h"
#include "plugin/group.h"
#include "plugin/late_binding.h"

namespace sdp4bit {

/// Mode and name that a configuration gives; `config` may be null, or older and shorter than our nccl.h's.
[[nodiscard]] CommOrigin origin_of(const ncclConfig_t* config);
[[nodiscard]] CommOrigin origin_of_part(ncclComm_t parent, const ncclConfig_t* config);
/// `parent` is null on a rank that joins.
[[nodiscard]] CommOrigin origin_of_grown(ncclComm_t parent, const ncclConfig_t* config);

/// Calls a function of NCCL that an older one may lack.
template <typename Function, typename... Arguments>
ncclResult_t pass(Function function, Arguments... arguments) {
  if (!function) throw Error(ncclInvalidUsage, "the program calls a function that its NCCL does not have");
  const InsideNccl inside;
  return function(arguments...);
}

template <typename Function, typename... Arguments>
ncclResult_t create_part(ncclComm_t* comm, const CommOrigin& origin, Function function,
                         Arguments... arguments) {
  take_calls_of_new_objects();
  // What aborted communicators left: they must not wait for the device themselves.
  int device = 0;
  if (cudaGetDevice(&device) == cudaSuccess) collect_retired_memory(device);
  const ncclResult_t result = pass(function, arguments...);
  if (result == ncclSuccess || result == ncclInProgress) Group::current().note_created_at_end(comm, origin);
  return result;
}

template <typename Function, typename... Arguments>
ncclResult_t create(ncclComm_t* comm, const CommOrigin& origin, Function function, Arguments... arguments) {
  return create_part(comm, origin, function, comm, arguments...);
}

ncclResult_t create_all(ncclComm_t* comms, int count, const int* devices);
ncclResult_t finalize(ncclComm_t comm);
ncclResult_t destroy(ncclComm_t comm);
ncclResult_t abort(ncclComm_t comm);
ncclResult_t shrink(ncclComm_t parent, int* excluded, int excluded_count, ncclComm_t* comm,
                    ncclConfig_t* config, int flags);
ncclResult_t revoke(ncclComm_t comm, int flags);
ncclResult_t create_operator(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                             ncclScalarResidence_t residence, ncclComm_t comm);
ncclResult_t destroy_operator(ncclRedOp_t op, ncclComm_t comm);

}  // namespace sdp4bit
