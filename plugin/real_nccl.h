// The NCCL that the program uses: its profiling names (pncclX), looked up once.
#pragma once

#include <nccl.h>

namespace sdp4bit {

/// Types come from nccl.h. The functions after `version` are missing from older libraries and then null.
struct RealNccl {
  decltype(&::ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&::ncclAllGather) all_gather = nullptr;
  decltype(&::ncclSend) send = nullptr;
  decltype(&::ncclRecv) recv = nullptr;
  decltype(&::ncclGroupStart) group_start = nullptr;
  decltype(&::ncclGroupEnd) group_end = nullptr;
  decltype(&::ncclCommInitRank) comm_init_rank = nullptr;
  decltype(&::ncclCommInitAll) comm_init_all = nullptr;
  decltype(&::ncclCommDestroy) comm_destroy = nullptr;
  decltype(&::ncclCommAbort) comm_abort = nullptr;
  decltype(&::ncclCommGetAsyncError) comm_get_async_error = nullptr;
  decltype(&::ncclCommCount) comm_count = nullptr;
  decltype(&::ncclCommUserRank) comm_user_rank = nullptr;
  decltype(&::ncclCommCuDevice) comm_cu_device = nullptr;
  decltype(&::ncclRedOpCreatePreMulSum) red_op_create_pre_mul_sum = nullptr;
  decltype(&::ncclRedOpDestroy) red_op_destroy = nullptr;
  decltype(&::ncclGetVersion) get_version = nullptr;
  int version = 0;

  decltype(&::ncclCommInitRankConfig) comm_init_rank_config = nullptr;      // 2.14
  decltype(&::ncclCommFinalize) comm_finalize = nullptr;                    // 2.14
  decltype(&::ncclCommSplit) comm_split = nullptr;                          // 2.18
  decltype(&::ncclGroupSimulateEnd) group_simulate_end = nullptr;           // 2.22
  decltype(&::ncclCommInitRankScalable) comm_init_rank_scalable = nullptr;  // 2.23
  decltype(&::ncclCommShrink) comm_shrink = nullptr;                        // 2.27
  decltype(&::ncclCommRevoke) comm_revoke = nullptr;                        // 2.28
};

/// Throws Error naming what is missing. Never looks at our own symbols.
const RealNccl& real_nccl();

}  // namespace sdp4bit
