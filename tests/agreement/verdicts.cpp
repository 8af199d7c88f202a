// Records of facts, remembered: a verdict takes strings, and the same facts come again in many states.
#include "verdicts.h"

#include <map>
#include <vector>

#include "plugin/topology.h"

namespace agreement {
namespace {

using namespace sdp4bit;

/// The facts of a rank as a number.
std::uint64_t facts_of(const Rank& rank, bool all_held) {
  const std::uint32_t bits = answer_bits(rank.answer, rank.has_memory || all_held);
  return std::uint64_t{bits} << 2 | std::uint64_t{rank.settings} << 1 | rank.version;
}

std::uint64_t key_of(const World& world, std::uint32_t rank, bool all_held) {
  std::uint64_t key = rank;
  for (std::uint32_t r = 0; r < world.ranks; ++r) key = key << 14 | facts_of(world.rank[r], all_held);
  return key;
}

}  // namespace

const Config& config_of(const Rank& rank) {
  static const Config usual = [] {
    Config config;
    config.comms.automatic = true;
    return config;
  }();
  static const Config other = [] {
    Config config = usual;
    config.weight_refresh = usual.weight_refresh + 1;
    return config;
  }();
  static const Config disabled = [] {
    Config config = usual;
    config.enable = false;
    return config;
  }();
  return !rank.answer.enabled ? disabled : rank.settings != 0 ? other : usual;
}

ShortVerdict verdict_of(const World& world, std::uint32_t rank, bool all_held) {
  static std::map<std::uint64_t, ShortVerdict> known;
  const auto [found, is_new] = known.try_emplace(key_of(world, rank, all_held));
  if (!is_new) return found->second;
  std::vector<HandshakeRecord> records;
  std::vector<std::uint64_t> hosts;
  for (std::uint32_t r = 0; r < world.ranks; ++r) {
    const Rank& one = world.rank[r];
    HandshakeRecord record =
        make_record(config_of(one), answer_bits(one.answer, one.has_memory || all_held), r);
    record.wire_version = static_cast<std::uint16_t>(record.wire_version + one.version);
    records.push_back(record);
    hosts.push_back(r + 1);
  }
  const Config& own = config_of(world.rank[rank]);
  const Verdict verdict = judge(records, make_topology(hosts, rank, own.local_size), own);
  found->second = {verdict.agreement, verdict.abort, verdict.carried};
  return found->second;
}

}  // namespace agreement
