// The answers of sdp4bit.h's functions: no exception leaves them, for C programs cannot catch.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>

namespace sdp4bit {

/// What fails gives an empty text.
template <typename Make>
std::size_t give_text(char* buffer, std::size_t capacity, Make make) noexcept {
  try {
    const std::string text = make();
    if (capacity > 0) {
      const std::size_t length = std::min(text.size(), capacity - 1);
      std::memcpy(buffer, text.data(), length);
      buffer[length] = '\0';
    }
    return text.size();
  } catch (...) {
    if (capacity > 0) buffer[0] = '\0';
    return 0;
  }
}

template <typename Body>
int answer(Body body) noexcept {
  try {
    return body();
  } catch (...) {
    return -1;
  }
}

}  // namespace sdp4bit
