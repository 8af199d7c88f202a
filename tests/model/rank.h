// One rank of a running program: its device, streams, communicators, buffers and graphs.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <array>
#include <deque>
#include <map>
#include <set>
#include <vector>

#include "memory.h"
#include "plan.h"
#include "program.h"
#include "trace.h"
#include "values.h"

namespace sdp4bit::model {

class Rank {
 public:
  Rank(const Program& program, const Plan& plan, Trace& trace, int rank, int device);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  [[nodiscard]] int number() const { return rank_; }
  void select() const { check(cudaSetDevice(device_)); }
  [[nodiscard]] bool takes_part(const Call& call) const;
  // The parts of a step; the device is selected.
  void offer_id(const Step& step) const;
  void create(const Step& step);
  void created(const Step& step);
  /// Waits for what its communicators that do not block have begun.
  void settle() const;
  void destroy(int number, bool finalizes = false);
  void abort(int number);
  void revoke(int number);
  void expect_refusals(int number);
  void forget(int number);  // a communicator that is gone
  void refused(const Step& step);
  void hint(const Step& step);
  void reset(const Step& step);
  void prepare(std::size_t step, const Call& call, std::uint64_t repeat, int stream);
  void issue(const Call& call, int stream);
  void finish(const Call& call, int stream);
  /// A ReduceScatter that ranks may not agree on; false: they were told so.
  [[nodiscard]] bool try_to_issue(const Call& call);
  void allocate_for(const Call& call);
  void allocate(const Step& step);  // what calls need that are captured or simulated
  void starve(bool starving) const;
  void begin_capture(const Step& step, bool alone) const;
  void end_capture(const Step& step);
  void replay(const Step& step);
  void change(const Step& step);  // release, reload, scribble, move, exchange
  void delay(const Step& step) const;
  void synchronize() const;
  /// Looks at what had to stay as it was.
  void examine() const;
  [[nodiscard]] int stream_of(const Call& call) const;

 private:
  void wait_for(ncclComm_t comm) const;
  /// Of an AllGather's weight; `shift` bytes of misalignment.
  struct Buffer {
    Memory memory;
    std::size_t shift = 0;
  };
  /// An optimizer's step of a shard that has no other copy, in stream order.
  struct Update {
    const Master* master;
    const Weight* weight;
    const Call* call;
    std::byte* shard;

    static void run(void* update);
  };
  /// An execution under way.
  struct Pending {
    Record* record = nullptr;
    std::byte *snapshot = nullptr, *image = nullptr;
    std::size_t capacity = 0;
  };

  [[nodiscard]] const Communicator& communicator(const Call& call) const;
  [[nodiscard]] int place(const Call& call) const;
  [[nodiscard]] Memory& call_memory(const Call& call);
  [[nodiscard]] Buffer new_buffer(std::size_t bytes, const Weight& weight, std::uint64_t key) const;
  [[nodiscard]] Buffer& receive_buffer(int weight);
  [[nodiscard]] Buffer& send_buffer(int weight);
  [[nodiscard]] Master& master(int weight);
  [[nodiscard]] std::byte* own_slice(int weight);
  [[nodiscard]] bool is_in_place(const Call& call) const;
  /// Only where the slice is kept; nothing, and does nothing, elsewhere.
  [[nodiscard]] std::vector<std::byte> read_own_slice(int weight);
  void write_own_slice(int weight, const std::vector<std::byte>& slice);
  /// All that the program does not need any more.
  void fill_received(int weight, int byte, cudaStream_t stream);
  void move(const Step& step, const Weight& weight);
  void exchange(const Step& step, const Weight& weight);
  [[nodiscard]] std::byte* factor_of(const Call& call) const;
  void prepare_call(const Call& call, std::uint64_t repeat, cudaStream_t stream);
  void prepare_gather(const Call& call, cudaStream_t stream);
  void issue_call(const Call& call, cudaStream_t stream);
  void issue_gather(const Call& call, cudaStream_t stream);
  void forget_graphs_of(int comm);
  void examine(const Execution& execution, std::size_t place) const;

  const Program& program_;
  const Plan& plan_;
  Trace& trace_;
  const int rank_, device_;
  std::array<cudaStream_t, kStreams> streams_{};
  std::map<int, ncclComm_t> comms_;
  std::map<int, Memory> memories_;  // of calls that are no AllGathers, by buffer
  std::map<int, Buffer> receives_, sends_;
  std::set<int> fresh_;  // weights whose only copy is yet to be written
  std::deque<Update> updates_;
  std::map<int, Master> masters_;
  struct Graph {
    cudaGraphExec_t executable = nullptr;
    std::set<int> comms;
  };
  std::map<int, Graph> graphs_;
  std::map<const Call*, Pending> pending_;
  std::byte* factors_ = nullptr;  // device scalars, see factor_of
  std::uint64_t generation_ = 0;  // of buffers: misaligned ones differ
};

}  // namespace sdp4bit::model
