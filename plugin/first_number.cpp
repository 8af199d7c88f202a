// The first number is zero; the definition is weak, so that the library of a test can be linked with another.
#include "plugin/first_number.h"

namespace sdp4bit {

__attribute__((weak)) std::uint64_t first_number() noexcept {
  return 0;
}

}  // namespace sdp4bit
