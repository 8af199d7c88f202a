// What texts mean and how values are spelled: numbers, bytes, lists.
#include "plugin/option_values.h"

#include <bit>
#include <charconv>
#include <initializer_list>
#include <limits>

namespace sdp4bit {
namespace {

constexpr std::string_view kSuffixes = "KMG";

/// Splits at commas; an empty part is no part, so "" and "a," are refused by the callers.
template <typename Take>
bool parse_list(std::string_view text, Take take) {
  while (true) {
    const std::size_t comma = text.find(',');
    const std::string_view part = text.substr(0, comma);
    if (part.empty() || !take(part)) return false;
    if (comma == std::string_view::npos) return true;
    text.remove_prefix(comma + 1);
  }
}

std::string join(std::initializer_list<std::pair<bool, std::string_view>> parts) {
  std::string text;
  for (const auto& [present, name] : parts) {
    if (present) text += std::string(text.empty() ? "" : ",") + std::string(name);
  }
  return text;
}

}  // namespace

bool parse_number(std::string_view text, std::uint64_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_number32(std::string_view text, std::uint32_t& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

std::string print_number(std::uint64_t value) {
  return std::to_string(value);
}

bool parse_switch(std::string_view text, bool& value) {
  if (text != "0" && text != "1") return false;
  value = text == "1";
  return true;
}

std::string print_switch(bool value) {
  return value ? "1" : "0";
}

bool parse_bytes(std::string_view text, std::uint64_t& value) {
  unsigned shift = 0;
  if (!text.empty()) {
    const std::size_t suffix = kSuffixes.find(text.back());
    if (suffix != std::string_view::npos) {
      shift = 10 * (static_cast<unsigned>(suffix) + 1);
      text.remove_suffix(1);
    }
  }
  std::uint64_t number = 0;
  if (!parse_number(text, number) || number > (std::numeric_limits<std::uint64_t>::max() >> shift))
    return false;
  value = number << shift;
  return true;
}

std::string print_bytes(std::uint64_t value) {
  for (unsigned suffix = 3; suffix > 0; --suffix) {
    const std::uint64_t unit = std::uint64_t{1} << (10 * suffix);
    if (value != 0 && value % unit == 0) return std::to_string(value / unit) + kSuffixes[suffix - 1];
  }
  return std::to_string(value);
}

bool parse_min_bytes(std::string_view text, MinBytes& value) {
  if (text == "auto") {
    value = {};
    return true;
  }
  std::uint64_t bytes = 0;
  if (!parse_bytes(text, bytes)) return false;
  value = {.automatic = false, .bytes = bytes};
  return true;
}

std::string print_min_bytes(const MinBytes& value) {
  return value.automatic ? "auto" : print_bytes(value.bytes);
}

bool parse_workspace(std::string_view text, std::uint64_t& value) {
  return parse_bytes(text, value) && value >= 4096 && value % 256 == 0;
}

bool parse_memory_bound(std::string_view text, MemoryBound& value) {
  if (!text.empty() && text.back() == '%') {
    std::uint32_t percent = 0;
    if (!parse_number32(text.substr(0, text.size() - 1), percent) || percent < 1 || percent > 100)
      return false;
    value = {.bytes = 0, .percent = percent};
    return true;
  }
  std::uint64_t bytes = 0;
  if (!parse_bytes(text, bytes)) return false;
  value = {.bytes = bytes, .percent = 0};
  return true;
}

std::string print_memory_bound(const MemoryBound& value) {
  return value.percent ? std::to_string(value.percent) + "%" : print_bytes(value.bytes);
}

bool parse_group(std::string_view text, std::uint32_t& value) {
  return parse_number32(text, value) && value >= 32 && value <= 8192 && std::has_single_bit(value);
}

bool parse_hadamard(std::string_view text, std::uint32_t& value) {
  return parse_number32(text, value) && (value == 0 || value == 32);
}

bool parse_collectives(std::string_view text, Collectives& value) {
  value = {.reduce_scatter = false, .all_gather = false};
  return parse_list(text, [&](std::string_view part) {
    if (part == "reduce_scatter") return value.reduce_scatter = true;
    if (part == "all_gather") return value.all_gather = true;
    return false;
  });
}

std::string print_collectives(const Collectives& value) {
  return join({{value.reduce_scatter, "reduce_scatter"}, {value.all_gather, "all_gather"}});
}

bool parse_types(std::string_view text, Types& value) {
  value = {.bfloat16 = false, .float16 = false, .float32 = false};
  return parse_list(text, [&](std::string_view part) {
    if (part == "bf16") return value.bfloat16 = true;
    if (part == "fp16") return value.float16 = true;
    if (part == "fp32") return value.float32 = true;
    return false;
  });
}

std::string print_types(const Types& value) {
  return join({{value.bfloat16, "bf16"}, {value.float16, "fp16"}, {value.float32, "fp32"}});
}

bool parse_comms(std::string_view text, CommSelection& value) {
  value = CommSelection{};
  value.automatic = false;
  return parse_list(text, [&](std::string_view part) {
    constexpr std::string_view kName = "name:", kNoName = "!name:", kRanks = "ranks>=";
    if (part == "all") return true;
    if (part == "auto") return value.automatic = true;
    if (part == "spans-nodes") return value.spans_nodes = true;
    if (part.starts_with(kRanks)) return parse_number32(part.substr(kRanks.size()), value.least_ranks);
    if (part.starts_with(kName) && part.size() > kName.size()) {
      value.names.emplace_back(part.substr(kName.size()));
      return true;
    }
    if (part.starts_with(kNoName) && part.size() > kNoName.size()) {
      value.no_names.emplace_back(part.substr(kNoName.size()));
      return true;
    }
    return false;
  });
}

std::string print_comms(const CommSelection& value) {
  std::string text = join({{value.automatic, "auto"}, {value.spans_nodes, "spans-nodes"}});
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ",") + part; };
  for (const std::string& name : value.names) add("name:" + name);
  for (const std::string& name : value.no_names) add("!name:" + name);
  if (value.least_ranks > 0) add("ranks>=" + std::to_string(value.least_ranks));
  return text.empty() ? "all" : text;
}

bool parse_text(std::string_view text, std::string& value) {
  value = text;
  return !text.empty();
}

std::string print_text(const std::string& value) {
  return value;
}

}  // namespace sdp4bit
