// What is explored together: the library's numbers made small, the programs, and the facts that may differ
// between ranks.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "mistakes.h"
#include "plugin/weight_class.h"

namespace agreement {

inline constexpr std::uint32_t kMostRanks = 3;

enum class CallKind : std::uint8_t { gather, reduce_scatter, captured_gather, empty };
inline constexpr std::uint8_t kFreshBuffer = 255;  // at an address that never comes again
/// A call of the program: equal on all ranks.
struct ProgramCall {
  CallKind kind = CallKind::gather;
  std::uint8_t count = 0;   // of which number of elements: its class
  std::uint8_t buffer = 0;  // of which buffer
};
struct ProgramGroup {
  std::uint8_t size = 1;
  ProgramCall calls[3];
};

struct Scenario {
  std::string_view name;
  std::string_view about;
  sdp4bit::WeightRules rules;
  std::uint64_t refresh_rounds = 0;
  std::span<const ProgramGroup> groups;  // each outermost group of the program is any of these
  bool agreed = true;                    // begins behind a handshake that said yes

  // Facts of one rank. Each answer other than the usual one costs a deviation, of which a life has some.
  std::uint32_t deviations[2] = {0, 0};        // with 2 and with 3 ranks
  std::uint32_t quick_deviations[2] = {0, 0};  // ... in the quick exploration
  bool endless = false;                        // deviations cost nothing
  bool whole_only = false;                     // not in the quick exploration
  bool settings = false;       // of the handshake: switched off, not selected, another value, ...
  std::uint8_t addresses = 0;  // a rank may take any of so many addresses for a buffer; 0: the buffer's own
  bool sizes = false;          // of differences: neither small nor a jump, or a jump
  bool memory = false;         // the ledger cannot be had
  bool resets = false;         // a program asks to learn anew
  bool verdicts = false;       // own shards are asked for: the program's master copies on some ranks
  bool votes = false;          // SDP4BIT_WEIGHT_VOTE
  bool direct = false;         // SDP4BIT_WEIGHT_DIRECT
  bool failures = false;       // a rank fails before any of its operations, or aborts at any time
  bool orders = false;         // every order of ranks, device and arrivals; else one
  std::uint8_t ahead = 1;      // groups that a rank may be ahead of another, with `orders`
  std::uint8_t queue =
      6;  // operations that it may be ahead of the device, likewise; else it would be for ever
  std::uint8_t most_classes = 64;
  std::uint32_t most_groups = 0;   // of a life; 0: it goes on for ever
  std::uint32_t quick_groups = 0;  // ... in the quick exploration
  std::uint32_t most_depth = 0;    // steps of the exploration; 0: until no new state appears
};

[[nodiscard]] std::span<const Scenario> scenarios();
[[nodiscard]] const Scenario* find_scenario(std::string_view name);

}  // namespace agreement
