// What the user sets: Config, filled once from the environment; one table row for each variable.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/wire_format.h"
#include "plugin/log.h"

namespace sdp4bit {

enum class WeightLedger : std::uint8_t { off, node, full };
enum class OwnShard : std::uint8_t { automatic, replica, exact };
enum class OnMismatch : std::uint8_t { native, abort };
enum class Preset : std::uint8_t { standard, paper };
enum class Framework : std::uint8_t { automatic, deepspeed, other };

struct Collectives {
  bool reduce_scatter = true;
  bool all_gather = true;
  friend bool operator==(const Collectives&, const Collectives&) = default;
};

struct Types {
  bool bfloat16 = true;
  bool float16 = true;
  bool float32 = true;
  [[nodiscard]] bool has(ElementType type) const {
    return type == ElementType::bfloat16 ? bfloat16 : type == ElementType::float16 ? float16 : float32;
  }
  friend bool operator==(const Types&, const Types&) = default;
};

/// Which communicators take part: all terms that are set must hold.
struct CommSelection {
  bool automatic = true;     // spans nodes, and its name or size says data parallel
  bool spans_nodes = false;  // has ranks on more than one node
  std::uint32_t least_ranks = 0;
  std::vector<std::string> names;     // shell patterns: one of them must match ...
  std::vector<std::string> no_names;  // ... and none of these
  friend bool operator==(const CommSelection&, const CommSelection&) = default;
};

/// A codec's name: bits and coding; group size, transform and scale type have their own variables.
struct CodecName {
  std::uint32_t bits = 4;
  Coding coding = Coding::stochastic;
  friend bool operator==(const CodecName&, const CodecName&) = default;
};

struct MemoryBound {
  std::uint64_t bytes = 0;     // used when percent is 0
  std::uint32_t percent = 25;  // of the device's memory
  friend bool operator==(const MemoryBound&, const MemoryBound&) = default;
};

/// From which size on calls are taken.
struct MinBytes {
  bool automatic = true;  // from where the topology and the codecs make it pay
  std::uint64_t bytes = 0;
  friend bool operator==(const MinBytes&, const MinBytes&) = default;
};

struct Config {
  bool enable = true;
  Collectives collectives{};
  CommSelection comms{};
  MinBytes min_bytes{};
  Types gradient_types{};
  Types weight_types{.float32 = false};
  Preset preset = Preset::standard;  // presets.h: the defaults of the codecs, groups and scales below
  CodecName codec_inter{.bits = 4, .coding = Coding::dithered};
  CodecName codec_intra{.bits = 8};
  std::uint32_t gradient_group = 64;
  std::uint32_t hadamard = 32;
  ScaleType scale = ScaleType::bfloat16;
  CodecName codec_weight{.bits = 4, .coding = Coding::companded};
  std::uint32_t weight_group = 1024;
  WeightLedger weight_ledger = WeightLedger::node;
  MemoryBound weight_memory{};
  std::uint32_t weight_refresh = 1000;
  bool weight_vote = false;
  std::uint32_t weight_direct = 0;  // bits; 0: off
  OwnShard own_shard = OwnShard::automatic;
  std::uint64_t start_call = 0;
  std::uint64_t seed = 1;
  std::uint32_t local_size = 0;
  std::uint64_t workspace = 64 << 20;
  bool check = false;
  bool checksum = false;
  OnMismatch on_mismatch = OnMismatch::native;
  bool gradients_padded = false;  // taken although their padding may be garbage

  Framework framework = Framework::automatic;
  LogLevel log = LogLevel::warn;
  std::string stats{};
  std::string metrics{};
  std::uint64_t sample_error = 0;  // every so many calls; 0: never
  std::uint32_t watchdog = 60;

  /// The codecs that the variables above describe.
  [[nodiscard]] Codec gradient_codec(const CodecName& name) const {
    return {.bits = name.bits,
            .group_size = gradient_group,
            .scale = scale,
            .coding = name.coding,
            .hadamard = hadamard != 0};
  }
  [[nodiscard]] Codec inter_codec() const { return gradient_codec(codec_inter); }
  [[nodiscard]] Codec intra_codec() const { return gradient_codec(codec_intra); }
  [[nodiscard]] Codec weight_codec() const {
    return {.bits = codec_weight.bits,
            .group_size = weight_group,
            .scale = scale,
            .coding = codec_weight.coding,
            .hadamard = false};
  }
  /// Of weights without a ledger: to nearest in even steps, whatever codes the differences, and in small
  /// groups, for nothing corrects the error later. Four bits are there to be compared with differences: their
  /// groups.
  [[nodiscard]] Codec direct_codec() const {
    constexpr std::uint32_t kDirectGroup = 128;
    return {.bits = weight_direct,
            .group_size = weight_direct == 4 ? weight_group : kDirectGroup,
            .scale = scale,
            .coding = Coding::nearest,
            .hadamard = false};
  }
};

/// One variable. `parse` takes the whole text or says no; `print` gives text that parse takes.
struct Option {
  const char* name;
  const char* accepts;
  const char* help;
  bool shapes_wire;
  bool (*parse)(std::string_view text, Config& config);
  std::string (*print)(const Config& config);
};
[[nodiscard]] std::span<const Option> option_table();

/// The value in force of one variable, as text.
[[nodiscard]] std::string option_value(std::string_view name, const Config& config);

/// What the environment says of one variable.
struct GivenValue {
  bool is_set = false;
  bool is_refused = false;  // the text was not taken: the default, or the preset's, is in force
  std::string text{};
};

struct ParsedConfig {
  Config config;
  std::vector<std::string> complaints;  // what was wrong: one line each, ready for the log
  std::vector<GivenValue> given;        // one for each row of the table, in its order
};
/// `environment` holds NAME=value texts. A bad value leaves the default in force and complains. A preset is
/// taken first: what is set beside it wins, in whatever order.
[[nodiscard]] ParsedConfig parse_config(std::span<const char* const> environment);

/// The environment's, read at the first call of either; config() also logs the complaints, once a process.
const ParsedConfig& parsed_environment();
const Config& read_config();
/// Written by read_config() alone.
inline std::atomic<const Config*> config_in_force{nullptr};
inline const Config& config() {
  const Config* const known = config_in_force.load(std::memory_order_acquire);
  return known ? *known : read_config();
}

/// Another variable of the environment (WORLD_SIZE, NCCL_HOSTID, ...), "" if not set.
[[nodiscard]] std::string environment_text(const char* name);
/// All of it, as NAME=value.
[[nodiscard]] std::vector<std::string> environment_variables();
/// The first of `names` that is a whole number, else -1.
[[nodiscard]] std::int64_t environment_number(std::span<const char* const> names);

/// The table as documentation shows it (markdown), and as `name=value` lines with the values in force.
[[nodiscard]] std::string options_markdown();
[[nodiscard]] std::string options_in_force(const Config& config);

}  // namespace sdp4bit
