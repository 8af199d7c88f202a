// What the thinnest interposer would be: one line that hands the call on. The yardstick of bench/host.
#include <nccl.h>

#define ONE_LINE extern "C" __attribute__((visibility("default"))) ncclResult_t

ONE_LINE one_line_group_start() {
  return pncclGroupStart();
}
ONE_LINE one_line_group_end() {
  return pncclGroupEnd();
}
ONE_LINE one_line_all_gather(const void* send, void* receive, size_t count, ncclDataType_t type,
                             ncclComm_t comm, cudaStream_t stream) {
  return pncclAllGather(send, receive, count, type, comm, stream);
}
