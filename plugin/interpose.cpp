// Every function that the program calls here instead of in NCCL. The map of the code:
//
// clang-format off
//   a call       boundary.h (exceptions) -> group_call.cpp (is it ours?), policy.cpp (the rules) -> group_end.cpp (when it runs)
//   a group      group.cpp (how it begins and ends for its thread)
//   a gradient   reduce_scatter.cpp; what lies where: gradient_layout.cpp
//   a weight     all_gather.cpp (decides) -> weight_record.cpp, weight_difference.cpp or weight_vote.cpp (do);
//                weight_class.cpp (the kind of a call), ledger.cpp (what was sent before), weight_layout.cpp
//   both         phased_call.h, run by lockstep.cpp; kernels are behind kernels/launch.h and launch_weight.h
//   agreement    handshake.cpp (what ranks say, and the verdict), agreement.cpp (how they hear it), topology.cpp,
//                agreed_memory.cpp (what it needs), bounded_wait.cpp
//   checking     call_description.cpp (what ranks compare), check_vote.cpp (how)
//   state        comm_state.cpp (a communicator's), creation.cpp (where it came from), cuda_raii.h (its memory)
//   NCCL itself  real_nccl.cpp (its copies), route.cpp (which copy a call is for), loaded_object.cpp (ELF)
//   coming late  late_binding.cpp (takes calls that are bound already), doors/ (what NCCL loads)
//   around it    option_table.cpp (what a user can set), options.cpp (what is), log.cpp, stats.cpp, watchdog.cpp
// clang-format on
//
// Signatures are checked by the compiler against nccl.h. exports.map lists the same names.
#include <nccl.h>

#include "plugin/boundary.h"
#include "plugin/creation.h"
#include "plugin/export.h"
#include "plugin/group.h"
#include "plugin/real_nccl.h"

using namespace sdp4bit;

SDP4BIT_EXPORT ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count,
                                              ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                                              cudaStream_t stream) {
  return boundary({.address = SDP4BIT_CALLER, .comm = comm}, [&] {
    return inside_nccl ? real_nccl().reduce_scatter(send, receive, count, type, op, comm, stream)
                       : Group::current().reduce_scatter(send, receive, count, type, op, comm, stream);
  });
}

SDP4BIT_EXPORT ncclResult_t ncclAllGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                                          ncclComm_t comm, cudaStream_t stream) {
  return boundary({.address = SDP4BIT_CALLER, .comm = comm}, [&] {
    return inside_nccl ? real_nccl().all_gather(send, receive, count, type, comm, stream)
                       : Group::current().all_gather(send, receive, count, type, comm, stream);
  });
}

SDP4BIT_EXPORT ncclResult_t ncclGroupStart() {
  return boundary({.address = SDP4BIT_CALLER},
                  [&] { return inside_nccl ? real_nccl().group_start() : Group::current().start(); });
}

SDP4BIT_EXPORT ncclResult_t ncclGroupEnd() {
  return boundary({.address = SDP4BIT_CALLER, .ends_group = true},
                  [&] { return inside_nccl ? real_nccl().group_end() : Group::current().end(); });
}

SDP4BIT_EXPORT ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  return boundary({.address = SDP4BIT_CALLER, .ends_group = true},
                  [&] { return Group::current().simulate_end(info); });
}

SDP4BIT_EXPORT ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return boundary({.address = SDP4BIT_CALLER}, [&] {
    return create(comm, origin_of(nullptr), real_nccl().comm_init_rank, ranks, id, rank);
  });
}

SDP4BIT_EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                                   ncclConfig_t* config) {
  return boundary({.address = SDP4BIT_CALLER}, [&] {
    return create(comm, origin_of(config), real_nccl().comm_init_rank_config, ranks, id, rank, config);
  });
}

SDP4BIT_EXPORT ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int id_count,
                                                     ncclUniqueId* ids, ncclConfig_t* config) {
  return boundary({.address = SDP4BIT_CALLER}, [&] {
    return create(comm, origin_of(config), real_nccl().comm_init_rank_scalable, ranks, rank, id_count, ids,
                  config);
  });
}

SDP4BIT_EXPORT ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices) {
  return boundary({.address = SDP4BIT_CALLER}, [&] { return create_all(comms, count, devices); });
}

SDP4BIT_EXPORT ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* comm,
                                          ncclConfig_t* config) {
  return boundary({.address = SDP4BIT_CALLER, .comm = parent}, [&] {
    return create_part(comm, origin_of_part(parent, config), real_nccl().comm_split, parent, color, key, comm,
                       config);
  });
}

SDP4BIT_EXPORT ncclResult_t ncclCommShrink(ncclComm_t parent, int* excluded, int excluded_count,
                                           ncclComm_t* comm, ncclConfig_t* config, int flags) {
  return boundary({.address = SDP4BIT_CALLER, .comm = parent},
                  [&] { return shrink(parent, excluded, excluded_count, comm, config, flags); });
}

SDP4BIT_EXPORT ncclResult_t ncclCommGrow(ncclComm_t parent, int ranks, const ncclUniqueId* id, int rank,
                                         ncclComm_t* comm, ncclConfig_t* config) {
  return boundary({.address = SDP4BIT_CALLER, .comm = parent}, [&] {
    return create_part(comm, origin_of_grown(parent, config), real_nccl().comm_grow, parent, ranks, id, rank,
                       comm, config);
  });
}

SDP4BIT_EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  return boundary({.address = SDP4BIT_CALLER, .comm = comm}, [&] { return finalize(comm); });
}

SDP4BIT_EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return boundary({.address = SDP4BIT_CALLER, .comm = comm}, [&] { return destroy(comm); });
}

SDP4BIT_EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return boundary({.address = SDP4BIT_CALLER, .comm = comm}, [&] { return abort(comm); });
}

SDP4BIT_EXPORT ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags) {
  return boundary({.address = SDP4BIT_CALLER, .comm = comm}, [&] { return revoke(comm, flags); });
}

SDP4BIT_EXPORT ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                                     ncclScalarResidence_t residence, ncclComm_t comm) {
  return boundary({.address = SDP4BIT_CALLER, .comm = comm},
                  [&] { return create_operator(op, scalar, type, residence, comm); });
}

SDP4BIT_EXPORT ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return boundary({.address = SDP4BIT_CALLER, .comm = comm}, [&] { return destroy_operator(op, comm); });
}
