// What became of disturbed jobs, counted; one JSON line for a page that reports them.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace sdp4bit::faults {

/// How a rank ended.
struct RankEnd {
  std::string died;   // "" if its function returned
  std::string error;  // "" if every result was right
  std::string log;
  bool fired = false;     // what was planned for it has happened; not known of one that died
  bool may_keep = false;  // memory: a call that should free it was the one that failed
};

class Outcomes {
 public:
  /// `who` is the disturbed rank. "" or what is wrong: a rank that hung, crashed, kept memory, or got a wrong
  /// result in silence.
  std::string add(const std::string& kind, std::size_t who, const std::vector<RankEnd>& ranks);
  /// Prints {"faults": ..., ...} to stdout; `settings` is how many the jobs ran under.
  void print(const std::string& name, std::size_t settings) const;
  [[nodiscard]] int injected() const { return injected_; }

 private:
  struct Count {
    int injected = 0, right = 0, errors = 0;
  };
  std::map<std::string, Count> by_kind_;
  int injected_ = 0;
};

}  // namespace sdp4bit::faults
