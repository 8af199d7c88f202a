// Data, calls and expectations of ReduceScatter.
#include "gradient_case.h"

#include <algorithm>
#include <cstring>

#include "kernels/element.h"
#include "reduce_scatter_model.h"

namespace sdp4bit::test {
namespace {

ncclDataType_t nccl_type(ElementType type) {
  return type == ElementType::float32   ? ncclFloat32
         : type == ElementType::float16 ? ncclFloat16
                                        : ncclBfloat16;
}

const char* type_name(ElementType type) {
  return type == ElementType::float32 ? "fp32" : type == ElementType::float16 ? "fp16" : "bf16";
}

const char* op_name(Op op) {
  switch (op) {
    case Op::sum:
      return "sum";
    case Op::avg:
      return "avg";
    case Op::host_scalar:
      return "scalar on the host";
    case Op::device_scalar:
      return "scalar on the device";
  }
  return "?";
}

bool scaled(Op op) {
  return op == Op::host_scalar || op == Op::device_scalar;
}

/// The operator of a case; a user's own one is destroyed right after the call, as PyTorch does.
class Operator {
 public:
  Operator(const GradientCase& gradient, ncclComm_t comm)
      : comm_(comm), scalar_(model::to_bytes(gradient.type, {kScalar})), on_device_(scalar_) {
    if (gradient.op == Op::avg) op_ = ncclAvg;
    if (!scaled(gradient.op)) return;
    created_ = true;
    const bool host = gradient.op == Op::host_scalar;
    check(ncclRedOpCreatePreMulSum(&op_, host ? scalar_.data() : on_device_.data(), nccl_type(gradient.type),
                                   host ? ncclScalarHostImmediate : ncclScalarDevice, comm));
    if (host) std::fill(scalar_.begin(), scalar_.end(), std::byte{0xff});  // read at creation, never later
  }
  void destroy() {
    if (created_) check(ncclRedOpDestroy(op_, comm_));
  }
  [[nodiscard]] ncclRedOp_t get() const { return op_; }

