// Every way through a step: the step asks, and is run again until all answers were given.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace agreement {

class Choices {
 public:
  /// Before each run of the step.
  void rewind() { next_ = 0; }
  /// 0 to options - 1.
  std::uint32_t pick(std::uint32_t options) {
    if (options <= 1) return 0;
    if (next_ == taken_.size()) taken_.push_back({0, options});
    return taken_[next_++].answer;
  }
  /// 0, or another answer at the price of one of `left`.
  std::uint32_t deviate(std::uint32_t options, std::uint32_t& left) {
    const std::uint32_t answer = left == 0 ? 0 : pick(options);
    if (answer != 0) --left;
    return answer;
  }
  /// To the answers of the next run; false when all were given.
  [[nodiscard]] bool advance() {
    taken_.resize(next_);
    while (!taken_.empty() && ++taken_.back().answer == taken_.back().options) taken_.pop_back();
    return !taken_.empty();
  }

 private:
  struct Taken {
    std::uint32_t answer;
    std::uint32_t options;
  };
  std::vector<Taken> taken_;
  std::size_t next_ = 0;
};

}  // namespace agreement
