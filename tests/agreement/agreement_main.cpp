// Explores the agreement of ranks: every scenario with two and three ranks, then every deliberate mistake.
//
// Exit code: 0 when no state is wrong and every mistake was found, 1 when not, 2 for a wrong command line.
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "explore.h"

namespace {

using namespace agreement;

struct Command {
  std::vector<const Scenario*> chosen;  // none: all
  std::vector<Mistake> mistakes;
  std::uint32_t ranks = 0;  // 0: two and three
  Bounds bounds;
  bool quick = false;
  bool explores = true;
  bool json = false;
  bool expects_violation = false;
};

[[noreturn]] void stop(const std::string& text) {
  std::fprintf(stderr, "agreement_model: %s\n", text.c_str());
  std::exit(2);
}

void show_help() {
  std::puts(
      "agreement_model [--scenario NAME]... [--ranks 2|3] [--quick] [--mistake NAME|all|none] "
      "[--only-mistakes]\n"
      "                [--most-states COUNT] [--progress] [--json] [--expect-violation]\n\n"
      "Without --scenario: all of them, and all mistakes. --json prints one line at the end.\n"
      "--expect-violation: stop at the first wrong state, and fail if there is none.\n\nScenarios:");
  for (const Scenario& scenario : scenarios())
    std::printf("  %-18s %s\n", scenario.name.data(), scenario.about.data());
  std::puts("\nMistakes:");
  for (const MistakeText& mistake : kMistakes)
    std::printf("  %-30s %s (%s)\n", mistake.name.data(), mistake.about.data(), mistake.scenario.data());
}

void choose_mistakes(Command& command, std::string_view name) {
  if (name == "none") return;
  for (std::size_t i = 0; i < kMistakes.size(); ++i) {
    if (name == "all" || name == kMistakes[i].name) command.mistakes.push_back(static_cast<Mistake>(i + 1));
  }
  if (command.mistakes.empty()) stop("there is no mistake \"" + std::string(name) + "\"; --help lists them");
}

Command parse(int count, char** words) {
  Command command;
  bool mistakes_said = false;
  const std::vector<std::string_view> arguments(words + 1, words + count);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string_view word = arguments[i];
    const auto value = [&]() -> std::string_view {
      if (++i == arguments.size()) stop(std::string(word) + " needs a value; --help says which");
      return arguments[i];
    };
    const auto number = [&] {
      const std::string_view text = value();
      std::uint64_t result = 0;
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), result);
      if (error != std::errc{} || end != text.data() + text.size())
        stop(std::string(word) + " takes a number, not \"" + std::string(text) + "\"");
      return result;
    };
    if (word == "--help") {
      show_help();
      std::exit(0);
    } else if (word == "--scenario") {
      const std::string_view name = value();
      const Scenario* const scenario = find_scenario(name);
      if (!scenario) stop("there is no scenario \"" + std::string(name) + "\"; --help lists them");
      command.chosen.push_back(scenario);
    } else if (word == "--ranks") {
      command.ranks = static_cast<std::uint32_t>(number());
      if (command.ranks != 2 && command.ranks != 3) stop("--ranks takes 2 or 3");
    } else if (word == "--mistake") {
      mistakes_said = true;
      choose_mistakes(command, value());
    } else if (word == "--only-mistakes") {
      command.explores = false;
    } else if (word == "--most-states") {
      command.bounds.most_states = number();
    } else if (word == "--quick") {
      command.quick = true;
    } else if (word == "--progress") {
      command.bounds.progress = true;
    } else if (word == "--json") {
      command.json = true;
    } else if (word == "--expect-violation") {
      command.expects_violation = true;
    } else {
      stop("\"" + std::string(word) + "\" is not known; --help lists what is");
    }
  }
  if (!mistakes_said && command.chosen.empty()) choose_mistakes(command, "all");
  if (command.chosen.empty()) {
    for (const Scenario& scenario : scenarios()) command.chosen.push_back(&scenario);
  }
  return command;
}

