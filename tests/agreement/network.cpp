// Headers, the words that the kernels' definition makes of them, and whose entries hold what.
#include "network.h"

#include <algorithm>
#include <bit>

#include "kernels/reference_weight.h"
#include "kernels/weight_header.h"

namespace agreement {
namespace {

using namespace sdp4bit;
using Kind = Operation::Kind;

enum class Size : std::uint8_t { small, middle, jump };
enum class Verdict : std::uint8_t { none, replica, master };

WeightChunk chunk_of(const Operation& operation) {
  return {.shard = 1,
          .count = 1,
          .class_number = operation.number,
          .class_call = operation.call,
          .slots = operation.slots};
}

GroupMaxima maxima_of(Size size) {
  const float difference = size == Size::small ? 1.0f : size == Size::middle ? 2.0f : 5.0f;
  return {std::bit_cast<std::uint32_t>(difference), std::bit_cast<std::uint32_t>(16.0f)};
}

/// One operation of all ranks.
class Execution {
 public:
  Execution(World& world, const Setting& setting, Choices& choices)
      : world_(world), setting_(setting), choices_(choices) {}

  void run();

 private:
  [[nodiscard]] Size choose_size();
  void write_records(bool chooses);
  void run_record();
  void run_vote();
  void run_voted_native();
  void run_difference();
  void set_entries();
  void add_differences();
  void renumber(Entries& entries, std::uint32_t sender, std::uint32_t slot) const;
  /// What the ranks in `mask` say together.
  [[nodiscard]] CallWords said_by(std::uint32_t rank, bool alone) const;
  [[nodiscard]] Entries& entries() { return world_.entries.at(operations_[0].number); }
  [[nodiscard]] bool decides_alone() const { return setting_.mistake == Mistake::decides_by_own_record; }

