// codecs: what each codec loses, as one JSON object for codecs_page.py.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string_view>

#include "candidates.h"
#include "data.h"
#include "measure.h"

using namespace sdp4bit;
using namespace sdp4bit::bench;

namespace {

const char* const kUsage =
    "usage: codecs [--gradient FILE] [--difference FILE] [--count N] [--draws N] [--only NAME]\n"
    "\n"
    "Prints error and bias of all codecs, group sizes and scale types, as JSON.\n"
    "\n"
    "  --gradient FILE     a recorded gradient, floats of 4 bytes\n"
    "  --difference FILE   a recorded difference of weights, likewise\n"
    "  --count N           numbers of each made-up data set (262144)\n"
    "  --draws N           codings whose mean error is the bias (10000; 0: no bias)\n"
    "  --only NAME         one codec, such as \"int4-sr g128 fp32\"\n";

struct Options {
  std::string gradient, difference, only;
  std::size_t count = std::size_t{1} << 18;
  unsigned draws = 10000;
};

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (i + 1 == argc)
      throw std::invalid_argument(std::string(name) + " is no option, or needs a value\n" + kUsage);
    const char* const value = argv[++i];
    char* end = nullptr;
    if (name == "--gradient") {
      options.gradient = value;
    } else if (name == "--difference") {
      options.difference = value;
    } else if (name == "--only") {
      options.only = value;
    } else if (name == "--count" || name == "--draws") {
      const unsigned long long number = std::strtoull(value, &end, 10);
      if (*end != '\0' || number > (1u << 26) || (name == "--count" && number < 8192))
        throw std::invalid_argument(std::string(name) + " takes a number, --count at least 8192");
      if (name == "--count") {
        options.count = number / 8192 * 8192;
      } else {
        options.draws = static_cast<unsigned>(number);
      }
    } else {
      throw std::invalid_argument("there is no option " + std::string(name) + "\n" + kUsage);
    }
  }
  return options;
}

std::vector<Codec> gradient_codecs() {
  std::vector<Codec> codecs;
  for (const std::uint32_t bits : {4u, 8u}) {
    for (const Coding coding : {Coding::stochastic, Coding::nearest, Coding::dithered}) {
      for (const std::uint32_t group : {32u, 64u, 128u, 256u, 512u}) {
        for (const ScaleType scale : {ScaleType::float32, ScaleType::bfloat16})
          codecs.push_back({.bits = bits, .group_size = group, .scale = scale, .coding = coding});
      }
    }
  }
  return codecs;
}

std::vector<Codec> weight_codecs() {
  std::vector<Codec> codecs;
  const auto add = [&](std::uint32_t bits, Coding coding) {
    for (const std::uint32_t group : {256u, 512u, 1024u, 2048u, 4096u}) {
      for (const ScaleType scale : {ScaleType::float32, ScaleType::bfloat16})
        codecs.push_back(
            {.bits = bits, .group_size = group, .scale = scale, .coding = coding, .hadamard = false});
    }
  };
  add(4, Coding::nearest);
  add(4, Coding::companded);
  add(8, Coding::nearest);
  return codecs;
}

const char* g_separator = "\n";
void print_row(const char* use, const Codec& codec, const std::vector<Data>& sets, unsigned draws) {
  std::printf("%s  {\"use\": \"%s\", \"codec\": \"%s\", \"bits\": %.6g", g_separator, use,
              describe(codec).c_str(), bits_per_element(codec));
  g_separator = ",\n";
  for (const Data& set : sets)
    std::printf(", \"%s\": %.5g", set.name.c_str(), 1000 * squared_error(codec, set.values, 4));
  if (draws != 0 && codec.hadamard) {
    const double bias = largest_bias(codec, draws);
    if (std::isfinite(bias)) std::printf(", \"bias\": %.3g", bias);
  }
  std::printf("}");
  std::fflush(stdout);
}

