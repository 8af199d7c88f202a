// What a gradient loses on its way: error, bias and bounds of the reference, the definition of the kernels.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "catch.h"
#include "kernels/codec.h"
#include "kernels/hadamard.h"
#include "kernels/header.h"
#include "kernels/reference_codec.h"
#include "reduce_scatter_model.h"

namespace {

using namespace sdp4bit;
using model::Bytes;
using model::Job;

std::vector<float> gaussian(std::size_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (float& value : values) value = normal(generator);
  return values;
}

/// Values as their receiver sees them: through one message, transform undone.
std::vector<float> through_one_message(const std::vector<float>& values, const Codec& codec,
                                       std::uint64_t draw = 0, std::uint32_t rank = 0) {
  const Job job{.count = values.size(), .draw = draw};
  const Bytes message = model::quantize(job, model::to_bytes(job.type, values), rank, {0}, 1, codec,
                                        MessageKind::gradient_in_node);
  MessageHeader header;
  std::memcpy(&header, message.data(), sizeof(header));
  std::vector<float> decoded =
      reference::decode_segment(message.data() + sizeof(MessageHeader), job.count, codec,
                                {.key = header_key(header), .draw = header.draw, .kind = header.kind});
  if (codec.hadamard) {
    for (std::size_t begin = 0; begin < decoded.size(); begin += kBlock) {
      float block[kBlock];
      std::copy_n(decoded.data() + begin, kBlock, block);
      inverse_hadamard32(block);
      std::copy_n(block, kBlock, decoded.data() + begin);
    }
  }
  decoded.resize(values.size());
  return decoded;
}

double normalized_squared_error(const std::vector<float>& exact, const std::vector<float>& actual) {
  double error = 0;
  double power = 0;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    error += std::pow(double{actual[i]} - double{exact[i]}, 2);
    power += double{exact[i]} * double{exact[i]};
  }
  return error / power;
}

std::vector<Bytes> job_inputs(const Job& job, unsigned seed, float magnitude = 1.0f) {
  std::vector<Bytes> inputs;
  for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
    std::vector<float> values = gaussian(job.ranks() * job.count, seed + rank);
    for (float& value : values) value *= magnitude;
    inputs.push_back(model::to_bytes(job.type, values));
  }
  return inputs;
}

std::vector<float> exact_sum(const Job& job, const std::vector<Bytes>& inputs, std::uint32_t owner) {
  std::vector<double> sum(job.count, 0.0);
  for (const Bytes& input : inputs) {
    const std::vector<float> values = model::to_floats(job.type, input);
    for (std::size_t i = 0; i < job.count; ++i) sum[i] += double{values[owner * job.count + i]};
  }
  std::vector<float> result;
  for (const double value : sum) result.push_back(static_cast<float>(value * double{job.out_factor}));
  return result;
}

}  // namespace

TEST_CASE("GradientError.GaussianStaysWithinTheFormatsError") {
  const std::vector<float> values = gaussian(1 << 18, 1);
  CHECK(normalized_squared_error(values, through_one_message(values, Codec{.bits = 4})) <= 0.030);
  CHECK(normalized_squared_error(values, through_one_message(values, Codec{.bits = 8})) <= 0.0002);
  const Codec bfloat16_scale{.bits = 4, .scale = ScaleType::bfloat16};
  CHECK(normalized_squared_error(values, through_one_message(values, bfloat16_scale)) <= 0.030);
  const Codec nearest{.bits = 4, .coding = Coding::nearest, .hadamard = false};
  CHECK(normalized_squared_error(values, through_one_message(values, nearest)) <= 0.015);
}

TEST_CASE("GradientError.DitherHasLessThanFourTenthsOfStochasticRoundingsError") {
  const std::vector<float> values = gaussian(1 << 18, 12);
  const auto error = [&](const Codec& codec) {
    return normalized_squared_error(values, through_one_message(values, codec));
  };
  const Codec four{.bits = 4, .group_size = 64, .scale = ScaleType::bfloat16, .coding = Coding::dithered};
  CHECK(error(four) <= 0.40 * error(Codec{.bits = 4}));
  Codec eight = four;
  eight.bits = 8;
  CHECK(error(eight) <= 0.45 * error(Codec{.bits = 8}));
}

