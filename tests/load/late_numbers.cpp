// Where counters begin in the library of this test: near the end of 32 bits.
#include <cstdlib>

#include "plugin/first_number.h"

namespace sdp4bit {

std::uint64_t first_number() noexcept {
  static const std::uint64_t number = [] {
    const char* const text = std::getenv("TEST_FIRST_NUMBER");
    return text ? std::strtoull(text, nullptr, 10) : 0;
  }();
  return number;
}

}  // namespace sdp4bit
