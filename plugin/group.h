// Outermost groups: calls are recorded, native ones passed on at once, ours run in lockstep when the group
// ends. Where ranks compare their calls (SDP4BIT_CHECK=1), all of them wait for the end and the votes.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "plugin/all_gather.h"
#include "plugin/call_description.h"
#include "plugin/comm_state.h"
#include "plugin/lockstep.h"
#include "plugin/phased_call.h"
#include "plugin/real_nccl.h"
#include "plugin/reduce_scatter.h"

namespace sdp4bit {

/// One for each thread and copy of NCCL, like NCCL's own group state. A call outside of any group is a group
/// of its own.
class Group {
 public:
  [[nodiscard]] static Group& current();
  /// Whether this thread has opened a group of that copy.
  [[nodiscard]] static bool is_open(const RealNccl& nccl) noexcept;
  /// The copy of which this thread has opened a group, the latest if there are several, or nullptr.
  [[nodiscard]] static const RealNccl* open_one() noexcept;

  ncclResult_t start();
  ncclResult_t end();
  ncclResult_t simulate_end(ncclSimInfo_t* info);
  ncclResult_t reduce_scatter(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                              ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
  ncclResult_t all_gather(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                          ncclComm_t comm, cudaStream_t stream);
  /// A communicator whose handle NCCL writes at the latest when the group ends.
  void note_created_at_end(ncclComm_t* handle, const CommOrigin& origin);
  /// An operator that the program destroys in the open group though a native call that waits for the votes
  /// needs it: true, and it is destroyed behind that call.
  [[nodiscard]] bool destroys_at_end(ncclRedOp_t op, ncclComm_t comm);

 private:
  /// A call of this group that was not refused.
  struct Recorded {
    std::shared_ptr<CommState> comm;
    Collective collective = Collective::reduce_scatter;
    Reason reason = Reason::compressed;
    bool counts = true;                // gets a number: not captured
    ReduceScatterArgs reduce_scatter;  // of a ReduceScatter
    AllGatherArgs all_gather;          // of an AllGather ...
    GatherKind gather = GatherKind::native;
    bool looked_after = false;  // a ReduceScatter whose health is watched
    bool tracked = false;       // ... that the weights' side has decided on
    bool voted = false;         // compared by all ranks before it is made; until then also a native one waits

    [[nodiscard]] cudaStream_t stream() const {
      return collective == Collective::reduce_scatter ? reduce_scatter.stream : all_gather.stream;
    }
  };
  /// A state found before. It is not held: a communicator's memory goes with its last call, not with a
  /// thread that once used it.
  struct Known {
    ncclComm_t handle = nullptr;
    std::uint64_t generation = 0;  // of the registry
    std::weak_ptr<CommState> state;
  };
  struct Destroyed {
    ncclRedOp_t op;
    ncclComm_t comm;
  };
  struct Created {
    ncclComm_t* handle;
    CommOrigin origin;
  };
  /// Forgets the outermost group when it is over, however it ends.
  class Clearing {
   public:
    Clearing(Group& group, bool outermost) : group_(group), outermost_(outermost) {}
    ~Clearing();
    Clearing(const Clearing&) = delete;
    Clearing& operator=(const Clearing&) = delete;

   private:
    Group& group_;
    bool outermost_;
  };

  /// The state of a communicator, as find_comm() says, which is asked once for each of the last few handles.
  [[nodiscard]] std::shared_ptr<CommState> find(ncclComm_t handle);
  template <typename Call>
  ncclResult_t in_nccl(const char* waiting_for, const Call& call) const;
  template <typename Body>
  ncclResult_t recording(CommState& comm, const Body& body);
  template <typename PassOn>
  ncclResult_t pass_lasting(CommState& comm, const CallFacts& facts, Reason reason, const PassOn& pass_on);
  static Group& create(const RealNccl& nccl);
  Reason classify(CommState& comm, const CallFacts& facts, bool settled);
  template <typename PassOn>
  ncclResult_t take(Recorded call, const CallFacts& facts, const PassOn& pass_on);
  template <typename EndNatives>
  ncclResult_t finish_outermost(const EndNatives& end_natives) {
    const Clearing clearing(*this, true);
    return finish_after(end_natives());
  }
  /// With this operator, where it is a ReduceScatter.
  static ncclResult_t pass_on(const Recorded& call, ncclRedOp_t op);
  static void count(const Recorded& call);
  ncclResult_t finish_after(ncclResult_t result);
  static CallDescription describe(const Recorded& call);
  void vote();
  ncclResult_t pass_on_voted();
  void launch(bool in_progress);
  void fail_all();

  const RealNccl* nccl_ = nullptr;  // whose groups these are
  std::array<Known, 8> known_;      // one after the other
  std::size_t next_known_ = 0;
  int depth_ = 0;
  std::uint64_t opened_ = 0;          // outermost groups of the thread are numbered, over all copies
  std::uint64_t epoch_ = 0;           // of the open outermost group; 0: no call of ours came yet
  ncclResult_t error_ = ncclSuccess;  // of a call of ours that failed in the open group
  std::vector<Recorded> calls_;
  bool any_voted_ = false;
  std::vector<Created> created_;
  std::vector<Destroyed> destroyed_;
  std::vector<PhasedCall*> phased_;
  std::deque<ReduceScatterCall> gradient_calls_;  // reused: no allocation once warm
  std::size_t gradient_calls_used_ = 0;
  Lockstep lockstep_;
};

}  // namespace sdp4bit
