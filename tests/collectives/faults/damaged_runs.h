// Runs one small training over and over, each time on a new communicator and with one transfer damaged, and
// says what became of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cluster.h"

namespace sdp4bit::test {

enum class Damage { one_bit, random_header };

/// What runs, and how often.
struct DamagedRuns {
  const char* name = "";
  std::vector<int> node_of;
  Environment environment;  // beside what all have in common
  Damage damage = Damage::one_bit;
  unsigned runs = 10;
  unsigned seed = 1;
  int steps = 20;
  int reduces_of_step = 1;
  bool grouped = false;       // a step's calls make one group
  bool replays = false;       // gradients also by a captured graph
  bool out_of_place = false;  // weights
  bool full_ledger = false;   // who holds entries, which native gathers set ...
  bool sets_entries = true;   // ... if anybody does
  int timeout_seconds = 600;
};

/// Runs by what became of them. A rank gets an error at the call behind the damage or, where the host has to
/// decide with what arrived, at once.
struct DamageFigures {
  std::uint64_t runs = 0;
  std::uint64_t detected = 0;          // an error; outputs right or NaN until then
  std::uint64_t harmless = 0;          // no error, and all outputs right
  std::uint64_t not_a_number = 0;      // no error, and some output is NaN
  std::uint64_t wrong = 0;             // some output was another number
  std::uint64_t wrong_in_silence = 0;  // ... and no error
  unsigned seconds = 0;
  std::uint64_t handshakes = 0, records = 0, messages = 0, gathered = 0, hellos = 0;  // by what was hit
};

/// `outcomes`: of the ranks, with what they logged.
[[nodiscard]] DamageFigures run_damaged(const DamagedRuns& runs, std::vector<Outcome>& outcomes);

/// One line of JSON, for scripts/reliability.sh.
void print_figures(const DamagedRuns& runs, const DamageFigures& figures);

}  // namespace sdp4bit::test