  World& world_;
  const Setting& setting_;
  Choices& choices_;
  std::array<Operation, kMostRanks> operations_;
  std::array<MessageHeader, kMostRanks> headers_;
  std::array<CallWords, kMostRanks> words_{};
  std::string text_;
};

Size Execution::choose_size() {
  if (!setting_.scenario.sizes) return Size::small;
  const std::uint32_t size =
      setting_.scenario.endless ? choices_.pick(3) : choices_.deviate(3, world_.deviations);
  if (setting_.told) text_ += size == 0 ? " small" : size == 1 ? " middle" : " jump";
  return static_cast<Size>(size);
}

/// The records of all ranks, as their kernels write them.
void Execution::write_records(bool chooses) {
  for (std::uint32_t r = 0; r < world_.ranks; ++r) {
    const Operation& own = operations_[r];
    const bool compares = own.compared || own.kind == Kind::vote;
    const GroupMaxima maxima = maxima_of(chooses && compares ? choose_size() : Size::small);
    reference::write_record({.chunk = chunk_of(own),
                             .maxima = compares ? &maxima : nullptr,
                             .maxima_count = 1,
                             .flags = own.flags,
                             .slot = own.slot,
                             .slot_count = own.slot_count,
                             .sender = r,
                             .record = reinterpret_cast<std::byte*>(&headers_[r])});
  }
  for (std::uint32_t r = 0; r < world_.ranks; ++r) {
    std::uint32_t all_ready = 0, error = 0;
    reference::set_entries({.chunk = chunk_of(operations_[r]),
                            .records = reinterpret_cast<const std::byte*>(headers_.data()),
                            .ranks = world_.ranks,
                            .all_ready = &all_ready,
                            .words = &words_[r],
                            .error = &error});
    if (error != 0) throw Violation{"rank " + std::to_string(r) + " receives a record that cannot be"};
  }
}

CallWords Execution::said_by(std::uint32_t rank, bool alone) const {
  CallWords words{};
  PublishArgs args{.tables = {}, .class_call = operations_[rank].call, .words = &words};
  args.tables[0] = {.data = reinterpret_cast<const std::byte*>(&headers_[alone ? rank : 0]),
                    .row_stride = sizeof(MessageHeader),
                    .rows = alone ? 1 : world_.ranks};
  reference::publish_words(args);
  return words;
}

void Execution::run_record() {
  write_records(true);
  for (std::uint32_t r = 0; r < world_.ranks; ++r) {
    if (operations_[r].zeroes) {
      auto& held = entries().value[r];
      std::fill_n(&held[0][0], kMostRanks * kMostSlots, Entries::kZeros);
    }
  }
  set_entries();
  if (!decides_alone()) return;
  for (std::uint32_t r = 0; r < world_.ranks; ++r) words_[r] = said_by(r, true);
}

/// Where all are ready, what was gathered becomes the entries that the records name.
void Execution::set_entries() {
  for (std::uint32_t holder = 0; holder < world_.ranks; ++holder) {
    const Operation& own = operations_[holder];
    const bool all_ready = (words_[holder].all_flags & kReady) != 0;
    const bool leaves =
        setting_.mistake == Mistake::entries_set_at_known_addresses && (own.flags & kSeen) == 0;
    if (!all_ready || leaves) continue;
    if (!own.has_ledger)
      throw Violation{"rank " + std::to_string(holder) + " says that it holds a ledger, and has none"};
    for (std::uint32_t sender = 0; sender < world_.ranks; ++sender) {
      const bool mixes_up = setting_.mistake == Mistake::senders_slot_taken_for_own;
      const std::uint32_t slot = mixes_up ? own.slot : headers_[sender].slot;
      entries().value[holder][sender][slot] = 0xff;  // newer than all
    }
  }
  for (std::uint32_t sender = 0; sender < world_.ranks; ++sender) {
    for (std::uint32_t slot = 0; slot < kMostSlots; ++slot) renumber(entries(), sender, slot);
  }
}

/// Equal values get equal numbers, from the first holder on; nothing and zeros keep theirs.
void Execution::renumber(Entries& of, std::uint32_t sender, std::uint32_t slot) const {
  std::array<std::uint8_t, kMostRanks> before{};
  for (std::uint32_t holder = 0; holder < world_.ranks; ++holder)
    before[holder] = of.value[holder][sender][slot];
  std::uint8_t next = Entries::kZeros + 1;
  for (std::uint32_t holder = 0; holder < world_.ranks; ++holder) {
    if (before[holder] <= Entries::kZeros) continue;
    const auto same = std::find(before.begin(), before.begin() + holder, before[holder]) - before.begin();
    of.value[holder][sender][slot] = same < holder ? of.value[same][sender][slot] : next++;
  }
}

void Execution::run_vote() {
  write_records(true);
  if (setting_.mistake == Mistake::vote_by_own_jump)
    for (std::uint32_t r = 0; r < world_.ranks; ++r) words_[r] = said_by(r, true);
}

void Execution::run_voted_native() {
  write_records(false);
  for (std::uint32_t r = 0; r < world_.ranks; ++r) {
    words_[r].all_flags = kReady;
    words_[r].any_flags = kReady | kJump;
  }
  set_entries();
}

void Execution::run_difference() {
  for (std::uint32_t r = 0; r < world_.ranks; ++r) {
    const Operation& own = operations_[r];
    if (!own.has_ledger)
      throw Violation{"rank " + std::to_string(r) + " sends a difference without a ledger"};
    if (own.replica && world_.rank[r].master)
      throw Violation{"rank " + std::to_string(r) + " writes over the program's only copy of its shard"};
    const GroupMaxima maxima = maxima_of(setting_.scenario.votes ? Size::small : choose_size());
    // A probe of a master never reads as a replica, and the other way round; either may abstain.
    std::uint32_t verdict = 0;
    if (setting_.scenario.verdicts && choices_.pick(2) != 0)
      verdict = world_.rank[r].master ? kOwnMaster : kOwnReplica;
    if (setting_.told && verdict != 0) text_ += verdict == kOwnMaster ? " master" : " replica";
    WeightSums sums{};
    reference::seal_difference({.chunk = chunk_of(own),
                                .maxima = &maxima,
                                .sums = &sums,
                                .slot = own.slot,
                                .sender = r,
                                .flags = own.flags,
                                .own_flags = &verdict,
                                .message = reinterpret_cast<std::byte*>(&headers_[r])});
  }
  for (std::uint32_t r = 0; r < world_.ranks; ++r) {
    for (std::uint32_t sender = 0; sender < world_.ranks; ++sender) {
      if (!weight_header_is_valid(headers_[sender], MessageKind::weight_difference, chunk_of(operations_[r]),
                                  sender))
        throw Violation{"rank " + std::to_string(r) + " receives a header of rank " + std::to_string(sender) +
                        " that cannot be: slot " + std::to_string(headers_[sender].slot) + " of " +
                        std::to_string(operations_[r].slots)};
    }
  }
  add_differences();
  for (std::uint32_t r = 0; r < world_.ranks; ++r) {
    words_[r] = said_by(r, decides_alone());
    const CallWords own = said_by(r, true);
    if (setting_.mistake == Mistake::replica_by_own_verdict)
      words_[r].all_flags = (words_[r].all_flags & ~kOwnReplica) | (own.all_flags & kOwnReplica);
    if (setting_.mistake == Mistake::replica_of_any_rank)
      words_[r].all_flags |= words_[r].any_flags & kOwnReplica;
  }
}

/// All holders of an entry, the sender among them, must add to the same values.
void Execution::add_differences() {
  for (std::uint32_t sender = 0; sender < world_.ranks; ++sender) {
    const std::uint32_t slot = headers_[sender].slot;
    const std::uint8_t own = entries().value[sender][sender][slot];
    for (std::uint32_t holder = 0; holder < world_.ranks; ++holder) {
      if (entries().value[holder][sender][slot] == own && own != Entries::kNone) continue;
      throw Violation{"rank " + std::to_string(holder) + " adds a difference of rank " +
                      std::to_string(sender) + " to other values than the sender: slot " +
                      std::to_string(slot)};
    }
    for (std::uint32_t holder = 0; holder < world_.ranks; ++holder)
      entries().value[holder][sender][slot] = 0xff;
    renumber(entries(), sender, slot);
  }
}

void Execution::run() {
  for (std::uint32_t r = 0; r < world_.ranks; ++r) {
    std::vector<Operation>& issued = world_.rank[r].issued;
    operations_[r] = issued.front();
    issued.erase(issued.begin());
    // Slots of records may differ: some rank may hold nothing.
    const bool fits = operations_[0].kind != Kind::difference || operations_[r].slots == operations_[0].slots;
    if (fits && operations_[r].matches(operations_[0])) continue;
    throw Violation{"ranks meet in different operations: rank 0 in " + text_of(operations_[0]) + ", rank " +
                    std::to_string(r) + " in " + text_of(operations_[r])};
  }
  const struct Telling {
    Execution& of;
    ~Telling() {
      of.setting_.tell("runs " + text_of(of.operations_[0]) + (of.text_.empty() ? "" : ":") + of.text_);
    }
  } telling{*this};
  switch (operations_[0].kind) {
    case Kind::record:
      run_record();
      break;
    case Kind::vote:
      run_vote();
      break;
    case Kind::voted_native:
      run_voted_native();
      break;
    case Kind::difference:
      run_difference();
      break;
    default:
      break;
  }
  for (std::uint32_t r = 0; r < world_.ranks; ++r) {
    Rank& rank = world_.rank[r];
    if (rank.is_over()) continue;
    if (!setting_.scenario.orders) {
      deliver(rank, operations_[r], words_[r]);
    } else if (says_something(operations_[r])) {
      rank.executed.push_back(operations_[r]);
      rank.executed_words.push_back(words_[r]);
    }
  }
}

}  // namespace

bool says_something(const Operation& operation) {
  switch (operation.kind) {
    case Kind::handshake:
    case Kind::vote:
    case Kind::record:
    case Kind::difference:
    case Kind::voted_native:
      return true;
    default:
      return false;
  }
}

bool can_run(const World& world) {
  for (std::uint32_t r = 0; r < world.ranks; ++r) {
    if (world.rank[r].issued.empty()) return false;
  }
  return true;
}

void run_operation(World& world, const Setting& setting, Choices& choices) {
  Execution(world, setting, choices).run();
}

std::string text_of(const Operation& operation) {
  static constexpr std::array kNames{
      "native AllGather", "native ReduceScatter", "handshake", "connecting", "record", "vote",
      "difference",       "voted native",         "direct",    "gradient"};
  std::string text = kNames.at(static_cast<std::size_t>(operation.kind));
  if (!says_something(operation) || operation.kind == Kind::handshake) return "[" + text + "]";
  return "[" + text + " of class " + std::to_string(operation.number) + ", call " +
         std::to_string(operation.call) + "]";
}

}  // namespace agreement
