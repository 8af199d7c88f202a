// The scenarios, in the order of the way of a communicator.
#include "scenario.h"

#include <algorithm>
#include <array>

namespace agreement {
namespace {

constexpr ProgramCall gather(std::uint8_t count, std::uint8_t buffer) {
  return {.kind = CallKind::gather, .count = count, .buffer = buffer};
}
constexpr ProgramCall kReduce{.kind = CallKind::reduce_scatter};
constexpr ProgramCall kCaptured{.kind = CallKind::captured_gather};
constexpr ProgramCall kEmpty{.kind = CallKind::empty};

constexpr std::array kOneBuffer{ProgramGroup{1, {gather(0, 0)}}};
constexpr std::array kTwoBuffers{ProgramGroup{1, {gather(0, 0)}}, ProgramGroup{1, {gather(0, 1)}}};
constexpr std::array kTurns{ProgramGroup{2, {gather(0, 0), gather(0, 1)}}};
constexpr std::array kUnevenGroups{ProgramGroup{1, {gather(0, 0)}},
                                   ProgramGroup{2, {gather(0, 0), gather(0, 1)}},
                                   ProgramGroup{3, {gather(0, 0), gather(0, 1), gather(0, 0)}}};
constexpr std::array kMixed{
    ProgramGroup{1, {gather(0, 0)}}, ProgramGroup{1, {kReduce}}, ProgramGroup{2, {kReduce, gather(0, 0)}},
    ProgramGroup{3, {gather(0, 0), gather(0, 0), kReduce}}, ProgramGroup{2, {kCaptured, kEmpty}}};
constexpr std::array kTemporaries{ProgramGroup{1, {gather(0, 0)}},
                                  ProgramGroup{1, {gather(0, kFreshBuffer)}}};
constexpr std::array kTwoClasses{ProgramGroup{2, {gather(0, 0), gather(1, 0)}}};
constexpr std::array kThreeClasses{ProgramGroup{1, {gather(0, 0)}}, ProgramGroup{1, {gather(1, 0)}},
                                   ProgramGroup{3, {gather(0, 0), gather(1, 0), gather(2, 0)}}};

/// Exams at 2, 4 and 8 calls; a jump is followed two calls later; a second relearning in a row is the last.
constexpr sdp4bit::WeightRules kSmall{.first_exam = 2,
                                      .large_exam = 4,
                                      .last_exam = 8,
                                      .least_lag = 2,
                                      .jumps_in_a_row = 2,
                                      .window = 4,
                                      .jumps_in_window = 2,
                                      .failures_allowed = 1};
/// Nearer to the library's, still few enough.
constexpr sdp4bit::WeightRules kMiddle{.first_exam = 4,
                                       .large_exam = 8,
                                       .last_exam = 8,
                                       .least_lag = 4,
                                       .jumps_in_a_row = 3,
                                       .window = 4,
                                       .jumps_in_window = 3,
                                       .failures_allowed = 2};
constexpr sdp4bit::WeightRules kReal{};

const std::array kScenarios{
    Scenario{.name = "handshake",
             .about = "settings, names, blocking, memory, versions and hints that differ; the verdict",
             .rules = kSmall,
             .groups = kMixed,
             .agreed = false,
             .deviations = {3, 2},
             .quick_deviations = {2, 1},
             .settings = true,
             .most_groups = 8,
             .quick_groups = 6},
    Scenario{.name = "handshake_orders",
             .about = "... in every order of hosts, device and arrivals",
             .rules = kSmall,
             .groups = kUnevenGroups,
             .agreed = false,
             .deviations = {2, 1},
             .quick_deviations = {1, 0},
             .settings = true,
             .orders = true,
             .ahead = 2,
             .most_groups = 5,
             .quick_groups = 4},
    Scenario{.name = "sizes",
             .about = "differences of any size on any rank, refreshes, jumps: learning, rounds, relearning",
             .rules = kSmall,
             .refresh_rounds = 3,
             .groups = kTwoBuffers,
             .deviations = {4, 3},
             .quick_deviations = {3, 2},
             .sizes = true},
    Scenario{.name = "sizes_at_will",
             .about = "one buffer, and any number of differences of any size",
             .rules = kSmall,
             .refresh_rounds = 5,
             .groups = kOneBuffer,
             .endless = true,
             .sizes = true},
    Scenario{.name = "more_sizes_at_will",
             .about = "... by numbers nearer to the library's",
             .rules = kMiddle,
             .refresh_rounds = 7,
             .groups = kOneBuffer,
             .endless = true,
             .whole_only = true,
             .sizes = true},
    Scenario{.name = "groups",
             .about = "groups of one to three calls, which step over exams and rounds",
             .rules = kSmall,
             .refresh_rounds = 2,
             .groups = kUnevenGroups,
             .deviations = {2, 2},
             .quick_deviations = {1, 1},
             .sizes = true},
    Scenario{.name = "addresses",
             .about = "a rank's buffers lie elsewhere at any call: other slots, slots used least recently",
             .rules = kSmall,
             .groups = kTurns,
             .deviations = {4, 3},
             .quick_deviations = {3, 2},
             .addresses = 3,
             .sizes = true},
    Scenario{.name = "temporaries",
             .about = "buffers at addresses that never come again, in any mixture with one that does",
             .rules = kSmall,
             .refresh_rounds = 2,
             .groups = kTemporaries,
             .deviations = {1, 1},
             .quick_deviations = {0, 0},
             .sizes = true},
    Scenario{.name = "memory",
             .about = "ledgers that cannot be had on some rank, at any moment",
             .rules = kSmall,
             .groups = kTurns,
             .deviations = {4, 4},
             .quick_deviations = {3, 3},
             .addresses = 2,
             .sizes = true,
             .memory = true,
             .direct = true},
    Scenario{.name = "resets",
             .about = "programs that ask to learn anew, some later than others",
             .rules = kSmall,
             .refresh_rounds = 2,
             .groups = kTurns,
             .deviations = {5, 4},
             .quick_deviations = {3, 3},
             .sizes = true,
             .memory = true,
             .resets = true},
    Scenario{.name = "verdicts",
             .about = "own shards that are the program's master copy on some ranks",
             .rules = kSmall,
             .refresh_rounds = 3,
             .groups = kTurns,
             .deviations = {2, 1},
             .quick_deviations = {1, 1},
             .sizes = true,
             .verdicts = true},
    Scenario{.name = "votes",
             .about = "a vote before each difference",
             .rules = kSmall,
             .refresh_rounds = 2,
             .groups = kUnevenGroups,
             .deviations = {2, 1},
             .quick_deviations = {1, 1},
             .addresses = 2,
             .sizes = true,
             .votes = true},
    Scenario{.name = "classes",
             .about = "more classes than are taken, also in one group",
             .rules = kSmall,
             .groups = kThreeClasses,
             .deviations = {2, 1},
             .quick_deviations = {1, 0},
             .sizes = true,
             .direct = true,
             .most_classes = 2},
    Scenario{.name = "failures",
             .about = "a rank fails before any of its operations, or aborts",
             .rules = kSmall,
             .refresh_rounds = 2,
             .groups = kTwoClasses,
             .deviations = {2, 1},
             .quick_deviations = {1, 1},
             .sizes = true,
             .memory = true,
             .failures = true,
             .orders = true,
             .ahead = 1,
             .most_groups = 8,
             .quick_groups = 5},
    Scenario{.name = "orders",
             .about = "every order in which hosts, device and arrivals can go on",
             .rules = kSmall,
             .refresh_rounds = 2,
             .groups = kOneBuffer,
             .deviations = {2, 1},
             .quick_deviations = {1, 0},
             .sizes = true,
             .orders = true,
             .ahead = 2,
             .most_groups = 14,
             .quick_groups = 6},
    Scenario{.name = "vote_orders",
             .about = "... with votes",
             .rules = kSmall,
             .groups = kTurns,
             .deviations = {1, 1},
             .quick_deviations = {1, 0},
             .sizes = true,
             .votes = true,
             .orders = true,
             .ahead = 1,
             .quick_groups = 4},
    Scenario{.name = "real_numbers",
             .about = "the library's own numbers: exams to 4096, 3 rounds in a row, 16 of 64",
             .rules = kReal,
             .refresh_rounds = 20,
             .groups = kTurns,
             .deviations = {2, 1},
             .quick_deviations = {1, 0},
             .sizes = true,
             .memory = true,
             .most_depth = 1500},
};

}  // namespace

std::span<const Scenario> scenarios() {
  return kScenarios;
}

const Scenario* find_scenario(std::string_view name) {
  const auto found = std::find_if(kScenarios.begin(), kScenarios.end(),
                                  [&](const Scenario& scenario) { return scenario.name == name; });
  return found == kScenarios.end() ? nullptr : &*found;
}

}  // namespace agreement
