// The copies of NCCL that this process has loaded: their profiling names (pncclX), looked up once for each.
#pragma once

#include <nccl.h>

#include <atomic>
#include <string>
#include <vector>

#include "plugin/nccl_versions.h"

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
  decltype(&::ncclCommGrow) comm_grow = nullptr;                            // 2.29

  std::string path;                // of the object that holds it
  const void* identity = nullptr;  // LoadedObject::identity()
  bool alone = true;   // the object is NCCL and nothing else, not a framework linked to it statically
  unsigned index = 0;  // which copy of this process
};

/// The first release whose functions have second names, pncclX.
inline constexpr int kOldestNccl = 21600;

/// More copies than this in one process are refused.
inline constexpr unsigned kMostNcclCopies = 8;

/// What the present call of this thread is for; set by WithNccl alone.
inline thread_local const RealNccl* nccl_of_call = nullptr;
/// The copy, if only one was met so far; written by real_nccl.cpp alone.
inline std::atomic<const RealNccl*> nccl_met_alone{nullptr};

/// The copy that was found first.
const RealNccl& first_nccl();

/// The copy that the present call is for (WithNccl); outside of any call the one found first. Throws Error if
/// there is none, naming what is missing. Never looks at our own symbols.
inline const RealNccl& real_nccl() {
  const RealNccl* const nccl = nccl_of_call;
  return nccl ? *nccl : first_nccl();
}

/// The copy that a call from this address would reach without us: what the loader binds it to.
const RealNccl& nccl_reached_from(const void* caller);

/// The copy, if only one was met so far, else null.
[[nodiscard]] inline const RealNccl* only_nccl() noexcept {
  return nccl_met_alone.load(std::memory_order_acquire);
}

/// All copies that are loaded now. Those that cannot be used are named in the log, once.
std::vector<const RealNccl*> loaded_nccls();

/// While it lives, real_nccl() of this thread is `nccl`.
class WithNccl {
 public:
  explicit WithNccl(const RealNccl& nccl) noexcept : before_(nccl_of_call) { nccl_of_call = &nccl; }
  ~WithNccl() { nccl_of_call = before_; }
  WithNccl(const WithNccl&) = delete;
  WithNccl& operator=(const WithNccl&) = delete;

 private:
  const RealNccl* before_;
};

/// 22809 as "2.28.9".
[[nodiscard]] std::string version_text(int code);

}  // namespace sdp4bit
