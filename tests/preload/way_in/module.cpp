// Stands for a framework: a library linked to NCCL that something else loads.
#include "job.h"

#define MODULE_EXPORT extern "C" __attribute__((visibility("default")))

MODULE_EXPORT int module_job() {
  return way_in::report(way_in::run_job());
}

/// A communicator of one rank, made by the NCCL that this library is bound to.
MODULE_EXPORT ncclComm_t module_create() {
  ncclComm_t comm = nullptr;
  ncclUniqueId id;
  if (ncclGetUniqueId(&id) != ncclSuccess) return nullptr;
  return ncclCommInitRank(&comm, 1, id, 0) == ncclSuccess ? comm : nullptr;
}

MODULE_EXPORT ncclResult_t module_gather(ncclComm_t comm, float* memory, int grouped) {
  if (grouped != 0) {
    if (const ncclResult_t result = ncclGroupStart(); result != ncclSuccess) return result;
  }
  const ncclResult_t gathered = ncclAllGather(memory, memory + 1, 1, ncclFloat32, comm, nullptr);
  const ncclResult_t ended = grouped != 0 ? ncclGroupEnd() : ncclSuccess;
  return gathered != ncclSuccess ? gathered : ended;
}

MODULE_EXPORT ncclResult_t module_destroy(ncclComm_t comm) {
  return ncclCommDestroy(comm);
}

MODULE_EXPORT int module_open_groups(int times) {
  for (int i = 0; i < times; ++i) {
    if (ncclGroupStart() != ncclSuccess || ncclGroupEnd() != ncclSuccess) return 1;
  }
  return 0;
}
