// The table of variables: what is accepted, what is refused, and that nothing happens in silence.
#include <array>
#include <string>

#include "catch.h"
#include "kernels/known_codec.h"
#include "plugin/options.h"
#include "plugin/presets.h"

namespace sdp4bit {
namespace {

ParsedConfig parse(const std::string& entry) {
  const std::array<const char*, 2> environment{"PATH=/bin", entry.c_str()};
  return parse_config(environment);
}

bool accepted(const std::string& entry) {
  return parse(entry).complaints.empty();
}

TEST_CASE("Options.EveryDefaultPrintsAsTextThatItsParserTakes") {
  const Config defaults;
  for (const Option& option : option_table()) {
    const std::string text = option.print(defaults);
    if (text.empty()) continue;  // no file by default
    Config config;
    CAPTURE(option.name, text);
    CHECK(option.parse(text, config));
    CHECK(option.print(config) == text);
  }
}

TEST_CASE("Options.KernelsKnowTheDefaultCodecsOfGradients") {
  const Config defaults;
  CHECK(defaults.inter_codec() == kKnownBetweenNodes);
  CHECK(defaults.intra_codec() == kKnownInNode);
}

TEST_CASE("Options.ANumberIsTakenWholeOrNotAtAll") {
  for (const char* bad :
       {"", " 4 ", "4 ", "4bits", "-1", "1e9", "+1", "0x10", "on", "1.0", "99999999999999999999"}) {
    const ParsedConfig parsed = parse(std::string("SDP4BIT_SEED=") + bad);
    CAPTURE(bad);
    REQUIRE(parsed.complaints.size() == 1);
    CHECK(parsed.config.seed == Config{}.seed);
    CHECK(parsed.complaints[0].find("SDP4BIT_SEED=\"" + std::string(bad) + "\"") != std::string::npos);
    CHECK(parsed.complaints[0].find("a number") != std::string::npos);
    CHECK(parsed.complaints[0].find("in force is \"1\"") != std::string::npos);
  }
  CHECK(parse("SDP4BIT_SEED=04").config.seed == 4);
}

TEST_CASE("Options.ALongValueLeavesRoomForWhatIsAccepted") {
  const ParsedConfig parsed = parse("SDP4BIT_SEED=" + std::string(3000, 'x'));
  REQUIRE(parsed.complaints.size() == 1);
  CHECK(parsed.complaints[0].size() < 500);
  CHECK(parsed.complaints[0].find("x...\" is refused; accepted: a number") != std::string::npos);
}

TEST_CASE("Options.OneFileIsNotWrittenByTwo") {
  const auto both = [](const char* stats, const char* metrics) {
    const std::array environment{stats, metrics};
    return parse_config(environment);
  };
  const ParsedConfig same = both("SDP4BIT_METRICS=/tmp/%r", "SDP4BIT_STATS=/tmp/%r");
  REQUIRE(same.complaints.size() == 1);
  CHECK(same.complaints[0].find("SDP4BIT_METRICS names the file of SDP4BIT_STATS") == 0);
  CHECK(same.config.stats == "/tmp/%r");
  CHECK(same.config.metrics.empty());
  for (std::size_t i = 0; i < option_table().size(); ++i) {
    CHECK(same.given[i].is_refused == (std::string(option_table()[i].name) == "SDP4BIT_METRICS"));
  }
  CHECK(both("SDP4BIT_METRICS=/tmp/a", "SDP4BIT_STATS=/tmp/b").complaints.empty());
}

TEST_CASE("Options.BytesTakeSuffixesAndRefuseOverflow") {
  const auto least = [](std::uint64_t bytes) { return MinBytes{.automatic = false, .bytes = bytes}; };
  CHECK(parse("SDP4BIT_MIN_BYTES=0").config.min_bytes == least(0));
  CHECK(parse("SDP4BIT_MIN_BYTES=3K").config.min_bytes == least(3072));
  CHECK(parse("SDP4BIT_MIN_BYTES=2G").config.min_bytes == least(std::uint64_t{2} << 30));
  CHECK(parse("SDP4BIT_MIN_BYTES=auto").config.min_bytes == Config{}.min_bytes);
  for (const char* bad : {"Auto", "auto ", "K", "1k", "1KB", "1 M", "1.5M", "18446744073709551615G"}) {
    CHECK_FALSE(accepted(std::string("SDP4BIT_MIN_BYTES=") + bad));
  }
}

TEST_CASE("Options.EqualValuesOfDifferentSpellingPrintAlike") {
  CHECK(option_value("SDP4BIT_MIN_BYTES", parse("SDP4BIT_MIN_BYTES=1048576").config) == "1M");
  CHECK(option_value("SDP4BIT_GRAD_TYPES", parse("SDP4BIT_GRAD_TYPES=fp32,bf16").config) == "bf16,fp32");
}

TEST_CASE("Options.GroupsArePowersOfTwoWithinBounds") {
  for (const char* good : {"32", "64", "8192"}) CHECK(accepted(std::string("SDP4BIT_GRAD_GROUP=") + good));
  for (const char* bad : {"0", "16", "48", "16384"})
    CHECK_FALSE(accepted(std::string("SDP4BIT_GRAD_GROUP=") + bad));
}

TEST_CASE("Options.SelectionOfCommunicatorsCombinesTerms") {
  const CommSelection all = parse("SDP4BIT_COMMS=all").config.comms;
  CHECK_FALSE(all.automatic);
  const CommSelection some =
      parse("SDP4BIT_COMMS=spans-nodes,name:*dp*,!name:*tensor*,ranks>=4").config.comms;
  CHECK(some.spans_nodes);
  CHECK(some.least_ranks == 4);
  CHECK(some.names == std::vector<std::string>{"*dp*"});
  CHECK(some.no_names == std::vector<std::string>{"*tensor*"});
  for (const char* bad : {"", "auto,", ",auto", "every", "name:", "ranks>=", "ranks>=x"}) {
    CHECK_FALSE(accepted(std::string("SDP4BIT_COMMS=") + bad));
  }
}

TEST_CASE("Options.AnUnknownVariableIsNamedWithItsNearestKin") {
  const ParsedConfig parsed = parse("SDP4BIT_MIN_BYTE=1");
  REQUIRE(parsed.complaints.size() == 1);
  CHECK(parsed.complaints[0].find("SDP4BIT_MIN_BYTE is no variable") != std::string::npos);
  CHECK(parsed.complaints[0].find("SDP4BIT_MIN_BYTES") != std::string::npos);
}

// The paper's: numbers of groups, scales and levels as its code has them.
TEST_CASE("Options.ThePresetPaperIsThePapersCodecs") {
  const Config paper = parse("SDP4BIT_PRESET=paper").config;
  CHECK(paper.inter_codec() == Codec{.bits = 4,
                                     .group_size = 128,
                                     .scale = ScaleType::float32,
                                     .coding = Coding::stochastic,
                                     .hadamard = true});
  CHECK(paper.intra_codec() == Codec{.bits = 8,
                                     .group_size = 128,
                                     .scale = ScaleType::float32,
                                     .coding = Coding::stochastic,
                                     .hadamard = true});
  CHECK(paper.weight_codec() == Codec{.bits = 4,
                                      .group_size = 2048,
                                      .scale = ScaleType::float32,
                                      .coding = Coding::nearest,
                                      .hadamard = false});
}

TEST_CASE("Options.DefaultCodecsTakeNoMoreBitsThanThePapers") {
  const auto bits = [](const Codec& codec) {
    return codec.bits + 8.0 * static_cast<double>(scale_bytes(codec.scale)) / codec.group_size;
  };
  const Config usual, paper = parse("SDP4BIT_PRESET=paper").config;
  CHECK(bits(usual.inter_codec()) == bits(paper.inter_codec()));
  CHECK(bits(usual.intra_codec()) == bits(paper.intra_codec()));
  CHECK(bits(usual.weight_codec()) == bits(paper.weight_codec()));
}

TEST_CASE("Options.WhatIsSetBesideAPresetWinsInWhateverOrder") {
  for (const std::array<const char*, 2>& environment :
       {std::array{"SDP4BIT_PRESET=paper", "SDP4BIT_GRAD_GROUP=32"},
        std::array{"SDP4BIT_GRAD_GROUP=32", "SDP4BIT_PRESET=paper"}}) {
    const Config config = parse_config(environment).config;
    CHECK(config.gradient_group == 32);
    CHECK(config.weight_group == 2048);
    CHECK(preset_text(config) == "paper, changed");
  }
  CHECK(preset_text(parse("SDP4BIT_PRESET=paper").config) == "paper");
  CHECK(preset_text(parse("SDP4BIT_GRAD_GROUP=32").config) == "default, changed");
  CHECK(preset_text(parse("SDP4BIT_GRAD_GROUP=64").config) == "default");
}

TEST_CASE("Options.ABadValueBesideAPresetLeavesThePresets") {
  const std::array environment{"SDP4BIT_GRAD_GROUP=many", "SDP4BIT_PRESET=paper"};
  const ParsedConfig parsed = parse_config(environment);
  CHECK(parsed.config.gradient_group == 128);
  REQUIRE(parsed.complaints.size() == 1);
  CHECK(parsed.complaints[0].find("in force is \"128\"") != std::string::npos);
  CHECK(parse("SDP4BIT_PRESET=papers").complaints.size() == 1);
}

TEST_CASE("Options.APresetChangesNothingElse") {
  const Config paper = parse("SDP4BIT_PRESET=paper").config;
  std::string changed;
  for (const Option& option : option_table())
    if (option.print(paper) != option.print(Config{})) changed += std::string(option.name).substr(8) + " ";
  CHECK(changed == "PRESET CODEC_INTER GRAD_GROUP SCALE CODEC_WEIGHT WEIGHT_GROUP ");
}

TEST_CASE("Options.TheDocumentedTableNamesEveryVariable") {
  const std::string table = options_markdown();
  for (const Option& option : option_table())
    CHECK(table.find(std::string("| ") + option.name + " |") != std::string::npos);
}

}  // namespace
}  // namespace sdp4bit
