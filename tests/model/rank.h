// One rank of a running program: its device, streams, communicators, buffers and graphs.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <array>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "plan.h"
#include "program.h"
#include "trace.h"
#include "values.h"

namespace sdp4bit::model {

/// Throw std::runtime_error.
void check(cudaError_t error, const char* file = __builtin_FILE(), int line = __builtin_LINE());
void check(ncclResult_t result, const char* file = __builtin_FILE(), int line = __builtin_LINE());

/// Device memory that streams use in turn: the program's own duty is to order them.
class Memory {
 public:
  Memory() = default;
  explicit Memory(std::size_t bytes);
  ~Memory() { release(); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  Memory(Memory&& other) noexcept { swap(other); }
  Memory& operator=(Memory&& other) noexcept {
    swap(other);
    return *this;
  }
  void swap(Memory& other) noexcept;
  void release();
  /// Around work of a stream on this memory.
  void begin_use(cudaStream_t stream);
  void end_use(cudaStream_t stream);
  [[nodiscard]] std::byte* data() const { return data_; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  explicit operator bool() const { return data_ != nullptr; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  cudaEvent_t event_ = nullptr;
  cudaStream_t stream_ = nullptr;
  bool used_ = false;
};

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
  void destroy(int number);
  void abort(int number);
  void refused(const Step& step);
  void prepare(std::size_t step, const Call& call, std::uint64_t repeat, int stream);
  void issue(const Call& call, int stream);
  void finish(const Call& call, int stream);
  void allocate(const Step& step);  // what calls need that are captured or simulated
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
  /// Of an AllGather's weight; `shift` bytes of misalignment.
  struct Buffer {
    Memory memory;
    std::size_t shift = 0;
  };
  /// An execution under way.
  struct Pending {
    Record* record = nullptr;
    std::byte *snapshot = nullptr, *image = nullptr;
    std::size_t capacity = 0;
  };

  [[nodiscard]] const Communicator& communicator(const Call& call) const;
  [[nodiscard]] int place(const Call& call) const;
  [[nodiscard]] Memory& gradient_memory(const Call& call);
  [[nodiscard]] Buffer new_buffer(std::size_t bytes, const Weight& weight, std::uint64_t key) const;
  [[nodiscard]] Buffer& receive_buffer(int weight);
  [[nodiscard]] Buffer& send_buffer(int weight);
  [[nodiscard]] Master& master(int weight);
  void prepare_gradient(const Call& call, std::uint64_t repeat, cudaStream_t stream);
  void prepare_gather(const Call& call, cudaStream_t stream);
  void issue_gradient(const Call& call, cudaStream_t stream);
  void issue_gather(const Call& call, cudaStream_t stream);
  void forget_graphs_of(int comm);
  void examine(const Execution& execution, std::size_t place) const;

  const Program& program_;
  const Plan& plan_;
  Trace& trace_;
  const int rank_, device_;
  std::array<cudaStream_t, kStreams> streams_{};
  std::map<int, ncclComm_t> comms_;
  std::map<int, Memory> gradients_;
  std::map<int, Buffer> receives_, sends_;
  std::map<int, Master> masters_;
  struct Graph {
    cudaGraphExec_t executable = nullptr;
    std::set<int> comms;
  };
  std::map<int, Graph> graphs_;
  std::map<const Call*, Pending> pending_;
  std::byte* factors_ = nullptr;  // device scalars, see issue_gradient
  std::uint64_t generation_ = 0;  // of buffers: misaligned ones differ
};

}  // namespace sdp4bit::model
