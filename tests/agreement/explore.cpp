// Levels of states; each knows the state it came from and which of its successors it is, so that the way can
// be walked again.
#include "explore.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <optional>
#include <unordered_set>

#include "canonical.h"
#include "network.h"

namespace agreement {
namespace {

struct HashOfFingerprint {
  std::size_t operator()(const Fingerprint& print) const { return static_cast<std::size_t>(print.low); }
};

/// Who makes the next step.
struct Actor {
  enum class Kind : std::uint8_t { host, device, arrival, abort } kind = Kind::host;
  std::uint32_t rank = 0;
};

bool take_step(World& world, const Actor& actor, const Setting& setting, Choices& choices) {
  Rank& rank = world.rank[actor.rank];
  switch (actor.kind) {
    case Actor::Kind::host:
      return step_host(world, actor.rank, setting, choices);
    case Actor::Kind::device:
      run_operation(world, setting, choices);
      return true;
    case Actor::Kind::arrival:
      deliver(rank, rank.executed.front(), rank.executed_words.front());
      setting.tell("rank " + std::to_string(actor.rank) + " hears of " + text_of(rank.executed.front()));
      rank.executed.erase(rank.executed.begin());
      rank.executed_words.erase(rank.executed_words.begin());
      return true;
    case Actor::Kind::abort:
      // Its operations end with nothing received; what they leave behind is an error's.
      rank.status = Rank::Status::aborted;
      rank.issued.clear();
      rank.executed.clear();
      rank.executed_words.clear();
      rank.voted.clear();
      rank.answers.clear();
      setting.tell("rank " + std::to_string(actor.rank) + " aborts the communicator");
      return true;
  }
  return false;
}

/// Its program has come to its end.
bool has_ended(const Rank& rank, const Setting& setting) {
  const std::uint32_t groups = setting.groups();
  return groups != 0 && rank.groups_done >= groups;
}

/// In one order only the first that can is asked: the device, else the rank that is furthest behind.
std::vector<Actor> actors_of(const World& world, const Setting& setting) {
  const Scenario& scenario = setting.scenario;
  std::vector<Actor> actors;
  if (can_run(world)) actors.push_back({.kind = Actor::Kind::device});
  const std::uint64_t least = least_groups_done(world);
  bool any_failed = false;
  for (std::uint32_t r = 0; r < world.ranks; ++r) {
    const Rank& rank = world.rank[r];
    any_failed |= rank.status == Rank::Status::failed || rank.status == Rank::Status::aborted;
    if (scenario.orders && !rank.is_over() && !rank.executed.empty())
      actors.push_back({.kind = Actor::Kind::arrival, .rank = r});
  }
  for (std::uint32_t r = 0; r < world.ranks; ++r) {
    const Rank& rank = world.rank[r];
    const std::uint64_t ahead = scenario.orders ? scenario.ahead : 0;
    const bool waits = scenario.orders && rank.issued.size() >= scenario.queue;
    if (!rank.is_over() && !waits && rank.groups_done <= least + ahead && !has_ended(rank, setting))
      actors.push_back({.kind = Actor::Kind::host, .rank = r});
  }
  // After a failure the program aborts everywhere, sooner or later.
  for (std::uint32_t r = 0; any_failed && r < world.ranks; ++r) {
    if (!world.rank[r].is_over() || world.rank[r].status == Rank::Status::failed)
      actors.push_back({.kind = Actor::Kind::abort, .rank = r});
  }
  return actors;
}

/// Sees all successors of a state, in the same order every time. `see` is given each world, and says whether
/// to go on; Violations leave through here.
template <typename See>
void successors(const World& world, const Setting& setting, const See& see) {
  bool any = false;
  for (const Actor& actor : actors_of(world, setting)) {
    Choices choices;
    do {
      choices.rewind();
      World next = world;
      if (!take_step(next, actor, setting, choices)) continue;
      any = true;
      if (!see(std::move(next))) return;
    } while (choices.advance());
    if (any && !setting.scenario.orders && actor.kind != Actor::Kind::abort) return;
  }
  if (any) return;
  for (std::uint32_t r = 0; r < world.ranks; ++r) {
    if (!world.rank[r].is_over() && !has_ended(world.rank[r], setting))
      throw Violation{"ranks wait for each other: rank " + std::to_string(r) + " cannot go on"};
  }
}

class Explorer {
 public:
  Explorer(const Setting& setting, std::uint32_t ranks, const Bounds& bounds)
      : setting_(setting), ranks_(ranks), bounds_(bounds) {}

  [[nodiscard]] Exploration run();