TEST_CASE("GradientError.DitheredErrorIsUniformAndIndependentOfTheValue") {
  // Half of the values lie at one place of a step, half at another: the error's law must be the same.
  std::vector<float> values(1 << 16);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = i % 64 == 0 ? 1.0f : i % 2 != 0 ? 0.31f : -0.02f;
  const Codec codec{.bits = 4, .group_size = 64, .coding = Coding::dithered, .hadamard = false};
  const std::vector<float> decoded = through_one_message(values, codec);
  const double step = 1.0 / static_cast<double>(scale_steps(Coding::dithered, 4));
  for (const std::size_t parity : {std::size_t{1}, std::size_t{2}}) {
    std::vector<unsigned> histogram(8);
    unsigned count = 0;
    for (std::size_t i = parity; i < values.size(); i += 4) {
      if (i % 64 == 0) continue;
      const double error = (double{decoded[i]} - double{values[i]}) / step;
      REQUIRE(std::abs(error) <= 0.5001);
      ++histogram[std::min<std::size_t>(7, static_cast<std::size_t>(std::max(0.0, (error + 0.5) * 8)))];
      ++count;
    }
    for (const unsigned cell : histogram) {
      CHECK(std::abs(cell - count / 8.0) <= 4.5 * std::sqrt(count / 8.0));
    }
  }
}

TEST_CASE("GradientError.StochasticAndDitheredCodesAreUnbiasedOverTenThousandDraws") {
  const std::vector<float> values = gaussian(128, 2);
  constexpr int draws = 10000;
  for (const Codec& codec :
       {Codec{.hadamard = false}, Codec{},
        Codec{.group_size = 64, .coding = Coding::dithered, .hadamard = false},
        Codec{.group_size = 64, .scale = ScaleType::bfloat16, .coding = Coding::dithered},
        Codec{.bits = 8, .coding = Coding::dithered}}) {
    std::vector<double> sum(values.size(), 0.0), squares(values.size(), 0.0);
    for (int draw = 0; draw < draws; ++draw) {
      const std::vector<float> decoded = through_one_message(values, codec, static_cast<std::uint64_t>(draw));
      for (std::size_t i = 0; i < values.size(); ++i) {
        const double error = double{decoded[i]} - double{values[i]};
        sum[i] += error;
        squares[i] += error * error;
      }
    }
    unsigned biased = 0;
    double total = 0, total_variance = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double mean = sum[i] / draws;
      const double variance = std::max(squares[i] / draws - mean * mean, 0.0) / draws;
      biased += std::abs(mean) > 4 * std::sqrt(variance) + 1e-6;
      total += mean;
      total_variance += variance;
    }
    CHECK(biased == 0);
    CHECK(std::abs(total) <= 4 * std::sqrt(total_variance));
  }
}

TEST_CASE("GradientError.EveryElementStaysWithinItsGroupsScale") {
  const std::vector<float> values = gaussian(8193, 3);
  for (const std::uint32_t bits : {4u, 8u}) {
    for (const Coding coding : {Coding::nearest, Coding::stochastic}) {
      for (const std::uint32_t group : {32u, 128u, 2048u, 8192u}) {
        const Codec codec{.bits = bits, .group_size = group, .coding = coding, .hadamard = false};
        const std::vector<float> decoded = through_one_message(values, codec);
        unsigned outside = 0;
        for (std::size_t i = 0; i < values.size(); ++i) {
          const std::size_t begin = i / group * group;
          const std::size_t end = std::min<std::size_t>(begin + group, values.size());
          float largest = 0;
          for (std::size_t j = begin; j < end; ++j) largest = std::max(largest, std::abs(values[j]));
          const float scale = largest / scale_steps(coding, bits);
          const float bound = coding == Coding::stochastic ? scale : 0.5f * scale;
          outside += std::abs(decoded[i] - values[i]) > bound * 1.0001f;
        }
        CHECK(outside == 0);
      }
    }
  }
}

TEST_CASE("GradientError.NanOrInfinityPoisonsItsWholeGroupAndNoOther") {
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (const Codec& codec : {Codec{.hadamard = false}, Codec{}, Codec{.coding = Coding::dithered}}) {
      std::vector<float> values = gaussian(1000, 4);
      values[300] = bad;
      const std::vector<float> decoded = through_one_message(values, codec);
      for (std::size_t i = 0; i < values.size(); ++i)
        REQUIRE(std::isnan(decoded[i]) == (i / 128 == 300 / 128));
    }
  }
}

TEST_CASE("GradientError.ZeroGroupsDecodeToExactZeros") {
  std::vector<float> values = gaussian(512, 5);
  std::fill(values.begin() + 128, values.begin() + 256, 0.0f);
  std::fill(values.begin() + 160, values.begin() + 256, -0.0f);
  for (const Coding coding : {Coding::stochastic, Coding::dithered}) {
    const std::vector<float> decoded =
        through_one_message(values, Codec{.coding = coding, .hadamard = false});
    for (std::size_t i = 128; i < 256; ++i) REQUIRE(bits_of(decoded[i]) == 0);
  }
}

