// What the nccl.h at hand may be too old to declare: newer functions, and the fields of newer
// configurations.
//
// The library is built once and meets every NCCL from 2.16 on; so it must name all it knows, whichever header
// it is built with. Everything here is NCCL's stable binary interface.
#pragma once

#include <nccl.h>

#include <cstddef>

#if NCCL_VERSION_CODE < NCCL_VERSION(2, 18, 0)
#error sdp4bit needs the nccl.h of NCCL 2.18 or later: set NCCL_INCLUDE_DIR to the folder of one
#endif

extern "C" {
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 22, 0)
typedef struct ncclSimInfo ncclSimInfo_t;
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t*);
#endif
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 23, 0)
ncclResult_t ncclCommInitRankScalable(ncclComm_t*, int, int, int, ncclUniqueId*, ncclConfig_t*);
#endif
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 27, 0)
ncclResult_t ncclCommShrink(ncclComm_t, int*, int, ncclComm_t*, ncclConfig_t*, int);
#endif
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 28, 0)
ncclResult_t ncclCommRevoke(ncclComm_t, int);
#endif
#if NCCL_VERSION_CODE < NCCL_VERSION(2, 29, 0)
ncclResult_t ncclCommGrow(ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, ncclConfig_t*);
#endif
}

namespace sdp4bit {

/// The head of ncclConfig_t as far as sdp4bit reads it. A field exists where `size` covers it.
struct ConfigHead {
  std::size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cga_cluster_size;
  int least_ctas;
  int most_ctas;
  const char* net_name;
  int split_share;        // 2.18
  int traffic_class;      // 2.26
  const char* comm_name;  // 2.27

  [[nodiscard]] bool has(std::size_t offset, std::size_t bytes) const { return size >= offset + bytes; }
};
static_assert(offsetof(ConfigHead, blocking) == offsetof(ncclConfig_t, blocking));
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
static_assert(offsetof(ConfigHead, comm_name) == offsetof(ncclConfig_t, commName));
#endif

}  // namespace sdp4bit
