// The life of communicators and of users' reduction operators, as far as NCCL tells.
#include "plugin/creation.h"

#include <algorithm>
#include <cstddef>

#include "kernels/element.h"
#include "plugin/options.h"
#include "plugin/real_nccl.h"

namespace sdp4bit {
namespace {

/// NCCL's own variable has the last word on the mode.
void apply_environment(CommOrigin& origin) {
  const std::string mode = environment_text("NCCL_COMM_BLOCKING");
  if (mode == "0" || mode == "1") origin.blocking = mode == "1";
}

float scalar_value(const void* scalar, ncclDataType_t type) {
  switch (type) {
    case ncclFloat32:
      return *static_cast<const float*>(scalar);
    case ncclFloat16:
      return to_float(*static_cast<const Float16*>(scalar));
    case ncclBfloat16:
      return to_float(*static_cast<const BFloat16*>(scalar));
    default:
      return 1.0f;  // calls of this type go to NCCL
  }
}

}  // namespace

CommOrigin origin_of(const ncclConfig_t* config) {
  CommOrigin origin{.seen = true, .blocking = true, .part = false, .name = {}};
  if (config) {
    const auto& head = *reinterpret_cast<const ConfigHead*>(config);
    if (head.has(offsetof(ConfigHead, blocking), sizeof head.blocking)) {
      origin.blocking = head.blocking != 0;  // "not set" is no zero
    }
    if (head.has(offsetof(ConfigHead, comm_name), sizeof head.comm_name) && head.comm_name) {
      origin.name = head.comm_name;
    }
  }
  apply_environment(origin);
  return origin;
}

CommOrigin origin_of_part(ncclComm_t parent, const ncclConfig_t* config) {
  CommOrigin origin = origin_of_grown(parent, config);
  origin.part = true;
  return origin;
}

CommOrigin origin_of_grown(ncclComm_t parent, const ncclConfig_t* config) {
  CommOrigin origin = origin_of(config);
  if (const auto state = find_comm(parent)) {
    if (!config || config->blocking == NCCL_CONFIG_UNDEF_INT) origin.blocking = state->blocking;
    origin.part = state->origin.part;
  }
  return origin;
}

ncclResult_t create_all(ncclComm_t* comms, int count, const int* devices) {
  take_calls_of_new_objects();
  for (int i = 0; i < count; ++i) collect_retired_memory(devices ? devices[i] : i);
  const ncclResult_t result = pass(real_nccl().comm_init_all, comms, count, devices);
  if (result != ncclSuccess) return result;
  for (int i = 0; i < count; ++i) Group::current().note_created_at_end(&comms[i], origin_of(nullptr));
  return result;
}

ncclResult_t finalize(ncclComm_t comm) {
  const ncclResult_t result = pass(real_nccl().comm_finalize, comm);
  if (!refused(result)) {
    // From here on NCCL refuses every call, and must get them unrecorded to say so.
    if (const auto state = known_comm(comm)) state->finalized.store(true);
  }
  return result;
}

ncclResult_t destroy(ncclComm_t comm) {
  const int device = forget_comm(comm);
  const ncclResult_t result = pass(real_nccl().comm_destroy, comm);
  if (result == ncclSuccess && device >= 0) collect_retired_memory(device);
  return result;
}

ncclResult_t abort(ncclComm_t comm) {
  abort_comm(comm);
  (void)forget_comm(comm);
  return pass(real_nccl().comm_abort, comm);
}

ncclResult_t shrink(ncclComm_t parent, int* excluded, int excluded_count, ncclComm_t* comm,
                    ncclConfig_t* config, int flags) {
  const ncclResult_t result = create_part(comm, origin_of_part(parent, config), real_nccl().comm_shrink,
                                          parent, excluded, excluded_count, comm, config, flags);
  // NCCL ended what was under way, somewhere: what this rank sends next on the parent is not what its peers
  // expect.
  constexpr int kAbort = 1;  // NCCL_SHRINK_ABORT, which older headers do not have
  if (flags & kAbort) {
    if (const auto state = known_comm(parent); state && state->agreement != Agreement::off)
      state->failed.store(true);
  }
  return result;
}

ncclResult_t revoke(ncclComm_t comm, int flags) {
  const RealNccl& real = real_nccl();
  if (real.comm_revoke) abort_comm(comm);
  const ncclResult_t result = pass(real.comm_revoke, comm, flags);
  if (result == ncclInvalidArgument) unabort_comm(comm);
  return result;
}

ncclResult_t create_operator(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                             ncclScalarResidence_t residence, ncclComm_t comm) {
  const ncclResult_t result = pass(real_nccl().red_op_create_pre_mul_sum, op, scalar, type, residence, comm);
  if (result != ncclSuccess) return result;
  if (const auto state = find_comm(comm)) {
    PreMulSum created{.type = type};
    if (residence == ncclScalarHostImmediate) {
      created.value = scalar_value(scalar, type);
    } else {
      created.device_pointer = scalar;
    }
    std::erase_if(state->operators, [&](const CommState::Operator& known) { return known.handle == *op; });
    state->operators.push_back({*op, created});
  }
  return result;
}

ncclResult_t destroy_operator(ncclRedOp_t op, ncclComm_t comm) {
  if (const auto state = find_comm(comm)) {
    std::erase_if(state->operators, [&](const CommState::Operator& known) { return known.handle == op; });
  }
  if (Group::is_open(real_nccl()) && Group::current().destroys_at_end(op, comm)) return ncclSuccess;
  return pass(real_nccl().red_op_destroy, op, comm);
}

}  // namespace sdp4bit