/// Counts over all explorations, and the line of JSON.
class Report {
 public:
  void add(const Scenario& scenario, std::uint32_t ranks, const Exploration& found) {
    std::printf("%-18s %u ranks: %9llu states, %10llu transitions, depth %4u, %7.1f s%s\n",
                scenario.name.data(), ranks, static_cast<unsigned long long>(found.states),
                static_cast<unsigned long long>(found.transitions), found.depth, found.seconds,
                found.complete            ? ""
                : found.violation.empty() ? ", cut off"
                                          : ", WRONG");
    show_trace(found);
    std::fflush(stdout);
    wrong_ += !found.violation.empty();
    states_[ranks - 2] += found.states;
    transitions_ += found.transitions;
    deepest_ = std::max(deepest_, found.depth);
    seconds_ += found.seconds;
    complete_ = complete_ && found.complete;
    if (!json_.empty()) json_ += ", ";
    json_ += "{\"name\": \"" + std::string(scenario.name) + "\", \"ranks\": " + std::to_string(ranks) +
             ", \"states\": " + std::to_string(found.states) +
             ", \"transitions\": " + std::to_string(found.transitions) +
             ", \"depth\": " + std::to_string(found.depth) + ", \"seconds\": " + tenths(found.seconds) +
             ", \"complete\": " + (found.complete ? "true" : "false") + "}";
  }
  void add_mistake(const MistakeText& mistake, const Exploration& found) {
    std::printf("\nmistake %s: %s\n%s\n", mistake.name.data(), mistake.about.data(),
                found.violation.empty() ? "  NOT FOUND" : "");
    show_trace(found);
    std::fflush(stdout);
    ++mistakes_;
    found_ += !found.violation.empty();
    seconds_ += found.seconds;
  }
  void show_totals() const {
    std::printf(
        "\n%llu states with 2 ranks, %llu with 3, %llu transitions, %.1f s; %u wrong; %u of %u mistakes "
        "found\n",
        static_cast<unsigned long long>(states_[0]), static_cast<unsigned long long>(states_[1]),
        static_cast<unsigned long long>(transitions_), seconds_, wrong_, found_, mistakes_);
  }
  /// Every event, step and verdict came up.
  [[nodiscard]] bool covers(const Coverage& covered) {
    reached_ =
        covered.events.size() + covered.steps.size() + covered.own_slices.size() + covered.agreements.size();
    std::printf(
        "%zu of %zu events of classes, %zu of %zu steps of gathers, %zu of %zu uses of own shards, %zu of "
        "%zu "
        "verdicts were reached\n",
        covered.events.size(), kEvents, covered.steps.size(), kSteps, covered.own_slices.size(), kOwn,
        covered.agreements.size(), kVerdicts);
    for (std::size_t i = 0; i < kEvents; ++i) {
      const auto event = static_cast<sdp4bit::WeightEvent>(i);
      if (!covered.events.contains(event)) std::printf("  NOT REACHED: %s\n", sdp4bit::event_name(event));
    }
    return reached_ == kEvents + kSteps + kOwn + kVerdicts;
  }
  void show_json() const {
    std::printf(
        "{\"states_2_ranks\": %llu, \"states_3_ranks\": %llu, \"transitions\": %llu, \"depth\": %u, "
        "\"seconds\": %s, \"complete\": %s, \"decisions_reached\": %zu, \"violations\": %u, "
        "\"mistakes\": %u, \"mistakes_found\": %u, "
        "\"scenarios\": [%s]}\n",
        static_cast<unsigned long long>(states_[0]), static_cast<unsigned long long>(states_[1]),
        static_cast<unsigned long long>(transitions_), deepest_, tenths(seconds_).c_str(),
        complete_ ? "true" : "false", reached_, wrong_, mistakes_, found_, json_.c_str());
  }
  [[nodiscard]] bool good() const { return wrong_ == 0 && found_ == mistakes_; }

 private:
  static constexpr std::size_t kEvents = 11, kSteps = 6, kOwn = 3, kVerdicts = 2;

  static std::string tenths(double seconds) {
    char text[32];
    std::snprintf(text, sizeof text, "%.1f", seconds);
    return text;
  }
  static void show_trace(const Exploration& found) {
    if (found.violation.empty()) return;
    for (std::size_t i = 0; i < found.trace.size(); ++i)
      std::printf("  %3zu. %s\n", i + 1, found.trace[i].c_str());
    std::printf("  => %s\n", found.violation.c_str());
  }

  std::uint64_t states_[2] = {0, 0};
  std::uint64_t transitions_ = 0;
  std::uint32_t deepest_ = 0;
  double seconds_ = 0;
  bool complete_ = true;
  std::size_t reached_ = 0;  // of the library's decisions
  unsigned wrong_ = 0, mistakes_ = 0, found_ = 0;
  std::string json_;
};

}  // namespace

int main(int count, char** words) {
  const Command command = parse(count, words);
  Report report;
  Coverage covered;
  for (const Scenario* const scenario : command.chosen) {
    for (const std::uint32_t ranks : {2u, 3u}) {
      if (command.quick && scenario->whole_only) continue;
      if (!command.explores || (command.ranks != 0 && command.ranks != ranks)) continue;
      report.add(*scenario, ranks,
                 explore({.scenario = *scenario, .quick = command.quick, .covered = &covered}, ranks,
                         command.bounds));
      if (command.expects_violation && !report.good()) return 0;
    }
  }
  for (const Mistake mistake : command.mistakes) {
    const MistakeText& text = kMistakes[static_cast<std::size_t>(mistake) - 1];
    const Setting setting{
        .scenario = *find_scenario(text.scenario), .mistake = mistake, .quick = command.quick};
    report.add_mistake(text, explore(setting, command.ranks == 3 ? 3 : 2, command.bounds));
  }
  report.show_totals();
  const bool whole =
      !command.explores || command.chosen.size() < scenarios().size() || report.covers(covered);
  if (command.json) report.show_json();
  return report.good() && whole && !command.expects_violation ? 0 : 1;
}
