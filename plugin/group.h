// Outermost groups: calls are recorded, native ones passed on at once, ours run in lockstep when the group
// ends.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "plugin/all_gather.h"
#include "plugin/comm_state.h"
#include "plugin/phased_call.h"
#include "plugin/reduce_scatter.h"

namespace sdp4bit {

/// One for each thread, like NCCL's own group state. A call outside of any group is a group of its own.
class Group {
 public:
  [[nodiscard]] static Group& current();

  ncclResult_t start();
  ncclResult_t end();
  ncclResult_t simulate_end(ncclSimInfo_t* info);
  ncclResult_t reduce_scatter(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                              ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
  ncclResult_t all_gather(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream);
  /// A communicator whose handle NCCL writes at the latest when the group ends.
  void note_created_at_end(ncclComm_t* handle, const CommOrigin& origin);

 private:
  /// A call of this group that was not refused.
  struct Recorded {
    std::shared_ptr<CommState> comm;
    Collective collective = Collective::reduce_scatter;
    Reason reason = Reason::compressed;
    ReduceScatterArgs reduce_scatter;  // of a ReduceScatter
    AllGatherArgs all_gather;          // of an AllGather
    GatherKind gather = GatherKind::native;
  };
  struct Created {
    ncclComm_t* handle;
    CommOrigin origin;
  };

  void enter(CommState& comm);
  void launch();
  void clear();

  int depth_ = 0;
  std::uint64_t epoch_ = 0;  // of the open outermost group; 0: none of our calls came yet
  std::vector<Recorded> calls_;
  std::vector<Created> created_;
  std::vector<PhasedCall*> phased_;
  std::deque<ReduceScatterCall> gradient_calls_;  // reused: no allocation once warm
  std::size_t gradient_calls_used_ = 0;
};

}  // namespace sdp4bit