 private:
  struct Reached {
    std::uint32_t from;
    std::uint32_t which;  // successor of it
  };
  struct Open {
    World world;
    std::uint32_t place;
  };
  static constexpr std::uint32_t kStart = ~0u;

  void begin();
  void note(World world, std::uint32_t from, std::uint32_t which);
  void go_on(const Open& open);
  void fail(const Violation& violation, std::uint32_t place, std::uint32_t which);
  void show_progress();

  const Setting& setting_;
  const std::uint32_t ranks_;
  const Bounds& bounds_;
  std::unordered_set<Fingerprint, HashOfFingerprint> known_;
  std::vector<Reached> reached_;
  std::vector<Open> level_, next_;
  Exploration result_;
  std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now(), shown_ = started_;
};

void Explorer::note(World world, std::uint32_t from, std::uint32_t which) {
  if (!known_.insert(fingerprint(world, setting_.groups() != 0)).second) return;
  reached_.push_back({from, which});
  next_.push_back({std::move(world), static_cast<std::uint32_t>(reached_.size() - 1)});
}

template <typename See>
void starts(const Setting& setting, std::uint32_t ranks, const See& see) {
  Choices choices;
  do {
    choices.rewind();
    if (!see(begin_world(setting, ranks, choices))) return;
  } while (choices.advance());
}

void Explorer::begin() {
  std::uint32_t which = 0;
  starts(setting_, ranks_, [&](World world) {
    note(std::move(world), kStart, which++);
    return true;
  });
}

void Explorer::go_on(const Open& open) {
  std::uint32_t which = 0;
  try {
    successors(open.world, setting_, [&](World world) {
      ++result_.transitions;
      note(std::move(world), open.place, which++);
      return true;
    });
  } catch (const Violation& violation) {
    fail(violation, open.place, which);
  }
}

/// Walks the way again, and lets each step say what it does.
void Explorer::fail(const Violation& violation, std::uint32_t place, std::uint32_t which) {
  result_.violation = violation.what;
  std::vector<std::uint32_t> way{which};
  for (; reached_[place].from != kStart; place = reached_[place].from) way.push_back(reached_[place].which);
  std::reverse(way.begin(), way.end());

  Setting telling = setting_;
  telling.told = &result_.trace;
  std::optional<World> world;
  std::uint32_t start = 0;
  starts(setting_, ranks_, [&](World one) {
    if (start++ != reached_[place].which) return true;
    world = std::move(one);
    return false;
  });
  tell_start(*world, telling);
  for (const std::uint32_t step : way) {
    std::uint32_t seen = 0;
    std::optional<World> found;
    std::vector<std::string> told;
    telling.told = &told;
    try {
      successors(*world, telling, [&](World next) {
        if (seen++ == step) {
          found = std::move(next);
          return false;
        }
        told.clear();
        return true;
      });
    } catch (const Violation&) {
      // The last step: what it said before is the end of the trace.
    }
    result_.trace.insert(result_.trace.end(), told.begin(), told.end());
    if (!found) return;
    world = std::move(found);
  }
}

void Explorer::show_progress() {
  const auto now = std::chrono::steady_clock::now();
  if (!bounds_.progress || now - shown_ < std::chrono::seconds(5)) return;
  shown_ = now;
  std::fprintf(stderr, "%.*s, %u ranks: %zu states, %llu transitions, depth %u, %zu open\n",
               static_cast<int>(setting_.scenario.name.size()), setting_.scenario.name.data(), ranks_,
               known_.size(), static_cast<unsigned long long>(result_.transitions), result_.depth,
               next_.size() + level_.size());
}

Exploration Explorer::run() {
  begin();
  const std::uint32_t most_depth = setting_.scenario.most_depth;
  while (!next_.empty() && result_.violation.empty()) {
    if (most_depth != 0 && result_.depth == most_depth) break;
    if (bounds_.most_states != 0 && known_.size() > bounds_.most_states) break;
    std::swap(level_, next_);
    next_.clear();
    ++result_.depth;
    for (Open& open : level_) {
      go_on(open);
      open.world = {};
      if (!result_.violation.empty()) break;
      if (result_.transitions % 256 == 0) show_progress();
    }
    level_.clear();
  }
  result_.complete =
      result_.violation.empty() && (next_.empty() || (most_depth != 0 && result_.depth == most_depth));
  result_.states = known_.size();
  result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  return std::move(result_);
}

}  // namespace

Exploration explore(const Setting& setting, std::uint32_t ranks, const Bounds& bounds) {
  return Explorer(setting, ranks, bounds).run();
}

}  // namespace agreement
