// The only place that reads the environment: the table of variables, their parsers and printers.
#include "plugin/options.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <utility>

extern "C" char** environ;

namespace sdp4bit {
namespace {

// ---- values: parse takes the whole text; print gives the one spelling that ranks compare ----

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

constexpr std::string_view kSuffixes = "KMG";

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

bool parse_weight_types(std::string_view text, Types& value) {
  return parse_types(text, value);
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

constexpr Words<CodecName, 4> kGradientCodecs{{{{"int4-sr", {4, Rounding::stochastic}},
                                                {"int4-rn", {4, Rounding::nearest}},
                                                {"int8-sr", {8, Rounding::stochastic}},
                                                {"int8-rn", {8, Rounding::nearest}}}}};
constexpr Words<CodecName, 2> kWeightCodecs{
    {{{"int4", {4, Rounding::nearest}}, {"int8", {8, Rounding::nearest}}}}};
constexpr Words<std::uint32_t, 3> kDirectBits{{{{"0", 0}, {"8", 8}, {"4", 4}}}};
constexpr Words<ScaleType, 2> kScales{{{{"fp32", ScaleType::float32}, {"bf16", ScaleType::bfloat16}}}};
constexpr Words<WeightLedger, 3> kLedgers{
    {{{"node", WeightLedger::node}, {"full", WeightLedger::full}, {"off", WeightLedger::off}}}};
constexpr Words<Framework, 3> kFrameworks{
    {{{"auto", Framework::automatic}, {"deepspeed", Framework::deepspeed}, {"other", Framework::other}}}};
constexpr Words<OwnShard, 3> kOwnShards{
    {{{"auto", OwnShard::automatic}, {"replica", OwnShard::replica}, {"exact", OwnShard::exact}}}};
constexpr Words<OnMismatch, 2> kOnMismatch{{{{"native", OnMismatch::native}, {"abort", OnMismatch::abort}}}};
constexpr Words<LogLevel, 5> kLogLevels{{{{"none", LogLevel::none},
                                          {"error", LogLevel::error},
                                          {"warn", LogLevel::warn},
                                          {"info", LogLevel::info},
                                          {"trace", LogLevel::trace}}}};

bool parse_text(std::string_view text, std::string& value) {
  value = text;
  return !text.empty();
}

std::string print_text(const std::string& value) {
  return value;
}

// ---- rows ----

template <auto Field, auto Parse, auto Print>
constexpr Option row(const char* name, const char* accepts, bool shapes_wire, const char* help) {
  return {.name = name,
          .accepts = accepts,
          .help = help,
          .shapes_wire = shapes_wire,
          .parse =
              [](std::string_view text, Config& config) {
                auto value = config.*Field;
                if (!Parse(text, value)) return false;
                config.*Field = std::move(value);
                return true;
              },
          .print = [](const Config& config) { return Print(config.*Field); }};
}

template <auto Field, const auto& Table>
constexpr Option words(const char* name, const char* accepts, bool shapes_wire, const char* help) {
  using Value = std::remove_cvref_t<decltype(Config{}.*Field)>;
  return row<Field, [](std::string_view text, Value& value) { return Table.parse(text, value); },
             [](const Value& value) { return Table.print(value); }>(name, accepts, shapes_wire, help);
}

constexpr bool kWire = true, kLocal = false;
constexpr const char* kBytes = "bytes, with K, M or G";

const std::array kTable{
    row<&Config::enable, parse_switch, print_switch>("SDP4BIT_ENABLE", "0, 1", kWire,
                                                     "0: every call goes to NCCL untouched"),
    row<&Config::collectives, parse_collectives, print_collectives>(
        "SDP4BIT_COLLECTIVES", "reduce_scatter, all_gather, joined by commas", kWire,
        "which functions are taken"),
    row<&Config::comms, parse_comms, print_comms>(
        "SDP4BIT_COMMS",
        "auto, all, spans-nodes, name:PATTERN, !name:PATTERN, ranks>=K, joined by commas; all must hold",
        kWire,
        "which communicators are taken; auto: they span nodes, and their name says data parallel or they "
        "have all ranks of the job"),
    row<&Config::min_bytes, parse_bytes, print_bytes>(
        "SDP4BIT_MIN_BYTES", kBytes, kWire,
        "a smaller input of ReduceScatter or output of AllGather goes to NCCL"),
    row<&Config::gradient_types, parse_types, print_types>("SDP4BIT_GRAD_TYPES",
                                                           "bf16, fp16, fp32, joined by commas", kWire,
                                                           "element types taken by ReduceScatter"),
    row<&Config::weight_types, parse_weight_types, print_types>("SDP4BIT_WEIGHT_TYPES",
                                                                "bf16, fp16, fp32, joined by commas", kWire,
                                                                "element types taken by AllGather"),
    words<&Config::codec_inter, kGradientCodecs>(
        "SDP4BIT_CODEC_INTER", "int4-sr, int4-rn, int8-sr, int8-rn", kWire,
        "codec of gradients between nodes; sr rounds stochastically, rn to "
        "nearest"),
    words<&Config::codec_intra, kGradientCodecs>("SDP4BIT_CODEC_INTRA", "int4-sr, int4-rn, int8-sr, int8-rn",
                                                 kWire, "codec of gradients in a node"),
    row<&Config::gradient_group, parse_group, print_number>("SDP4BIT_GRAD_GROUP",
                                                            "a power of two, 32 to 8192", kWire,
                                                            "elements of a gradient that share a scale"),
    row<&Config::hadamard, parse_hadamard, print_number>("SDP4BIT_HADAMARD", "32, 0", kWire,
                                                         "points of the transform of gradients; 0: none"),
    words<&Config::scale, kScales>("SDP4BIT_SCALE", "fp32, bf16", kWire, "type of the scales"),
    words<&Config::codec_weight, kWeightCodecs>("SDP4BIT_CODEC_WEIGHT", "int4, int8", kWire,
                                                "codec of weight differences"),
    row<&Config::weight_group, parse_group, print_number>(
        "SDP4BIT_WEIGHT_GROUP", "a power of two, 32 to 8192", kWire,
        "elements of a weight difference that share a scale"),
    words<&Config::weight_ledger, kLedgers>(
        "SDP4BIT_WEIGHT_LEDGER", "node, full, off", kWire,
        "who remembers weights: the ranks of a column, all ranks, nobody"),
    row<&Config::weight_memory, parse_memory_bound, print_memory_bound>(
        "SDP4BIT_WEIGHT_MEMORY", "bytes, with K, M or G, or a percentage of the device", kWire,
        "most memory of all ledgers of a communicator"),
    row<&Config::weight_vote, parse_switch, print_switch>(
        "SDP4BIT_WEIGHT_VOTE", "0, 1", kWire,
        "1: ranks vote before each difference, and weights that were replaced go native at once; the host "
        "waits"),
    row<&Config::weight_refresh, parse_number32, print_number>(
        "SDP4BIT_WEIGHT_REFRESH", "a number; 0: never", kWire, "rounds of differences before a native one"),
    words<&Config::weight_direct, kDirectBits>("SDP4BIT_WEIGHT_DIRECT", "0, 8, 4", kWire,
                                               "bits of stateless coding for bf16 and fp16 weights that the "
                                               "ledger does not take; 4 costs accuracy and is for "
                                               "comparison only; 0: native"),
    words<&Config::own_shard, kOwnShards>(
        "SDP4BIT_OWN_SHARD", "auto, replica, exact", kWire,
        "what the owner of a shard keeps: what the others hold, or its exact values (needed where the slice "
        "is the optimizer's master copy); auto asks by a small step in some elements"),
    row<&Config::start_call, parse_number, print_number>("SDP4BIT_START_CALL", "a number", kWire,
                                                         "calls of a communicator that go to NCCL first"),
    row<&Config::seed, parse_number, print_number>("SDP4BIT_SEED", "a number", kWire,
                                                   "seed of the noise of stochastic rounding"),
    row<&Config::local_size, parse_number32, print_number>("SDP4BIT_LOCAL_SIZE", "a number; 0: ask the hosts",
                                                           kWire, "ranks of a node"),
    row<&Config::workspace, parse_workspace, print_bytes>(
        "SDP4BIT_WORKSPACE", "bytes, with K, M or G; a multiple of 256, at least 4K", kWire,
        "device memory for the messages of a communicator"),
    row<&Config::check, parse_switch, print_switch>(
        "SDP4BIT_CHECK", "0, 1", kWire,
        "1: before each call all ranks compare it, native ones too, and a difference is an error that names "
        "the "
        "call, the ranks and both values; for finding programs whose ranks call differently; the host waits"),
    words<&Config::on_mismatch, kOnMismatch>("SDP4BIT_ON_MISMATCH", "native, abort", kWire,
                                             "what follows when ranks differ in a variable"),
    row<&Config::gradients_padded, parse_switch, print_switch>(
        "SDP4BIT_RS_PADDED", "0, 1", kWire,
        "1: take ReduceScatter although DeepSpeed was found, whose ZeRO-3 pads gradients with memory that "
        "was never written"),
    words<&Config::framework, kFrameworks>("SDP4BIT_FRAMEWORK", "auto, deepspeed, other", kLocal,
                                           "what runs in this process; auto: look for traces of DeepSpeed"),
    words<&Config::log, kLogLevels>("SDP4BIT_LOG", "none, error, warn, info, trace", kLocal,
                                    "what is printed"),
    row<&Config::stats, parse_text, print_text>(
        "SDP4BIT_STATS", "a path; %h: host, %p: process id, %r: rank in the job", kLocal,
        "file for the counters as JSON, written every 10 s and at exit"),
    row<&Config::metrics, parse_text, print_text>(
        "SDP4BIT_METRICS", "a path; %h: host, %p: process id, %r: rank in the job", kLocal,
        "file for the counters as Prometheus text, written every 10 s and at exit"),
    row<&Config::sample_error, parse_number, print_number>(
        "SDP4BIT_SAMPLE_ERROR", "a number; 0: never", kLocal,
        "of every so many compressed calls one has the error of what this rank sent measured, for the "
        "statistics"),
    row<&Config::watchdog, parse_number32, print_number>("SDP4BIT_WATCHDOG", "seconds; 0: off", kLocal,
                                                         "a call that waits longer is named in the log"),
};

// ---- the environment ----

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

std::string unknown_variable(std::string_view name) {
  const auto nearest = std::min_element(kTable.begin(), kTable.end(), [&](const Option& a, const Option& b) {
    return edit_distance(name, a.name) < edit_distance(name, b.name);
  });
  return std::string(name) + " is no variable of sdp4bit and is ignored; the nearest is " + nearest->name;
}

}  // namespace

std::span<const Option> option_table() {
  return kTable;
}

std::string option_value(std::string_view name, const Config& config) {
  const auto option =
      std::find_if(kTable.begin(), kTable.end(), [&](const Option& row) { return name == row.name; });
  return option == kTable.end() ? std::string{} : option->print(config);
}

ParsedConfig parse_config(std::span<const char* const> environment) {
  constexpr std::string_view kPrefix = "SDP4BIT_";
  ParsedConfig parsed;
  for (const std::string_view entry : environment) {
    const std::size_t equals = entry.find('=');
    if (!entry.starts_with(kPrefix) || equals == std::string_view::npos) continue;
    const std::string_view name = entry.substr(0, equals), text = entry.substr(equals + 1);
    const auto option =
        std::find_if(kTable.begin(), kTable.end(), [&](const Option& row) { return name == row.name; });
    if (option == kTable.end()) {
      parsed.complaints.push_back(unknown_variable(name));
    } else if (!option->parse(text, parsed.config)) {
      parsed.complaints.push_back(std::string(name) + "=\"" + std::string(text) +
                                  "\" is refused: accepted are " + option->accepts + "; in force is \"" +
                                  option->print(parsed.config) + "\"");
    }
  }
  return parsed;
}

const Config& config() {
  static const Config* const instance = [] {
    std::size_t count = 0;
    while (environ && environ[count]) ++count;
    const std::vector<const char*> environment(environ, environ + count);
    ParsedConfig parsed = parse_config(environment);
    set_log_level(parsed.config.log);
    for (const std::string& complaint : parsed.complaints) log_warn("%s", complaint.c_str());
    return new Config(std::move(parsed.config));  // outlives every static object
  }();
  return *instance;
}

std::vector<std::string> environment_variables() {
  std::vector<std::string> variables;
  for (char** variable = ::environ; variable && *variable; ++variable) variables.emplace_back(*variable);
  return variables;
}

std::string environment_text(const char* name) {
  const char* const text = std::getenv(name);
  return text ? text : "";
}

std::int64_t environment_number(std::span<const char* const> names) {
  for (const char* const name : names) {
    std::uint32_t value = 0;
    if (parse_number32(environment_text(name), value)) return value;
  }
  return -1;
}

std::string options_markdown() {
  std::string text =
      "| variable | default | equal on all ranks | accepted | meaning |\n|---|---|---|---|---|\n";
  const Config defaults;
  for (const Option& option : kTable) {
    const std::string value = option.print(defaults);
    text += std::string("| ") + option.name + " | " + (value.empty() ? "-" : value) + " | " +
            (option.shapes_wire ? "yes" : "no") + " | " + option.accepts + " | " + option.help + " |\n";
  }
  return text;
}

std::string options_in_force(const Config& config) {
  std::string text;
  for (const Option& option : kTable) text += std::string(option.name) + "=" + option.print(config) + "\n";
  return text;
}

}  // namespace sdp4bit
