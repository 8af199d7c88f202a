// The measuring program's data, types and command line.
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "bench/collectives/element.h"
#include "bench/collectives/options.h"
#include "bench/collectives/workload.h"
#include "tests/support/catch.h"

using namespace collectives;

namespace {

Options parse(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "collectives");
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  return parse_options(static_cast<int>(pointers.size()), pointers.data());
}

struct Moments {
  double mean = 0, variance = 0;
};

Moments moments(const std::vector<float>& values) {
  Moments result;
  for (const float value : values) result.mean += value;
  result.mean /= static_cast<double>(values.size());
  for (const float value : values) result.variance += (value - result.mean) * (value - result.mean);
  result.variance /= static_cast<double>(values.size());
  return result;
}

}  // namespace

TEST_CASE("Workload.AnyRankCanComputeAnyPartOfWhatAnotherHolds") {
  std::vector<float> all(1000), part(100);
  fill_gradient(7, 3, 0, all);
  fill_gradient(7, 3, 450, part);
  CHECK(std::equal(part.begin(), part.end(), all.begin() + 450));
}

TEST_CASE("Workload.SeedsRanksAndStepsAreIndependent") {
  std::vector<float> base(4096), other(4096);
  const auto correlation = [&] {
    double sum = 0;
    for (std::size_t i = 0; i < base.size(); ++i) sum += base[i] * other[i];
    return sum / static_cast<double>(base.size());
  };
  fill_gradient(1, 0, 0, base);
  fill_gradient(1, 1, 0, other);
  CHECK(std::fabs(correlation()) < 5 / std::sqrt(4096.0));
  fill_gradient(2, 0, 0, other);
  CHECK(std::fabs(correlation()) < 5 / std::sqrt(4096.0));
}

TEST_CASE("Workload.GradientsAreStandardNormal") {
  std::vector<float> values(1 << 18);
  fill_gradient(1, 0, 0, values);
  const Moments found = moments(values);
  const double n = static_cast<double>(values.size());
  CHECK(std::fabs(found.mean) < 5 / std::sqrt(n));
  CHECK(std::fabs(found.variance - 1) < 5 * std::sqrt(2 / n));
}

TEST_CASE("Workload.WeightsWalkInSmallSteps") {
  std::vector<float> before(1 << 16);
  fill_weights(1, 2, before);
  std::vector<float> after = before;
  for (std::uint64_t step = 1; step <= 4; ++step) advance_weights(1, 2, step, after);
  std::vector<float> moved(before.size());
  for (std::size_t i = 0; i < moved.size(); ++i) moved[i] = after[i] - before[i];
  // Four independent steps of 1/200 of the spread: twice that.
  const double ratio = std::sqrt(moments(moved).variance / moments(before).variance);
  CHECK(ratio > 0.0095);
  CHECK(ratio < 0.0105);
}

TEST_CASE("Element.RoundingReportsWhatWasStored") {
  for (const ElementType& type : element_types()) {
    CAPTURE(std::string(type.name));
    std::vector<float> values{
        0.0f, -0.0f, 1.0f, 1.0f / 3, 65504.0f, 1e-20f, std::numeric_limits<float>::infinity()};
    std::vector<float> read(values.size());
    std::vector<std::byte> packed(values.size() * type.bytes);
    round_to(type, values, packed);
    widen(type, packed, read);
    CHECK(values == read);
    CHECK(values[2] == 1.0f);
    CHECK((values[3] == 1.0f / 3) == (type.bytes == 4));
  }
}

TEST_CASE("Options.SizesTakeSuffixesAndNothingElse") {
  CHECK(parse({"-b", "4M"}).min_bytes == 4u << 20);
  CHECK(parse({"-b", "4M"}).max_bytes == 4u << 20);
  CHECK(parse({"-b", "1k", "-e", "1G"}).max_bytes == 1u << 30);
  for (const char* bad : {"", "4MB", "M", "-1", "1.5M", " 4"}) {
    CAPTURE(bad);
    CHECK_THROWS_AS(parse({"-b", bad}), std::invalid_argument);
  }
}

TEST_CASE("Options.TypesAndOperationsAreListsOfNames") {
  CHECK(parse({"-d", "bf16,float"}).types.size() == 2);
  CHECK(parse({"-d", "all"}).types.size() == 3);
  CHECK(parse({"-o", "sum,avg"}).reductions == std::vector{Reduction::kSum, Reduction::kAverage});
  CHECK_THROWS_AS(parse({"-d", "int8"}), std::invalid_argument);
  CHECK_THROWS_AS(parse({"-o", "prod"}), std::invalid_argument);
}

TEST_CASE("Options.WhatIsNotUnderstoodIsRefused") {
  CHECK_THROWS_AS(parse({"broadcast"}), std::invalid_argument);
  CHECK_THROWS_AS(parse({"-n"}), std::invalid_argument);
  CHECK_THROWS_AS(parse({"-n", "0"}), std::invalid_argument);
  CHECK_THROWS_AS(parse({"-b", "2M", "-e", "1M"}), std::invalid_argument);
}
