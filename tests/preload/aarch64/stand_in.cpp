// An NCCL that answers each call with kFromNccl, under all the names that sdp4bit looks for. It is built
// without nccl.h, whose types these functions do not have.
#include "answers.h"

#define NCCL_FUNCTION(name)                                         \
  extern "C" __attribute__((visibility("default"))) int p##name() { \
    return kFromNccl;                                               \
  }                                                                 \
  extern "C" __attribute__((visibility("default"), weak, alias("p" #name))) int name();
NCCL_FUNCTION(ncclAllGather)
NCCL_FUNCTION(ncclReduceScatter)
NCCL_FUNCTION(ncclGroupStart)
NCCL_FUNCTION(ncclGroupEnd)
NCCL_FUNCTION(ncclSend)
NCCL_FUNCTION(ncclRecv)
NCCL_FUNCTION(ncclCommInitRank)
NCCL_FUNCTION(ncclCommInitAll)
NCCL_FUNCTION(ncclCommDestroy)
NCCL_FUNCTION(ncclCommAbort)
NCCL_FUNCTION(ncclCommGetAsyncError)
NCCL_FUNCTION(ncclCommCount)
NCCL_FUNCTION(ncclCommUserRank)
NCCL_FUNCTION(ncclCommCuDevice)
NCCL_FUNCTION(ncclRedOpCreatePreMulSum)
NCCL_FUNCTION(ncclRedOpDestroy)

extern "C" __attribute__((visibility("default"))) int pncclGetVersion(int* version) {
  *version = 22809;
  return 0;
}