void print_pairs(std::size_t count) {
  const auto codec = [](std::uint32_t bits, Coding coding, std::uint32_t group, ScaleType scale) {
    return Codec{.bits = bits, .group_size = group, .scale = scale, .coding = coding};
  };
  constexpr auto fp32 = ScaleType::float32, bf16 = ScaleType::bfloat16;
  const Codec int4 = codec(4, Coding::stochastic, 128, fp32), int8 = codec(8, Coding::stochastic, 128, fp32);
  const Codec int8_64 = codec(8, Coding::stochastic, 64, bf16),
              int4_64 = codec(4, Coding::stochastic, 64, bf16);
  const Codec dither4 = codec(4, Coding::dithered, 64, bf16), dither8 = codec(8, Coding::dithered, 64, bf16);
  const std::pair<Codec, Codec> pairs[] = {{int8, int4},      {int4, int4},       {int8_64, int4_64},
                                           {int8, dither4},   {int8_64, dither4}, {dither8, dither4},
                                           {dither4, dither4}};
  const char* separator = "\n";
  for (const auto& [in_node, between] : pairs) {
    std::printf(
        "%s  {\"in_node\": \"%s\", \"between\": \"%s\", \"error\": %.5g, \"bits_in_node\": %.6g, "
        "\"bits_between\": %.6g}",
        separator, describe(in_node).c_str(), describe(between).c_str(),
        1000 * two_level_error(in_node, between, count), bits_per_element(in_node),
        bits_per_element(between));
    separator = ",\n";
  }
}

void print_candidates(const std::vector<Data>& gradients, const std::vector<Data>& differences,
                      unsigned draws) {
  const char* separator = "\n";
  for (const Candidate& candidate : candidates()) {
    const bool is_gradient = std::string_view(candidate.use) == "gradient";
    std::printf("%s  {\"use\": \"%s\", \"codec\": \"%s\", \"bits\": %.6g", separator, candidate.use,
                candidate.name, candidate.bits);
    separator = ",\n";
    double bias = 0;
    for (const Data& set : is_gradient ? gradients : differences) {
      const bool first = &set == &(is_gradient ? gradients : differences).front();
      const CandidateLoss loss = measure_candidate(candidate, set.values, first && is_gradient ? draws : 0);
      if (first) bias = loss.bias;
      std::printf(", \"%s\": %.5g, \"%s_mean\": %.5g", set.name.c_str(), 1000 * loss.error, set.name.c_str(),
                  1000 * loss.of_a_mean);
    }
    if (bias != 0) std::printf(", \"bias\": %.3g", bias);
    std::printf("}");
    std::fflush(stdout);
  }
}

int run(const Options& options) {
  constexpr std::size_t most = std::size_t{1} << 20;
  std::vector<Data> gradients{{"gauss", gaussian(options.count, 1)}, {"student", student(options.count, 2)}};
  std::vector<Data> differences{{"gauss", gaussian(options.count, 1)}};
  if (!options.gradient.empty()) gradients.push_back({"recorded", read_floats(options.gradient, most)});
  if (!options.difference.empty()) differences.push_back({"recorded", read_floats(options.difference, most)});
  std::printf("{\"rows\": [");
  const auto wanted = [&](const Codec& codec) {
    return options.only.empty() || describe(codec) == options.only;
  };
  for (const Codec& codec : gradient_codecs())
    if (wanted(codec)) print_row("gradient", codec, gradients, options.draws);
  for (const Codec& codec : weight_codecs())
    if (wanted(codec)) print_row("weight", codec, differences, 0);
  std::printf("\n],\n\"two_levels\": [");
  if (options.only.empty()) print_pairs(options.count / 4);
  std::printf("\n],\n\"candidates\": [");
  if (options.only.empty()) print_candidates(gradients, differences, options.draws);
  std::puts("\n]}");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "codecs: %s\n", error.what());
    return 1;
  }
}
