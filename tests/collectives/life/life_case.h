// What tests of life share: a ReduceScatter with buffers of its own, and a captured graph.
#pragma once

#include "../reduce_scatter/gradient_case.h"

namespace sdp4bit::test {

inline const Environment kEverything{{"SDP4BIT_COMMS", "all"}, {"SDP4BIT_MIN_BYTES", "0"}};

inline Environment everything_and(std::string name, std::string value) {
  Environment environment = kEverything;
  environment.emplace_back(std::move(name), std::move(value));
  return environment;
}

inline void append(Bytes& to, const Bytes& bytes) {
  to.insert(to.end(), bytes.begin(), bytes.end());
}

/// fp32 sums whose buffers outlive the call.
class Reduction {
 public:
  Reduction(const GradientCase& gradient, int rank, int ranks)
      : count_(gradient.count), send_(input_of(gradient, rank, ranks)), receive_(count_ * sizeof(float)) {}
  ncclResult_t try_on(ncclComm_t comm, cudaStream_t stream) const {
    return ncclReduceScatter(send_.data(), receive_.data(), count_, ncclFloat32, ncclSum, comm, stream);
  }
  void issue(ncclComm_t comm, cudaStream_t stream) const { check(try_on(comm, stream)); }
  [[nodiscard]] const DeviceBytes& receive() const { return receive_; }
  [[nodiscard]] Bytes output() const { return receive_.read(); }

 private:
  std::size_t count_;
  DeviceBytes send_, receive_;
};

inline cudaStream_t new_stream() {
  cudaStream_t stream = nullptr;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  return stream;
}

/// Captured on `stream`, in the given mode.
class Graph {
 public:
  template <typename Issue>
  Graph(cudaStream_t stream, Issue issue, cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal) {
    check(cudaStreamBeginCapture(stream, mode));
    issue();
    check(cudaStreamEndCapture(stream, &graph_));
    check(cudaGraphInstantiate(&executable_, graph_, 0));
  }
  ~Graph() {
    (void)cudaGraphExecDestroy(executable_);
    if (graph_) (void)cudaGraphDestroy(graph_);
  }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;
  /// What was instantiated from it lives on.
  void drop_template() {
    check(cudaGraphDestroy(graph_));
    graph_ = nullptr;
  }
  [[nodiscard]] cudaGraph_t get() const { return graph_; }
  void replay(cudaStream_t stream) const { check(cudaGraphLaunch(executable_, stream)); }

 private:
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace sdp4bit::test
