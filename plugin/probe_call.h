// Behind a gather that NCCL made: takes a probe's step out of the own slice. Of this rank alone; sends
// nothing.
#pragma once

#include "kernels/launch_probe.h"
#include "plugin/comm_state.h"
#include "plugin/phased_call.h"

namespace sdp4bit {

class ProbeCall final : public SingleCall {
 public:
  void set(CommState& of_comm, cudaStream_t of_stream, const ProbeArgs& args) {
    comm_ = &of_comm;
    stream_ = of_stream;
    args_ = args;
  }

  CommState& comm() override { return *comm_; }
  cudaStream_t stream() const override { return stream_; }
  std::size_t chunk_count() const override { return 1; }
  std::size_t chunk_bytes(std::size_t) const override { return 0; }
  int step_count() const override { return 1; }
  const char* phase(int) const override { return "weight probe"; }
  void launch_step(const Step& step) override { check(answer_probe(args_, step.stream)); }
  void exchange_step(const Step&) override {}

 private:
  CommState* comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  ProbeArgs args_;
};

}  // namespace sdp4bit