TEST_CASE("GradientError.RanksDrawsAndPhasesRoundIndependently") {
  const std::vector<float> values = gaussian(4096, 6);
  const Codec codec{.hadamard = false};
  const auto error = [&](std::uint64_t draw, std::uint32_t rank) {
    std::vector<float> decoded = through_one_message(values, codec, draw, rank);
    for (std::size_t i = 0; i < decoded.size(); ++i) decoded[i] -= values[i];
    return decoded;
  };
  const std::vector<float> base = error(0, 0);
  CHECK(base == error(0, 0));
  for (const std::vector<float>& other : {error(0, 1), error(1, 0), error(1, 1)}) {
    double product = 0, power = 0;
    for (std::size_t i = 0; i < base.size(); ++i) {
      product += double{base[i]} * double{other[i]};
      power += double{base[i]} * double{base[i]};
    }
    CHECK(std::abs(product / power) < 4 / std::sqrt(4096.0));
  }
}

TEST_CASE("GradientError.ChunksGiveTheBitsOfTheWhole") {
  const Codec codec{.group_size = 128};
  const std::vector<float> values = gaussian(4000, 7);
  const Bytes input = model::to_bytes(ElementType::float32, values);
  const std::vector<float> whole = [&] {
    const Job job{.count = 4000};
    const Bytes message = model::quantize(job, input, 0, {0}, 1, codec, MessageKind::gradient_in_node);
    return reference::decode_segment(message.data() + sizeof(MessageHeader), 4000, codec);
  }();
  const std::uint64_t draw = 0;
  const std::uint32_t table[] = {0};
  for (const std::size_t offset : {std::size_t{0}, std::size_t{1024}, std::size_t{3072}}) {
    const std::size_t count = std::min<std::size_t>(1024, 4000 - offset);
    Bytes message(message_bytes(count, 1, codec));
    reference::quantize({.input = {.data = input.data(), .stride = 4000, .offset = offset, .count = count},
                         .table = table,
                         .message_count = 1,
                         .segments_per_message = 1,
                         .messages = {message.data(), message.size()},
                         .codec = codec,
                         .key = {.seed = Job{}.seed},
                         .draw = {.counter = &draw}});
    const std::vector<float> part =
        reference::decode_segment(message.data() + sizeof(MessageHeader), count, codec);
    CHECK(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(offset)));
  }
}

TEST_CASE("GradientError.BothLevelsTogetherStayNearTheExactSum") {
  for (const ElementType type : {ElementType::float32, ElementType::bfloat16, ElementType::float16}) {
    for (const auto& [nodes, local] :
         std::vector<std::pair<std::uint32_t, std::uint32_t>>{{2, 2}, {2, 3}, {3, 2}, {4, 1}}) {
      Job job{.nodes = nodes, .local_ranks = local, .count = 2049, .type = type};
      job.out_factor = 1.0f / static_cast<float>(job.ranks());
      const std::vector<Bytes> inputs = job_inputs(job, 8);
      const std::vector<Bytes> outputs = model::reduce_scatter_two_level(job, inputs);
      for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
        CHECK(normalized_squared_error(exact_sum(job, inputs, rank), model::to_floats(type, outputs[rank])) <=
              0.030);
      }
    }
  }
}

TEST_CASE("GradientError.DoesNotGrowWithTheNumberOfNodes", "[G5]") {
  constexpr Codec kPaper{.bits = 4, .group_size = 128, .coding = Coding::stochastic};
  constexpr Codec kDefault{
      .bits = 4, .group_size = 64, .scale = ScaleType::bfloat16, .coding = Coding::dithered};
  for (const std::uint32_t nodes : {8u, 16u, 32u, 64u}) {
    for (const auto& [codec, most] : {std::pair{kPaper, 0.030}, {kDefault, 0.0121}}) {
      const Job job{.nodes = nodes,
                    .local_ranks = 1,
                    .count = 513,
                    .type = ElementType::bfloat16,
                    .codec_between_nodes = codec};
      const std::vector<Bytes> inputs = job_inputs(job, 11);
      const std::vector<Bytes> outputs = model::reduce_scatter_one_level(job, inputs, job.codec_between_nodes,
                                                                         MessageKind::gradient_between_nodes);
      double error = 0;
      for (std::uint32_t rank = 0; rank < 4; ++rank) {
        const std::vector<float> got = model::to_floats(job.type, outputs[rank]);
        error += normalized_squared_error(exact_sum(job, inputs, rank), got) / 4;
      }
      CHECK(error <= most);
    }
  }
}

