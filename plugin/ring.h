// A queue whose elements are found by place: grows by doubling, and allocates nothing once warm.
#pragma once

#include <cstddef>
#include <vector>

namespace sdp4bit {

template <typename T>
class Ring {
 public:
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }
  /// The element `place` behind the front; place < size().
  [[nodiscard]] const T& operator[](std::size_t place) const { return slots_[index(place)]; }
  [[nodiscard]] const T& front() const { return (*this)[0]; }
  [[nodiscard]] const T& back() const { return (*this)[size_ - 1]; }

  void push_back(const T& element) {
    if (size_ == slots_.size()) grow();
    slots_[index(size_)] = element;
    ++size_;
  }
  void pop_front() {
    first_ = index(1);
    --size_;
  }

 private:
  // The length is a power of two.
  [[nodiscard]] std::size_t index(std::size_t place) const { return (first_ + place) & (slots_.size() - 1); }

  void grow() {
    constexpr std::size_t kFirstLength = 16;
    std::vector<T> longer(slots_.empty() ? kFirstLength : 2 * slots_.size());
    for (std::size_t place = 0; place < size_; ++place) longer[place] = (*this)[place];
    slots_.swap(longer);
    first_ = 0;
  }

  std::vector<T> slots_;
  std::size_t first_ = 0;
  std::size_t size_ = 0;
};

}  // namespace sdp4bit
