// The verdict on a disturbed job; see outcomes.h.
#include "outcomes.h"

#include <cstdio>

namespace sdp4bit::faults {
namespace {

bool has(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

std::string Outcomes::add(const std::string& kind, std::size_t who, const std::vector<RankEnd>& ranks) {
  const bool dies = kind == "kill" || kind == "exit";
  const std::string end_of_dead = kind == "kill" ? "ended by signal 9" : "ended with code 7";
  const bool died = dies && has(ranks[who].died, end_of_dead.c_str());
  std::string wrong;
  bool all_right = true;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    const RankEnd& end = ranks[rank];
    all_right = all_right && (end.died + end.error).empty();
    const bool as_planned = end.died.empty() || (died && rank == who);
    if (!as_planned || has(end.error, "WRONG") || (has(end.error, "LEAK") && !end.may_keep))
      wrong += "rank " + std::to_string(rank) + ": " + end.died + end.error + "\n" + end.log;
  }
  if (!died && !ranks[who].fired) return wrong;  // the call was not reached this time
  Count& count = by_kind_[kind];
  ++count.injected;
  ++injected_;
  ++(all_right ? count.right : count.errors);
  return wrong;
}

void Outcomes::print(const std::string& name, std::size_t settings) const {
  std::string kinds;
  for (const auto& [kind, count] : by_kind_) {
    char text[160];
    std::snprintf(text, sizeof text,
                  R"(%s"%s": {"injected": %d, "finished_right": %d, "ended_with_errors": %d})",
                  kinds.empty() ? "" : ", ", kind.c_str(), count.injected, count.right, count.errors);
    kinds += text;
  }
  std::printf("{\"faults\": \"%s\", \"settings\": %zu, \"injected\": %d, \"by_kind\": {%s}}\n", name.c_str(),
              settings, injected_, kinds.c_str());
  std::fflush(stdout);
}

}  // namespace sdp4bit::faults
