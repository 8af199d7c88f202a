/* What the NCCL stand-in offers beyond NCCL: counted traffic. C99; exported by the sandbox's libnccl.so.2. */
#ifndef SANDBOX_NCCL_EXTENSION_H
#define SANDBOX_NCCL_EXTENSION_H

#include <nccl.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that left this process's ranks since the last reset: what a ring- or pairwise-optimal NCCL would put on the
 * links, counted as the payload that the collective's definition must move from rank to rank. */
typedef struct {
  uint64_t bytes_in_node;       /* sender and receiver share a node */
  uint64_t bytes_between_nodes; /* they do not */
  uint64_t operations;          /* collectives and point-to-point operations executed */
} sandboxNcclTraffic;

void sandboxNcclGetTraffic(sandboxNcclTraffic* total);
void sandboxNcclResetTraffic(void);
/* Bytes sent by `sender` to `receiver` of a communicator since its creation or the last reset. */
uint64_t sandboxNcclPairBytes(ncclComm_t comm, int sender, int receiver);
/* Prints a table of pairs and of calls to stdout; SANDBOX_NCCL_TRAFFIC=1 does so at exit. */
void sandboxNcclPrintTraffic(void);

#ifdef __cplusplus
}
#endif
#endif
