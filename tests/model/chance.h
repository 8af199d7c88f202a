// Random choices from a seed.
#pragma once

#include <cstdint>
#include <initializer_list>

#include "values.h"

namespace sdp4bit::model {

class Chance {
 public:
  explicit Chance(std::uint64_t seed) : state_(mix(seed, 4242)) {}

  std::uint64_t next() { return state_ = mix(state_, 99); }
  int below(int bound) { return static_cast<int>(next() % static_cast<std::uint64_t>(bound)); }
  bool chance(int percent) { return below(100) < percent; }
  template <typename T>
  T pick(std::initializer_list<T> choices) {
    return *(choices.begin() + below(static_cast<int>(choices.size())));
  }
  /// For choices that leave those to come as they were.
  [[nodiscard]] Chance aside() const { return Chance(state_); }

 private:
  std::uint64_t state_;
};

}  // namespace sdp4bit::model
