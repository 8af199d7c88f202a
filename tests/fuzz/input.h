// How a fuzz target takes its bytes apart: numbers, texts, and whatever is left.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace sdp4bit::fuzz {

/// A promise of the code under test; libFuzzer keeps the input of a process that aborts.
inline void require(bool holds, const char* promise) {
  if (holds) return;
  std::fprintf(stderr, "broken promise: %s\n", promise);
  std::abort();
}

class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  [[nodiscard]] bool empty() const { return size_ == 0; }

  /// Zeros where the bytes have run out.
  template <typename T>
  T take() {
    T value{};
    const std::size_t bytes = std::min(size_, sizeof value);
    std::memcpy(&value, data_, bytes);
    skip(bytes);
    return value;
  }
  /// Up to a zero byte or the end.
  std::string take_text() {
    const std::uint8_t* const end = std::find(data_, data_ + size_, std::uint8_t{0});
    std::string text(data_, end);
    skip(std::min(size_, text.size() + 1));
    return text;
  }

 private:
  void skip(std::size_t bytes) {
    data_ += bytes;
    size_ -= bytes;
  }
  const std::uint8_t* data_;
  std::size_t size_;
};

}  // namespace sdp4bit::fuzz
