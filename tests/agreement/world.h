// The state that is explored: some ranks of one communicator, each with the library's own decisions inside,
// and the network between them.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/launch_weight.h"
#include "plugin/comm_clock.h"
#include "plugin/gather_life.h"
#include "plugin/handshake.h"
#include "plugin/slot_table.h"
#include "scenario.h"

namespace agreement {

inline constexpr std::uint32_t kMostSlots = 4;    // in the model: S never grows beyond
inline constexpr std::uint32_t kMostClasses = 3;  // ... nor classes

/// One operation that all ranks must issue alike, in the same order.
struct Operation {
  enum class Kind : std::uint8_t {
    native_gather,
    native_reduce_scatter,
    handshake,
    connect,
    record,
    vote,
    difference,
    voted_native,  // the answer was a jump: NCCL's own gather, and entries are set
    direct,
    gradient,
  };
  Kind kind = Kind::native_gather;
  std::uint8_t count = 0;   // of elements: which class it is of
  std::uint8_t number = 0;  // of the class
  std::uint32_t slots = 0;  // S of a ledger that the rank says it holds
  std::uint64_t call = 0;   // class call
  // What only its rank knows.
  std::uint32_t slot = 0, slot_count = 0, flags = 0;
  bool compared = false;  // with a sample
  bool has_ledger = false;
  bool zeroes = false;   // new entries are zeroed in front of it
  bool replica = false;  // the owner's slice is written

  [[nodiscard]] bool matches(const Operation& other) const {
    return kind == other.kind && count == other.count && number == other.number && call == other.call;
  }
};
[[nodiscard]] std::string text_of(const Operation& operation);

/// What a call said, on its way to the host of one rank.
struct SaidByCall {
  std::uint64_t call = 0;
  bool arrived = false;
  sdp4bit::CallWords words{};
};

/// A class on one rank.
struct RankClass {
  RankClass(std::uint8_t of_count, const sdp4bit::GatherLife& at_its_start)
      : count(of_count), life(at_its_start) {}

  std::uint8_t count;
  sdp4bit::GatherLife life;
  sdp4bit::LedgerStanding ledger;
  sdp4bit::SlotTable slots;
  bool needs_zeroing = false;
  std::vector<SaidByCall> said;   // from life.words_begin() on
  std::uint64_t records_end = 0;  // behind the last record
  std::uint8_t own_count = 0;     // for a mistake
};

struct Rank {
  enum class Status : std::uint8_t { runs, votes, failed, aborted, refused };

  Status status = Status::runs;
  // Facts for the handshake.
  sdp4bit::OwnAnswer answer;
  bool has_memory = true;     // a workspace could be had
  std::uint8_t version = 0;   // 1: another wire version
  std::uint8_t settings = 0;  // 1: another value of a variable that shapes the wire
  bool master = false;        // own shards are the program's only copy

  sdp4bit::CommClock clock;
  sdp4bit::Agreement agreement = sdp4bit::Agreement::pending;
  bool handshake_under_way = false, handshake_arrived = false;
  bool connected = false;
  sdp4bit::Carried carried;
  std::uint64_t resets_asked = 0;
  std::uint64_t groups_done = 0;
  std::vector<RankClass> classes;   // in the order they were made
  std::vector<Operation> issued;    // not executed yet
  std::vector<Operation> executed;  // ... whose words have not arrived yet
  std::vector<sdp4bit::CallWords> executed_words;
  std::vector<Operation> voted;  // waits for the votes of a group
  std::vector<bool> answers;     // of the votes that arrived: native

  /// Its program has an error in hand, and makes no further call.
  [[nodiscard]] bool is_over() const { return status > Status::votes; }
};

/// Who has which values in the entries of one class: equal numbers are equal values.
struct Entries {
  static constexpr std::uint8_t kNone = 0, kZeros = 1;
  std::uint8_t value[kMostRanks][kMostRanks][kMostSlots] = {};  // by holder, sender, slot
};

/// What a rank issued and decided in a group, for the ranks that come later.
struct GroupDone {
  std::uint64_t group = 0;
  std::uint8_t rank = 0;  // that came first
  std::vector<Operation> operations;
  std::vector<std::uint16_t> decisions;
};

struct World {
  std::uint32_t ranks = 2;
  std::uint32_t deviations = 0;  // left
  std::array<Rank, kMostRanks> rank;
  std::vector<std::uint8_t> program;  // groups chosen so far, from `first_group` on
  std::uint64_t first_group = 0;
  std::vector<GroupDone> done;
  std::array<Entries, kMostClasses> entries;
};

/// Of the rank that is furthest behind, among those that go on.
[[nodiscard]] std::uint64_t least_groups_done(const World& world);

/// An outcome that must not be.
struct Violation {
  std::string what;
};

}  // namespace agreement
