// One ReduceScatter as a test makes it: its data, its call on a rank, and what all ranks must get, bit for
// bit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cluster.h"
#include "kernels/wire_format.h"

namespace sdp4bit::test {

enum class Op { sum, avg, host_scalar, device_scalar };

struct GradientCase {
  ElementType type = ElementType::float32;
  Op op = Op::sum;
  std::size_t count = 1;  // elements of the output
  std::size_t shift = 0;  // elements from an aligned address
  bool in_place = false;
  std::uint32_t seed = 7;
  std::size_t odd = 0;  // bytes that the address is off by besides
};
/// What SDP4BIT_CODEC_*, _GRAD_GROUP, _SCALE, _HADAMARD and _SEED say; nothing said: the defaults.
struct Wire {
  Codec in_node{.bits = 8, .group_size = 64, .scale = ScaleType::bfloat16, .coding = Coding::stochastic};
  Codec between_nodes{.bits = 4, .group_size = 64, .scale = ScaleType::bfloat16, .coding = Coding::dithered};
  std::uint64_t seed = 1;
};
inline constexpr float kScalar = 0.3125f;  // of host_scalar and device_scalar; exact in every type

[[nodiscard]] std::string describe(const GradientCase& gradient);

/// Roughly normal, of variance 1: a function of (seed, rank, index), so that any rank knows any other's data.
[[nodiscard]] float datum(std::uint32_t seed, int rank, std::size_t index);
[[nodiscard]] Bytes input_of(const GradientCase& gradient, int rank, int ranks);

/// Runs the case on this rank and returns its output. Throws if any other byte of input or output changed.
[[nodiscard]] Bytes run_gradient(RankContext& rank, const GradientCase& gradient);
/// Three small calls, behind which the handshake can be read.
void engage(RankContext& rank);

/// Outputs of all ranks by the reference; `draw` counts the compressed calls before this one.
[[nodiscard]] std::vector<Bytes> expected_outputs(const GradientCase& gradient,
                                                  const std::vector<int>& node_of, std::uint64_t draw,
                                                  const Wire& wire = {});
/// Element by element, how far the output of `rank` may be from the exact one: what follows from the scales
/// of the groups that were coded on the way.
[[nodiscard]] std::vector<double> largest_errors(const GradientCase& gradient,
                                                 const std::vector<int>& node_of, int rank,
                                                 const Wire& wire = {});
/// Nodes and ranks of a node by which the library sends; unequal nodes count as nodes of one rank.
struct Levels {
  std::uint32_t nodes, local_ranks;
};
[[nodiscard]] Levels levels_of(const std::vector<int>& node_of);
/// The scalar or 1.
[[nodiscard]] float entry_factor(const GradientCase& gradient);
/// The exact result of a rank in double precision, from the rounded inputs.
[[nodiscard]] std::vector<double> exact_output(const GradientCase& gradient, int rank, int ranks);
[[nodiscard]] std::vector<float> to_floats(ElementType type, const Bytes& bytes);

}  // namespace sdp4bit::test
