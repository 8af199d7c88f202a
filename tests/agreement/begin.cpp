// How a life begins: the facts of the ranks.
#include "plugin/handshake.h"
#include "rank.h"

namespace agreement {
namespace {

using namespace sdp4bit;

constexpr std::uint32_t kHints[] = {
    0, HandshakeRecord::hinted, HandshakeRecord::hinted | HandshakeRecord::hint_gradients,
    HandshakeRecord::hinted | HandshakeRecord::hint_gradients | HandshakeRecord::hint_weights};

void choose_settings(Rank& rank, World& world, Choices& choices) {
  const auto other = [&](std::uint32_t options) { return choices.deviate(options, world.deviations); };
  rank.answer.enabled = other(2) == 0;
  rank.answer.selected = other(2) == 0;
  rank.answer.blocking = other(2) == 0;
  rank.answer.abort_on_mismatch = other(2) != 0;
  rank.answer.hint = kHints[other(4)];
  rank.has_memory = other(2) == 0;
  rank.version = static_cast<std::uint8_t>(other(2));
  rank.settings = static_cast<std::uint8_t>(other(2));
}

}  // namespace

World begin_world(const Setting& setting, std::uint32_t ranks, Choices& choices) {
  const Scenario& scenario = setting.scenario;
  World world;
  world.ranks = ranks;
  world.deviations = (setting.quick ? scenario.quick_deviations : scenario.deviations)[ranks - 2];
  for (std::uint32_t r = 0; r < ranks; ++r) {
    Rank& rank = world.rank[r];
    if (scenario.settings) choose_settings(rank, world, choices);
    if (scenario.verdicts) rank.master = choices.pick(2) != 0;
    if (!scenario.agreed) continue;
    rank.agreement = Agreement::on;
    rank.connected = true;
    (void)rank.clock.launches_first();
  }
  return world;
}

void tell_start(const World& world, const Setting& setting) {
  for (std::uint32_t r = 0; r < world.ranks; ++r) {
    const Rank& rank = world.rank[r];
    std::string text = "rank " + std::to_string(r) + " begins";
    const auto say = [&](bool differs, const char* what) {
      if (differs) text += std::string(", ") + what;
    };
    say(!rank.answer.enabled, "switched off");
    say(!rank.answer.selected, "not selected");
    say(!rank.answer.blocking, "not blocking");
    say(rank.answer.abort_on_mismatch, "aborts on a mismatch");
    say(rank.answer.hint != 0, "with a hint");
    say(!rank.has_memory, "without memory for a workspace");
    say(rank.version != 0, "with another version");
    say(rank.settings != 0, "with another setting");
    say(rank.master, "with master copies in its own shards");
    setting.tell(text);
  }
}

}  // namespace agreement
