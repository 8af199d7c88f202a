// What of a state matters for the future, word by word; see canonical.h.
#include "canonical.h"

#include <algorithm>

namespace agreement {
namespace {

using namespace sdp4bit;

std::uint64_t mix(std::uint64_t value) {
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93ull;
  value ^= value >> 32;
  value *= 0xd6e8feb86659fd93ull;
  return value ^ value >> 32;
}

class Summary {
 public:
  Summary(const World& world, bool ends) : world_(world), ends_(ends) {
    for (std::uint32_t number = 0; number < kMostClasses; ++number) {
      std::uint64_t& base = bases_[number] = ~std::uint64_t{0};
      for (std::uint32_t r = 0; r < world.ranks; ++r) {
        const auto& classes = world.rank[r].classes;
        if (number < classes.size()) base = std::min(base, classes[number].life.calls());
      }
    }
  }

  [[nodiscard]] Fingerprint take() {
    add(world_.deviations);
    if (ends_) add(world_.first_group);
    std::uint64_t program = world_.program.size();
    for (const std::uint8_t group : world_.program) program = program << 8 | group;
    add(program);
    for (std::uint32_t r = 0; r < world_.ranks; ++r) add(world_.rank[r]);
    for (const GroupDone& done : world_.done) {
      add((done.group - world_.first_group * 2) << 8 | done.rank);
      for (const Operation& operation : done.operations) add(operation);
      for (const std::uint16_t decision : done.decisions) add(decision);
    }
    for (std::uint32_t number = 0; number < kMostClasses; ++number) add_entries(number);
    return sum_;
  }

 private:
  void add(std::uint64_t word) {
    sum_.low = mix(sum_.low ^ word) + 0x9e3779b97f4a7c15ull;
    sum_.high = mix(sum_.high + word * 0xa0761d6478bd642full) ^ (sum_.high << 7 | sum_.high >> 57);
  }

  void add(const Operation& operation) {
    const std::uint64_t call = says_call(operation) ? operation.call - bases_[operation.number] : 0;
    add(static_cast<std::uint64_t>(operation.kind) | std::uint64_t{operation.count} << 4 |
        std::uint64_t{operation.number} << 8 | std::uint64_t{operation.slots} << 12 |
        std::uint64_t{operation.slot} << 16 | std::uint64_t{operation.slot_count} << 20 |
        std::uint64_t{operation.flags} << 24 | std::uint64_t{operation.compared} << 40 |
        std::uint64_t{operation.has_ledger} << 41 | std::uint64_t{operation.zeroes} << 42 |
        std::uint64_t{operation.replica} << 43);
    add(call);
  }
  static bool says_call(const Operation& operation) {
    switch (operation.kind) {
      case Operation::Kind::record:
      case Operation::Kind::vote:
      case Operation::Kind::difference:
      case Operation::Kind::voted_native:
        return true;
      default:
        return false;
    }
  }

  void add(const CallWords& words) {
    add(std::uint64_t{words.all_flags} << 32 | words.any_flags);
    add(words.max_slots);
  }

  void add(const Rank& rank) {
    const bool pending = rank.agreement == Agreement::pending;
    // Once it is read, nothing asks for the answers to the handshake, nor how many calls there were.
    const std::uint64_t facts =
        pending ? answer_bits(rank.answer, rank.has_memory) | std::uint64_t{rank.has_memory} << 12 |
                      std::uint64_t{rank.version} << 13 | std::uint64_t{rank.settings} << 14 |
                      std::min<std::uint64_t>(rank.clock.launched(), CommClock::kCallsBeforeReading) << 16
                : 0;
    add(static_cast<std::uint64_t>(rank.status) | static_cast<std::uint64_t>(rank.agreement) << 4 |
        std::uint64_t{rank.master} << 6 | std::uint64_t{rank.handshake_under_way} << 7 |
        std::uint64_t{rank.handshake_arrived} << 8 | std::uint64_t{rank.connected} << 9 |
        std::uint64_t{rank.carried.gradients} << 10 | std::uint64_t{rank.carried.weights} << 11 |
        std::uint64_t{rank.has_memory} << 12 |
        (rank.groups_done - std::min(rank.groups_done, world_.first_group)) << 16);
    add(facts);
    add(rank.classes.size() | rank.issued.size() << 8 | rank.executed.size() << 16 | rank.voted.size() << 24 |
        rank.answers.size() << 32);
    for (std::size_t number = 0; number < rank.classes.size(); ++number) add(rank, number);
    for (const Operation& operation : rank.issued) add(operation);
    for (const Operation& operation : rank.executed) add(operation);
    for (const CallWords& words : rank.executed_words) add(words);
    for (const Operation& operation : rank.voted) add(operation);
    for (const bool answer : rank.answers) add(std::uint64_t{answer});
  }

  void add(const Rank& rank, std::size_t number) {
    const RankClass& gathers = rank.classes[number];
    const GatherLife& life = gathers.life;
    for (const std::int64_t word : life.outlook()) add(static_cast<std::uint64_t>(word));
    add(std::uint64_t{gathers.count} | (life.calls() - bases_[number]) << 8 |
        std::uint64_t{life.wants_ledger()} << 40 | std::uint64_t{life.wants_reset(rank.resets_asked)} << 41 |
        std::uint64_t{gathers.ledger.slots()} << 42 | std::uint64_t{gathers.ledger.refused()} << 50 |
        std::uint64_t{gathers.needs_zeroing} << 51 | std::uint64_t{gathers.own_count} << 52);
    add_slots(gathers.slots);
    if (life.stage() == WeightStage::native) return;
    for (const SaidByCall& said : gathers.said) {
      add((said.call - bases_[number]) << 2 | std::uint64_t{said.call < gathers.records_end} << 1 |
          std::uint64_t{said.arrived});
      if (said.arrived) add(said.words);
    }
  }

  /// Addresses by slot, and the order in which they were used. Those that never come again are alike.
  void add_slots(const SlotTable& table) {
    constexpr std::uintptr_t kFresh = 16;
    const auto& slots = table.slots();
    add(slots.size());
    for (const SlotTable::Slot& slot : slots) {
      const auto older = std::count_if(slots.begin(), slots.end(), [&](const SlotTable::Slot& other) {
        return other.last_use < slot.last_use;
      });
      const auto address = std::min(reinterpret_cast<std::uintptr_t>(slot.address), kFresh);
      add(std::uint64_t{address} << 16 | static_cast<std::uint64_t>(older));
    }
  }

  void add_entries(std::uint32_t number) {
    // Where nobody holds a ledger, the next ones begin with zeros.
    const bool held = std::any_of(world_.rank.begin(), world_.rank.end(), [&](const Rank& rank) {
      const auto uses = [&](const Operation& operation) {
        return operation.number == number && operation.has_ledger;
      };
      return (number < rank.classes.size() && rank.classes[number].ledger.ready()) ||
             std::any_of(rank.issued.begin(), rank.issued.end(), uses);
    });
    if (!held) return;
    for (const auto& of_holder : world_.entries[number].value) {
      for (const auto& of_sender : of_holder) {
        std::uint64_t word = number + 1;
        for (const std::uint8_t value : of_sender) word = word << 8 | value;
        add(word);
      }
    }
  }

  const World& world_;
  const bool ends_;
  std::array<std::uint64_t, kMostClasses> bases_{};
  Fingerprint sum_{0x243f6a8885a308d3ull, 0x13198a2e03707344ull};
};

}  // namespace

Fingerprint fingerprint(const World& world, bool ends) {
  return Summary(world, ends).take();
}

}  // namespace agreement
