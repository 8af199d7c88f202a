// The only place that reads the environment.
#include "plugin/options.h"

#include <sys/auxv.h>
#include <unistd.h>  // environ

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "plugin/option_values.h"
#include "plugin/presets.h"

namespace sdp4bit {
namespace {

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
  const auto table = option_table();
  const auto nearest = std::min_element(table.begin(), table.end(), [&](const Option& a, const Option& b) {
    return edit_distance(name, a.name) < edit_distance(name, b.name);
  });
  return std::string(name) + " is no variable of sdp4bit and is ignored; the nearest is " + nearest->name;
}

/// The place of a variable's row in the table; the table's size if it has none.
std::size_t place_of(std::string_view name) {
  const auto table = option_table();
  return static_cast<std::size_t>(
      std::find_if(table.begin(), table.end(), [&](const Option& row) { return name == row.name; }) -
      table.begin());
}

void take_variable(std::string_view name, std::string_view text, ParsedConfig& parsed) {
  const std::size_t place = place_of(name);
  if (place == option_table().size()) {
    parsed.complaints.push_back(unknown_variable(name));
    return;
  }
  const Option& option = option_table()[place];
  const bool accepted = option.parse(text, parsed.config);
  parsed.given[place] = {true, !accepted, std::string(text)};
  if (accepted) return;
  constexpr std::size_t kShown = 200;  // of a value: what is accepted must have room in the line
  const std::string value = std::string(text.substr(0, kShown)) + (text.size() > kShown ? "..." : "");
  parsed.complaints.push_back(std::string(name) + "=\"" + value + "\" is refused; accepted: " +
                              option.accepts + "; in force is \"" + option.print(parsed.config) + "\"");
}

/// The second writer would replace what the first one wrote.
void refuse_one_file_for_both(ParsedConfig& parsed) {
  Config& config = parsed.config;
  if (config.stats.empty() || config.stats != config.metrics) return;
  parsed.complaints.push_back(
      "SDP4BIT_METRICS names the file of SDP4BIT_STATS, which holds JSON; accepted: a path of its own; "
      "Prometheus text is not written");
  config.metrics.clear();
  parsed.given[place_of("SDP4BIT_METRICS")].is_refused = true;
}

}  // namespace

ParsedConfig parse_config(std::span<const char* const> environment) {
  constexpr std::string_view kPrefix = "SDP4BIT_";
  ParsedConfig parsed;
  parsed.given.resize(option_table().size());
  for (const bool presets : {true, false}) {
    for (const std::string_view entry : environment) {
      const std::size_t equals = entry.find('=');
      if (!entry.starts_with(kPrefix) || equals == std::string_view::npos) continue;
      const std::string_view name = entry.substr(0, equals);
      if ((name == kPresetName) == presets) take_variable(name, entry.substr(equals + 1), parsed);
    }
  }
  refuse_one_file_for_both(parsed);
  return parsed;
}

/// A program that runs with more rights than who started it must not be told by that person's environment
/// what to write, and where: it is left alone.
bool environment_is_trusted() {
  return ::getauxval(AT_SECURE) == 0;
}

/// The variables of the process, as `NAME=text`.
std::vector<const char*> environment_entries() {
  if (!environment_is_trusted()) return {};
  std::size_t count = 0;
  while (environ && environ[count]) ++count;
  return {environ, environ + count};
}

// What these two make outlives every static object.
const ParsedConfig& parsed_environment() {
  static const ParsedConfig* const instance = [] {
    auto* const parsed = new ParsedConfig(parse_config(environment_entries()));
    if (!environment_is_trusted()) {
      parsed->config.enable = false;
      parsed->config.log = LogLevel::none;
    }
    return parsed;
  }();
  return *instance;
}

const Config& read_config() {
  static const Config* const instance = [] {
    const ParsedConfig& parsed = parsed_environment();
    set_log_level(parsed.config.log);
    for (const std::string& complaint : parsed.complaints) log_warn("%s", complaint.c_str());
    config_in_force.store(&parsed.config, std::memory_order_release);
    return &parsed.config;
  }();
  return *instance;
}

std::vector<std::string> environment_variables() {
  const std::vector<const char*> entries = environment_entries();
  return {entries.begin(), entries.end()};
}

std::string environment_text(const char* name) {
  const char* const text = environment_is_trusted() ? std::getenv(name) : nullptr;
  return text ? text : "";
}

std::int64_t environment_number(std::span<const char* const> names) {
  for (const char* const name : names) {
    std::uint32_t value = 0;
    if (parse_number32(environment_text(name), value)) return value;
  }
  return -1;
}

}  // namespace sdp4bit
