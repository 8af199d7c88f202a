/* What the NCCL stand-in offers beyond NCCL: counted traffic and the nodes it counts by. C99; exported by the
 * sandbox's libnccl.so.2. */
/* clang-format off */
/* What is counted. Sends count what they send. Collectives count the least that a hierarchical NCCL would put
 * on the links, however the stand-in moves the data, so that a comparison never makes native NCCL look worse
 * than it is:
 *   AllGather          each shard crosses once to each other node, to the rank with the owner's place in its node
 *                      (modulo the node's size), which passes it on to the others there; in its own node the owner
 *                      sends it
 *   ReduceScatter      the same way backwards: each node reduces its part of a remote segment in the rank with the
 *                      segment owner's place, which sends one partial result
 *   AllReduce          as a ReduceScatter and an AllGather of count / ranks elements (uneven where it does not divide)
 *   Broadcast, Reduce  once to (from) each other node, then in the node
 *   AlltoAll, Gather, Scatter   rank to rank
 * Nothing is counted from a rank to itself, nor for operations that ended in an error.
 *
 * Which ranks share a node: NCCL_HOSTID, else host name and boot id; SANDBOX_NODES divides the devices of a
 * host (`2`: equal blocks, `3,1`: ranks of each node, `map:0,1,0`: node of each device). */
/* clang-format on */
#ifndef SANDBOX_NCCL_EXTENSION_H
#define SANDBOX_NCCL_EXTENSION_H

#include <nccl.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that left this process's ranks since the last reset. With one rank per process that is what the rank
 * sent; with several, the sum over them. */
typedef struct {
  uint64_t bytes_in_node;       /* sender and receiver share a node */
  uint64_t bytes_between_nodes; /* they do not */
  uint64_t operations; /* collectives and point-to-point operations executed by this process's ranks */
  uint64_t launches; /* groups of them, a single call too, given to a communicator's stream: NCCL's kernels */
} sandboxNcclTraffic;

void sandboxNcclGetTraffic(sandboxNcclTraffic* total);
/* Also clears the calls, and the pairs whose sender is a rank of this process. */
void sandboxNcclResetTraffic(void);
/* Bytes sent by `sender` to `receiver` of a communicator since its creation or the last reset; any pair, also
 * of other processes. Up to date when the operation is done on the ranks' streams. */
uint64_t sandboxNcclPairBytes(ncclComm_t comm, int sender, int receiver);

/* One kind of call, by function, count and type, and what this process's ranks sent in all of them. */
typedef struct {
  char call[96]; /* such as "ReduceScatter(count 1000, float, sum)" */
  uint64_t calls, bytes_in_node, bytes_between_nodes;
} sandboxNcclCall;

/* Fills up to `capacity` records and returns how many there are. */
size_t sandboxNcclGetCalls(sandboxNcclCall* records, size_t capacity);

/* Flips the byte at `offset` of what the `count`-th receive from now on (1 = the next) writes in this
 * process: of a ncclRecv or of a collective that moves data (AllGather, Broadcast, AlltoAll, Gather,
 * Scatter); 0: none.
 */
void sandboxNcclDamageReceive(uint64_t count, size_t offset);

/* What one operation brings to one rank from another: a ncclRecv, or a part of what a collective that moves
 * data brings (AllGather, AlltoAll and Gather one from each other rank, Broadcast and Scatter from the root).
 */
typedef struct {
  int sender, receiver; /* the receiver is a rank of this process */
  int is_collective;
  uint64_t bytes;
} sandboxNcclTransfer;

/* 1: forgets the transfers noted so far and notes those that end from now on; 0: notes no more. */
void sandboxNcclNoteTransfers(int on);
/* Fills up to `capacity` records, in the order in which transfers ended here, and returns how many there are.
 */
size_t sandboxNcclGetTransfers(sandboxNcclTransfer* records, size_t capacity);

/* Changes what the `transfer`-th transfer from now on (1 = the next; 0: none) from `sender` to `receiver`, a
 * rank of this process, of the communicator brings: `bytes` bytes at `offset` are XORed with `mask`, those
 * beyond its end excepted. A flipped bit is a mask of one byte with one bit. The plan before is forgotten. */
void sandboxNcclDamageTransfer(ncclComm_t comm, int sender, int receiver, uint64_t transfer, uint64_t offset,
                               const void* mask, size_t bytes);
/* How many planned damages have happened in this process. */
uint64_t sandboxNcclDamaged(void);

/* Node of a rank, numbered by lowest rank; -1 for a rank that is none. */
int sandboxNcclNode(ncclComm_t comm, int rank);

/* The net plugin that NCCL would use, or "own": valid until this thread asks again. Its functions beyond
 * finding devices are never called. */
const char* sandboxNcclNetwork(void);

/* Prints a table of pairs and of calls to stdout; SANDBOX_NCCL_TRAFFIC=1 does so at exit. */
void sandboxNcclPrintTraffic(void);

#ifdef __cplusplus
}
#endif
#endif
