// The values that variables have: for each kind a parser that takes the whole text, and a printer that gives
// the one spelling that ranks compare.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "plugin/options.h"

namespace sdp4bit {

[[nodiscard]] bool parse_number(std::string_view text, std::uint64_t& value);
[[nodiscard]] bool parse_number32(std::string_view text, std::uint32_t& value);
[[nodiscard]] std::string print_number(std::uint64_t value);
[[nodiscard]] bool parse_switch(std::string_view text, bool& value);
[[nodiscard]] std::string print_switch(bool value);
[[nodiscard]] bool parse_bytes(std::string_view text, std::uint64_t& value);
[[nodiscard]] std::string print_bytes(std::uint64_t value);
[[nodiscard]] bool parse_min_bytes(std::string_view text, MinBytes& value);
[[nodiscard]] std::string print_min_bytes(const MinBytes& value);
[[nodiscard]] bool parse_workspace(std::string_view text, std::uint64_t& value);
[[nodiscard]] bool parse_memory_bound(std::string_view text, MemoryBound& value);
[[nodiscard]] std::string print_memory_bound(const MemoryBound& value);
[[nodiscard]] bool parse_group(std::string_view text, std::uint32_t& value);
[[nodiscard]] bool parse_hadamard(std::string_view text, std::uint32_t& value);
[[nodiscard]] bool parse_collectives(std::string_view text, Collectives& value);
[[nodiscard]] std::string print_collectives(const Collectives& value);
[[nodiscard]] bool parse_types(std::string_view text, Types& value);
[[nodiscard]] std::string print_types(const Types& value);
[[nodiscard]] bool parse_comms(std::string_view text, CommSelection& value);
[[nodiscard]] std::string print_comms(const CommSelection& value);
[[nodiscard]] bool parse_text(std::string_view text, std::string& value);
[[nodiscard]] std::string print_text(const std::string& value);

/// One of a few words.
template <typename Value, std::size_t Count>
struct Words {
  std::array<std::pair<std::string_view, Value>, Count> words;
  [[nodiscard]] bool parse(std::string_view text, Value& value) const {
    for (const auto& [word, meaning] : words) {
      if (word == text) {
        value = meaning;
        return true;
      }
    }
    return false;
  }
  [[nodiscard]] std::string print(const Value& value) const {
    for (const auto& [word, meaning] : words) {
      if (meaning == value) return std::string(word);
    }
    return {};
  }
};

inline constexpr Words<CodecName, 6> kGradientCodecs{{{{"int4-sr", {4, Coding::stochastic}},
                                                       {"int4-rn", {4, Coding::nearest}},
                                                       {"int8-sr", {8, Coding::stochastic}},
                                                       {"int8-rn", {8, Coding::nearest}},
                                                       {"dither4", {4, Coding::dithered}},
                                                       {"dither8", {8, Coding::dithered}}}}};
inline constexpr Words<CodecName, 3> kWeightCodecs{
    {{{"int4", {4, Coding::nearest}}, {"int8", {8, Coding::nearest}}, {"compand4", {4, Coding::companded}}}}};
inline constexpr Words<std::uint32_t, 3> kDirectBits{{{{"0", 0}, {"8", 8}, {"4", 4}}}};
inline constexpr Words<Preset, 2> kPresets{{{{"default", Preset::standard}, {"paper", Preset::paper}}}};
inline constexpr Words<ScaleType, 2> kScales{{{{"fp32", ScaleType::float32}, {"bf16", ScaleType::bfloat16}}}};
inline constexpr Words<WeightLedger, 3> kLedgers{
    {{{"node", WeightLedger::node}, {"full", WeightLedger::full}, {"off", WeightLedger::off}}}};
inline constexpr Words<Framework, 3> kFrameworks{
    {{{"auto", Framework::automatic}, {"deepspeed", Framework::deepspeed}, {"other", Framework::other}}}};
inline constexpr Words<OwnShard, 3> kOwnShards{
    {{{"auto", OwnShard::automatic}, {"replica", OwnShard::replica}, {"exact", OwnShard::exact}}}};
inline constexpr Words<OnMismatch, 2> kOnMismatch{
    {{{"native", OnMismatch::native}, {"abort", OnMismatch::abort}}}};
inline constexpr Words<LogLevel, 5> kLogLevels{{{{"none", LogLevel::none},
                                                 {"error", LogLevel::error},
                                                 {"warn", LogLevel::warn},
                                                 {"info", LogLevel::info},
                                                 {"trace", LogLevel::trace}}}};

}  // namespace sdp4bit
