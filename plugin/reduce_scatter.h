// How a gradient travels: ReduceScatter as a phased call, on one level or two.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "kernels/launch.h"
#include "plugin/comm_state.h"
#include "plugin/gradient_plan.h"
#include "plugin/phased_call.h"

namespace sdp4bit {

/// As the program gave them; the operator already copied.
struct ReduceScatterArgs {
  const void* send = nullptr;
  void* receive = nullptr;
  std::size_t count = 0;  // elements of a segment
  ncclDataType_t type = ncclFloat32;
  ncclRedOp_t op = ncclSum;
  OpKind kind = OpKind::sum;
  PreMulSum pre_mul_sum;
  cudaStream_t stream = nullptr;
};

/// Uploads the tables of the communicator's path; called once, when the agreement is on.
void upload_segment_tables(CommState& comm, cudaStream_t stream);

class ReduceScatterCall final : public PhasedCall {
 public:
  /// `scales`: where the scales of what is sent first are counted, or nullptr.
  void set(std::shared_ptr<CommState> comm, const ReduceScatterArgs& args, ScaleHistogram* scales);
  /// Measures the error of what it sends, too.
  void sample_error() { sampled_ = true; }
  /// Lets go of the communicator.
  void clear() { comm_.reset(); }

  CommState& comm() override { return *comm_; }
  cudaStream_t stream() const override { return args_.stream; }
  CallKind kind() const override { return CallKind::gradient; }
  std::size_t chunk_count() const override;
  std::size_t chunk_bytes(std::size_t chunk) const override;
  int step_count() const override;
  const char* phase(int step) const override;
  void arrange(std::span<const Part> together) override;
  void launch(std::span<const Part> together) override;
  void exchange(std::span<const Part> together) override;

  /// Payload that this rank sends in all chunks.
  [[nodiscard]] const LinkBytes& sent_bytes() const { return plan_.sent; }

 private:
  [[nodiscard]] std::size_t chunk_elements(std::size_t chunk) const;
  [[nodiscard]] GradientLayout alone(std::size_t chunk) const;
  [[nodiscard]] Segments segments(std::size_t chunk) const;
  [[nodiscard]] const GradientWay& way() const { return comm_->gradient_way; }
  [[nodiscard]] float* own_partial(const Step& step) const {
    return reinterpret_cast<float*>(step.workspace.data() + layout_.own_partial);
  }
  [[nodiscard]] SampleTarget sample_target(SampleKind kind, const Step& step) const;
  [[nodiscard]] QuantizeArgs quantize_args(const Step& step) const;
  [[nodiscard]] ReduceRequantizeArgs reduce_requantize_args(const Step& step) const;
  [[nodiscard]] ReduceFinishArgs reduce_finish_args(const Step& step) const;
  [[nodiscard]] ChecksummedParts sent(bool first, const Step& step) const;
  [[nodiscard]] ChecksummedParts received(bool first, const Step& step) const;
  /// Behind the kernel that codes.
  void seal(bool first, const Step& step) const;
  /// Before the data is read.
  void verify(bool first, const Step& step) const;
  static void launch_quantize(std::span<const Part> together);
  static void launch_reduce_requantize(std::span<const Part> together);
  static void launch_reduce_finish(std::span<const Part> together);

  std::shared_ptr<CommState> comm_;
  ReduceScatterArgs args_;
  ElementType type_ = ElementType::float32;
  GradientPlan plan_;
  GradientLayout layout_;  // of the chunk under way, with those that it travels with
  Draw draw_;
  ChecksumCall checksum_call_;
  bool sampled_ = false;
  ScaleHistogram* scales_ = nullptr;
};

}  // namespace sdp4bit
