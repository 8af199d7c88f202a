// Which bytes of one allocation were ever written: a bit per byte, with a count per chunk so that written
// chunks and fully written allocations cost one comparison.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

namespace sandbox::ptx {

class WrittenMap {
 public:
  WrittenMap() = default;

  /// Starts tracking `bytes` bytes, none of them written.
  void track(std::size_t bytes);
  /// Ends tracking: everything counts as written.
  void forget();

  bool fully_written() const { return fully_written_.load(std::memory_order_relaxed); }
  bool is_written(std::size_t offset, std::size_t bytes) const {
    return fully_written() || search(offset, bytes);
  }
  void mark(std::size_t offset, std::size_t bytes) {
    if (!fully_written()) set(offset, bytes);
  }
  void clear(std::size_t offset, std::size_t bytes);
  /// The first byte of [offset, offset + bytes) that was never written; offset + bytes if there is none.
  std::size_t first_unwritten(std::size_t offset, std::size_t bytes) const {
    return find(offset, bytes, false);
  }
  /// The first byte of [offset, offset + bytes) that was written; offset + bytes if there is none.
  std::size_t first_written(std::size_t offset, std::size_t bytes) const { return find(offset, bytes, true); }

 private:
  static constexpr std::size_t kWordsPerChunk = 8;  // 64 bytes of memory a word, 512 a chunk
  using Word = std::atomic<std::uint64_t>;
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  bool search(std::size_t offset, std::size_t bytes) const;
  std::size_t find(std::size_t offset, std::size_t bytes, bool written) const;
  void set(std::size_t offset, std::size_t bytes);
  void set_bits(std::size_t word, std::uint64_t bits);
  void clear_bits(std::size_t word, std::uint64_t bits);
  void materialize();

  std::atomic<bool> fully_written_{true};
  std::atomic<bool> complete_bits_{false};  // false: fully_written_ was set without touching the bits
  std::size_t bytes_ = 0;
  std::size_t words_ = 0;
  std::size_t chunks_ = 0;
  std::atomic<std::size_t> full_chunks_{0};
  std::unique_ptr<Word[], Free> bits_;
  std::unique_ptr<std::atomic<std::uint8_t>[], Free> full_words_;  // per chunk
};

}  // namespace sandbox::ptx