 private:
  ncclComm_t comm_;
  Bytes scalar_;
  DeviceBytes on_device_;
  ncclRedOp_t op_ = ncclSum;
  bool created_ = false;
};

void expect_same(const Bytes& before, const Bytes& after, std::size_t from, std::size_t to,
                 const std::string& what) {
  for (std::size_t i = from; i < to; ++i) {
    if (before[i] != after[i]) expect(false, what + ": byte " + std::to_string(i) + " changed");
  }
}

}  // namespace

std::string describe(const GradientCase& gradient) {
  return std::string(type_name(gradient.type)) + ", " + op_name(gradient.op) + ", count " +
         std::to_string(gradient.count) + ", shift " + std::to_string(gradient.shift) +
         (gradient.in_place ? ", in place" : "");
}

float datum(std::uint32_t seed, int rank, std::size_t index) {
  std::uint64_t bits = (std::uint64_t{seed} << 48) ^ (static_cast<std::uint64_t>(rank) << 40) ^ index;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u + 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  bits ^= bits >> 31;
  float sum = -2.0f;  // of four uniform numbers: variance 1/3
  for (int i = 0; i < 4; ++i, bits >>= 16) sum += static_cast<float>(bits & 0xffffu) * 0x1p-16f;
  return sum * 1.7320508f;
}

Bytes input_of(const GradientCase& gradient, int rank, int ranks) {
  std::vector<float> values(gradient.count * static_cast<std::size_t>(ranks));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = datum(gradient.seed, rank, i);
  return model::to_bytes(gradient.type, values);
}

Bytes run_gradient(RankContext& rank, const GradientCase& gradient) {
  constexpr std::size_t kGuard = 64;  // bytes around the buffers that nobody may touch
  const std::size_t element = element_bytes(gradient.type);
  const std::size_t begin = kGuard + gradient.shift * element + gradient.odd;
  const Bytes input = input_of(gradient, rank.rank, rank.ranks);
  const std::size_t output_bytes = gradient.count * element;
  Bytes send_before(begin + input.size() + kGuard, std::byte{0x5a});
  std::copy(input.begin(), input.end(), send_before.begin() + static_cast<std::ptrdiff_t>(begin));
  Bytes receive_before(begin + output_bytes + kGuard, std::byte{0x5a});
  const DeviceBytes send(send_before), receive(receive_before);
  const std::size_t own = begin + static_cast<std::size_t>(rank.rank) * output_bytes;
  std::byte* const output = gradient.in_place ? send.data() + own : receive.data() + begin;

  Operator op(gradient, rank.comm);
  check(ncclReduceScatter(send.data() + begin, output, gradient.count, nccl_type(gradient.type), op.get(),
                          rank.comm, rank.stream));
  op.destroy();
  check(cudaStreamSynchronize(rank.stream));

  const Bytes send_after = send.read(), receive_after = receive.read();
  const std::string what = describe(gradient);
  if (gradient.in_place) {
    expect_same(send_before, send_after, 0, own, what + ": input");
    expect_same(send_before, send_after, own + output_bytes, send_before.size(), what + ": input");
  } else {
    expect_same(send_before, send_after, 0, send_before.size(), what + ": input");
    expect_same(receive_before, receive_after, 0, begin, what + ": before the output");
    expect_same(receive_before, receive_after, begin + output_bytes, receive_before.size(),
                what + ": behind it");
  }
  const Bytes& holder = gradient.in_place ? send_after : receive_after;
  const auto first = holder.begin() + static_cast<std::ptrdiff_t>(gradient.in_place ? own : begin);
  return {first, first + static_cast<std::ptrdiff_t>(output_bytes)};
}

void engage(RankContext& rank) {
  const DeviceBytes send(Bytes(static_cast<std::size_t>(rank.ranks) * sizeof(float))), receive(sizeof(float));
  for (int i = 0; i < 3; ++i) {
    check(ncclReduceScatter(send.data(), receive.data(), 1, ncclFloat32, ncclSum, rank.comm, rank.stream));
  }
  check(cudaStreamSynchronize(rank.stream));
}

Levels levels_of(const std::vector<int>& node_of) {
  const auto ranks = static_cast<std::uint32_t>(node_of.size());
  const auto on_first_node =
      static_cast<std::uint32_t>(std::count(node_of.begin(), node_of.end(), node_of.front()));
  const auto nodes = static_cast<std::uint32_t>(node_of.back()) + 1;
  return on_first_node * nodes == ranks ? Levels{nodes, on_first_node} : Levels{ranks, 1};
}

float entry_factor(const GradientCase& gradient) {
  return scaled(gradient.op) ? kScalar : 1.0f;
}

std::vector<Bytes> expected_outputs(const GradientCase& gradient, const std::vector<int>& node_of,
                                    std::uint64_t draw, const Wire& wire) {
  const Levels levels = levels_of(node_of);
  const auto ranks = static_cast<int>(node_of.size());
  const model::Job job{.nodes = levels.nodes,
                       .local_ranks = levels.local_ranks,
                       .count = gradient.count,
                       .type = gradient.type,
                       .codec_in_node = wire.in_node,
                       .codec_between_nodes = wire.between_nodes,
                       .seed = wire.seed,
                       .draw = draw,
                       .factor = entry_factor(gradient),
                       .out_factor = gradient.op == Op::avg ? 1.0f / static_cast<float>(ranks) : 1.0f};
  std::vector<Bytes> inputs;
  for (int rank = 0; rank < ranks; ++rank) inputs.push_back(input_of(gradient, rank, ranks));
  if (levels.nodes == 1) {
    return model::reduce_scatter_one_level(job, inputs, job.codec_in_node, MessageKind::gradient_in_node);
  }
  if (levels.local_ranks == 1) {
    return model::reduce_scatter_one_level(job, inputs, job.codec_between_nodes,
                                           MessageKind::gradient_between_nodes);
  }
  return model::reduce_scatter_two_level(job, inputs);
}

std::vector<double> exact_output(const GradientCase& gradient, int rank, int ranks) {
  std::vector<double> sums(gradient.count, 0.0);
  for (int sender = 0; sender < ranks; ++sender) {
    const std::vector<float> values = to_floats(gradient.type, input_of(gradient, sender, ranks));
    for (std::size_t i = 0; i < gradient.count; ++i) {
      sums[i] += static_cast<double>(values[static_cast<std::size_t>(rank) * gradient.count + i]);
    }
  }
  const double factor = gradient.op == Op::avg ? 1.0 / ranks : scaled(gradient.op) ? double{kScalar} : 1.0;
  for (double& sum : sums) sum *= factor;
  return sums;
}

std::vector<float> to_floats(ElementType type, const Bytes& bytes) {
  return model::to_floats(type, bytes);
}

}  // namespace sdp4bit::test
