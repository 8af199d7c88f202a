// The promise of no bias, over a thousand values of SDP4BIT_SEED: both levels composed as the library does.
#include <cmath>
#include <random>
#include <vector>

#include "catch.h"
#include "reduce_scatter_model.h"

namespace {

using namespace sdp4bit;
using model::Bytes;
using model::Job;

constexpr int kSeeds = 1000;

struct Operation {
  const char* name;
  float factor;      // PreMulSum's scalar
  float out_factor;  // Avg's division
};

/// The mean of independent numbers, in its own standard errors.
class Mean {
 public:
  void add(double value) {
    ++count_;
    sum_ += value;
    squares_ += value * value;
  }
  [[nodiscard]] double in_standard_errors() const {
    const double mean = sum_ / count_;
    return mean / std::sqrt((squares_ / count_ - mean * mean) / count_);
  }

 private:
  double sum_ = 0, squares_ = 0;
  int count_ = 0;
};

std::vector<Bytes> gaussian_inputs(const Job& job) {
  std::mt19937 generator(20);
  std::normal_distribution<float> normal;
  std::vector<Bytes> inputs;
  for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
    std::vector<float> values(job.ranks() * job.count);
    for (float& value : values) value = normal(generator);
    inputs.push_back(model::to_bytes(job.type, values));
  }
  return inputs;
}

/// What rank `owner` would hold without any loss.
std::vector<double> exact_result(const Job& job, const std::vector<Bytes>& inputs, std::uint32_t owner) {
  std::vector<double> sum(job.count, 0.0);
  for (const Bytes& input : inputs) {
    const std::vector<float> values = model::to_floats(job.type, input);
    for (std::size_t i = 0; i < job.count; ++i) {
      sum[i] += double{values[owner * job.count + i]} * double{job.factor} * double{job.out_factor};
    }
  }
  return sum;
}

void require_no_bias(Job job) {
  const std::vector<Bytes> inputs = gaussian_inputs(job);
  std::vector<std::vector<double>> exact;
  for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) exact.push_back(exact_result(job, inputs, rank));
  // Errors of one call are not independent of each other, those of different seeds are: the mean error of a
  // seed is one number for the mean over all, and so is each element's.
  Mean over_all;
  std::vector<Mean> of_element(job.ranks() * job.count);
  for (job.seed = 1; job.seed <= kSeeds; ++job.seed) {
    const std::vector<Bytes> outputs = model::reduce_scatter_two_level(job, inputs);
    double sum = 0;
    for (std::uint32_t rank = 0; rank < job.ranks(); ++rank) {
      const std::vector<float> got = model::to_floats(job.type, outputs[rank]);
      for (std::size_t i = 0; i < job.count; ++i) {
        const double error = double{got[i]} - exact[rank][i];
        sum += error;
        of_element[rank * job.count + i].add(error);
      }
    }
    over_all.add(sum);
  }
  CHECK(std::abs(over_all.in_standard_errors()) <= 4);
  // Hundreds of means: a fair one is beyond 4 standard errors once in 16,000 times, beyond 6 never.
  int beyond = 0;
  for (const Mean& mean : of_element) {
    CHECK(std::abs(mean.in_standard_errors()) <= 6);
    beyond += std::abs(mean.in_standard_errors()) > 4;
  }
  CHECK(beyond <= 2);
}

}  // namespace

TEST_CASE("GradientSeeds.TheMeanErrorOverAThousandSeedsIsZero") {
  for (const ElementType type : {ElementType::float32, ElementType::bfloat16, ElementType::float16}) {
    for (const auto& [name, factor, out_factor] :
         {Operation{"sum", 1.0f, 1.0f}, {"avg", 1.0f, 0.25f}, {"PreMulSum", 0.3125f, 1.0f}}) {
      CAPTURE(static_cast<int>(type), name);
      require_no_bias({.nodes = 2,
                       .local_ranks = 2,
                       .count = 64,
                       .type = type,
                       .factor = factor,
                       .out_factor = out_factor});
    }
  }
}