TEST_CASE("GradientError.OneNanIsNanAtItsIndexOnTheOwnerAlone") {
  const Job job{.nodes = 2, .local_ranks = 2, .count = 1000};
  for (std::uint32_t bad_rank = 0; bad_rank < 4; ++bad_rank) {
    std::vector<Bytes> inputs = job_inputs(job, 9);
    reference::store_element(job.type, inputs[bad_rank].data(), 2 * job.count + 777,
                             std::numeric_limits<float>::quiet_NaN());
    const std::vector<Bytes> outputs = model::reduce_scatter_two_level(job, inputs);
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      const std::vector<float> output = model::to_floats(job.type, outputs[rank]);
      CHECK(std::isnan(output[777]) == (rank == 2));
      const auto poisoned =
          std::count_if(output.begin(), output.end(), [](float value) { return std::isnan(value); });
      CHECK(poisoned <= (rank == 2 ? 128 : 0));
    }
  }
}

TEST_CASE("GradientError.LargeInputsNeverBecomeInfinity") {
  for (const auto& [scale, coding] :
       {std::pair{ScaleType::float32, Coding::stochastic}, std::pair{ScaleType::bfloat16, Coding::stochastic},
        std::pair{ScaleType::bfloat16, Coding::dithered}}) {
    Job job{.nodes = 2, .local_ranks = 4, .count = 256};
    job.codec_in_node.scale = job.codec_between_nodes.scale = scale;
    job.codec_in_node.coding = job.codec_between_nodes.coding = coding;
    const float limit = std::nextafter(0x1p122f / static_cast<float>(job.ranks()), 0.0f);
    std::vector<Bytes> inputs(job.ranks(),
                              model::to_bytes(job.type, std::vector<float>(job.ranks() * job.count, limit)));
    for (const Bytes& output : model::reduce_scatter_two_level(job, inputs)) {
      for (const float value : model::to_floats(job.type, output)) REQUIRE(std::isfinite(value));
    }
    for (const Bytes& output : model::reduce_scatter_one_level(job, inputs, job.codec_between_nodes,
                                                               MessageKind::gradient_between_nodes)) {
      for (const float value : model::to_floats(job.type, output)) REQUIRE(std::isfinite(value));
    }
  }
}

TEST_CASE("GradientError.SubnormalInputsStaySmall") {
  for (const Coding coding : {Coding::stochastic, Coding::dithered}) {
    Job job{.nodes = 2, .local_ranks = 2, .count = 512};
    job.codec_in_node.coding = job.codec_between_nodes.coding = coding;
    const std::vector<Bytes> inputs = job_inputs(job, 10, 0x1p-140f);
    for (const Bytes& output : model::reduce_scatter_two_level(job, inputs)) {
      for (const float value : model::to_floats(job.type, output)) REQUIRE(std::abs(value) < 0x1p-126f);
    }
  }
}

TEST_CASE("GradientError.AMessageWithAWrongHeaderIsNanAndSaysSo") {
  const Codec codec{};
  const std::vector<float> values = gaussian(256, 11);
  const Job job{.count = 256};
  const Bytes input = model::to_bytes(job.type, values);
  const Bytes good = model::quantize(job, input, 0, {0}, 1, codec, MessageKind::gradient_between_nodes);
  const auto finish = [&](Bytes message) {
    std::uint32_t error = 0;
    Bytes output(input.size());
    reference::reduce_finish({.input = model::segments_of(job, input),
                              .received = {message.data(), message.size()},
                              .message_count = 1,
                              .codec = codec,
                              .output = output.data(),
                              .error = &error});
    const std::vector<float> result = model::to_floats(job.type, output);
    const bool all_nan =
        std::all_of(result.begin(), result.end(), [](float value) { return std::isnan(value); });
    const bool any_nan =
        std::any_of(result.begin(), result.end(), [](float value) { return std::isnan(value); });
    CHECK(all_nan == any_nan);
    CHECK(all_nan == (error == 1));
    return all_nan;
  };
  CHECK_FALSE(finish(good));
  for (const std::size_t field :
       {offsetof(MessageHeader, magic), offsetof(MessageHeader, wire_version), offsetof(MessageHeader, kind),
        offsetof(MessageHeader, count), offsetof(MessageHeader, chunk)}) {
    Bytes bad = good;
    bad[field] ^= std::byte{4};
    CHECK(finish(bad));
  }
}
