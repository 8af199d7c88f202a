// The table of variables, a row each, and how it is shown.
#include <algorithm>
#include <array>
#include <string_view>
#include <type_traits>
#include <utility>

#include "plugin/option_values.h"
#include "plugin/options.h"
#include "plugin/presets.h"

namespace sdp4bit {
namespace {

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

/// The words of a table, joined by commas, ended by zero.
template <const auto& Table>
constexpr auto joined_words() {
  constexpr std::string_view kSeparator = ", ";
  constexpr std::size_t length = [&] {
    std::size_t sum = 0;
    for (const auto& [word, meaning] : Table.words) sum += word.size() + kSeparator.size();
    return sum;
  }();
  std::array<char, length> text{};
  auto end = text.begin();
  for (const auto& [word, meaning] : Table.words) {
    if (end != text.begin()) end = std::copy(kSeparator.begin(), kSeparator.end(), end);
    end = std::copy(word.begin(), word.end(), end);
  }
  return text;
}
template <const auto& Table>
inline constexpr auto kJoinedWords = joined_words<Table>();

template <auto Field, const auto& Table>
constexpr Option words(const char* name, bool shapes_wire, const char* help) {
  using Value = std::remove_cvref_t<decltype(Config{}.*Field)>;
  return row<Field, [](std::string_view text, Value& value) { return Table.parse(text, value); },
             [](const Value& value) { return Table.print(value); }>(name, kJoinedWords<Table>.data(),
                                                                    shapes_wire, help);
}

constexpr bool kWire = true, kLocal = false;

/// Shapes nothing by itself: ranks compare the six values that come of it.
constexpr Option preset_row() {
  Option option = words<&Config::preset, kPresets>(kPresetName, kLocal,
                                                   "defaults of codecs, groups and scales: this version's, "
                                                   "or those of the SDP4Bit paper; a variable that is "
                                                   "set beside it wins, and ranks compare what comes of it");
  option.parse = [](std::string_view text, Config& config) {
    Preset preset{};
    if (!kPresets.parse(text, preset)) return false;
    apply_preset(preset, config);
    return true;
  };
  return option;
}

constexpr std::array kTable{
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
    row<&Config::min_bytes, parse_min_bytes, print_min_bytes>(
        "SDP4BIT_MIN_BYTES", "auto, or bytes, with K, M or G", kWire,
        "a smaller input of ReduceScatter or output of AllGather goes to NCCL; auto: from where it pays, by "
        "nodes, "
        "ranks, codecs and type (choosing_settings.md)"),
    row<&Config::gradient_types, parse_types, print_types>("SDP4BIT_GRAD_TYPES",
                                                           "bf16, fp16, fp32, joined by commas", kWire,
                                                           "element types taken by ReduceScatter"),
    row<&Config::weight_types, parse_types, print_types>("SDP4BIT_WEIGHT_TYPES",
                                                         "bf16, fp16, fp32, joined by commas", kWire,
                                                         "element types taken by AllGather"),
    preset_row(),
    words<&Config::codec_inter, kGradientCodecs>(
        "SDP4BIT_CODEC_INTER", kWire,
        "codec of gradients between nodes: sr rounds stochastically, rn to nearest; dither is unbiased as sr "
        "is, "
        "with less error, and its receivers draw the sender's noise again"),
    words<&Config::codec_intra, kGradientCodecs>("SDP4BIT_CODEC_INTRA", kWire,
                                                 "codec of gradients in a node"),
    row<&Config::gradient_group, parse_group, print_number>("SDP4BIT_GRAD_GROUP",
                                                            "a power of two, 32 to 8192", kWire,
                                                            "elements of a gradient that share a scale"),
    row<&Config::hadamard, parse_hadamard, print_number>("SDP4BIT_HADAMARD", "32, 0", kWire,
                                                         "points of the transform of gradients; 0: none"),
    words<&Config::scale, kScales>("SDP4BIT_SCALE", kWire, "type of the scales of gradients and of weights"),
    words<&Config::codec_weight, kWeightCodecs>(
        "SDP4BIT_CODEC_WEIGHT", kWire,
        "codec of weight differences; compand4 has levels that are denser near zero"),
    row<&Config::weight_group, parse_group, print_number>(
        "SDP4BIT_WEIGHT_GROUP", "a power of two, 32 to 8192", kWire,
        "elements of a weight difference that share a scale"),
    words<&Config::weight_ledger, kLedgers>(
        "SDP4BIT_WEIGHT_LEDGER", kWire, "who remembers weights: the ranks of a column, all ranks, nobody"),
    row<&Config::weight_memory, parse_memory_bound, print_memory_bound>(
        "SDP4BIT_WEIGHT_MEMORY", "bytes, with K, M or G, or a percentage of the device", kWire,
        "most memory of all ledgers of a communicator"),
    row<&Config::weight_vote, parse_switch, print_switch>(
        "SDP4BIT_WEIGHT_VOTE", "0, 1", kWire,
        "1: ranks vote before each difference, and weights that were replaced go native at once; the host "
        "waits"),
    row<&Config::weight_refresh, parse_number32, print_number>(
        "SDP4BIT_WEIGHT_REFRESH", "a number; 0: never", kWire, "rounds of differences before a native one"),
    words<&Config::weight_direct, kDirectBits>(
        "SDP4BIT_WEIGHT_DIRECT", kWire,
        "bits of stateless coding for bf16 and fp16 weights that the "
        "ledger does not take: int8 in groups of 128; int4 in groups of "
        "SDP4BIT_WEIGHT_GROUP, which costs accuracy and is for "
        "comparison with differences only; whatever "
        "SDP4BIT_CODEC_WEIGHT is; 0: native"),
    words<&Config::own_shard, kOwnShards>(
        "SDP4BIT_OWN_SHARD", kWire,
        "what the owner of a shard keeps: what the others hold, or its exact values (needed where the slice "
        "is the optimizer's master copy); auto asks by a small step in some elements"),
    row<&Config::start_call, parse_number, print_number>("SDP4BIT_START_CALL", "a number", kWire,
                                                         "calls of a communicator that go to NCCL first"),
    row<&Config::seed, parse_number, print_number>("SDP4BIT_SEED", "a number", kWire,
                                                   "seed of the noise of sr and dither"),
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
    row<&Config::checksum, parse_switch, print_switch>(
        "SDP4BIT_CHECKSUM", "0, 1", kWire,
        "1: messages carry checksums that are verified before their data is used; damage on the way is an "
        "error that names the sender and the call"),
    words<&Config::on_mismatch, kOnMismatch>("SDP4BIT_ON_MISMATCH", kWire,
                                             "what follows when ranks differ in a variable"),
    row<&Config::gradients_padded, parse_switch, print_switch>(
        "SDP4BIT_RS_PADDED", "0, 1", kWire,
        "1: take ReduceScatter although DeepSpeed was found, whose ZeRO-3 pads gradients with memory that "
        "was never written"),
    words<&Config::framework, kFrameworks>("SDP4BIT_FRAMEWORK", kLocal,
                                           "what runs in this process; auto: look for traces of DeepSpeed"),
    words<&Config::log, kLogLevels>("SDP4BIT_LOG", kLocal, "what is printed"),
    row<&Config::stats, parse_text, print_text>(
        "SDP4BIT_STATS", "a path; %h: host, %p: process id, %r: rank in the job", kLocal,
        "file for the counters as JSON, written every 10 s and at exit"),
    row<&Config::metrics, parse_text, print_text>(
        "SDP4BIT_METRICS", "a path; %h: host, %p: process id, %r: rank in the job; not that of SDP4BIT_STATS",
        kLocal, "file for the counters as Prometheus text, written every 10 s and at exit"),
    row<&Config::sample_error, parse_number, print_number>(
        "SDP4BIT_SAMPLE_ERROR", "a number; 0: never", kLocal,
        "of every so many compressed calls one has the error of what this rank sent measured, for the "
        "statistics"),
    row<&Config::watchdog, parse_number32, print_number>("SDP4BIT_WATCHDOG", "seconds; 0: off", kLocal,
                                                         "a call that waits longer is named in the log"),
};

/// The defaults that differ between presets.
std::string presets_markdown() {
  std::string head = std::string("| default with `") + kPresetName + "=` |", rule = "|---|";
  std::array<Config, kPresets.words.size()> presets;
  for (std::size_t i = 0; i < presets.size(); ++i) {
    apply_preset(kPresets.words[i].second, presets[i]);
    head += " `" + std::string(kPresets.words[i].first) + "` |";
    rule += "---|";
  }
  std::string text = head + "\n" + rule + "\n";
  for (const Option& option : kTable) {
    const std::string usual = option.print(presets.front());
    const bool differs = std::any_of(presets.begin(), presets.end(),
                                     [&](const Config& config) { return option.print(config) != usual; });
    if (!differs || std::string_view(option.name) == kPresetName) continue;
    text += std::string("| ") + option.name + " |";
    for (const Config& config : presets) text.append(" ").append(option.print(config)).append(" |");
    text += "\n";
  }
  return text;
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

std::string options_markdown() {
  std::string text =
      "| variable | default | equal on all ranks | accepted | meaning |\n|---|---|---|---|---|\n";
  const Config defaults;
  for (const Option& option : kTable) {
    const std::string value = option.print(defaults);
    text += std::string("| ") + option.name + " | " + (value.empty() ? "-" : value) + " | " +
            (option.shapes_wire ? "yes" : "no") + " | " + option.accepts + " | " + option.help + " |\n";
  }
  return text + "\n" + presets_markdown();
}

std::string options_in_force(const Config& config) {
  std::string text;
  for (const Option& option : kTable) text += std::string(option.name) + "=" + option.print(config) + "\n";
  return text;
}

}  // namespace sdp4bit
