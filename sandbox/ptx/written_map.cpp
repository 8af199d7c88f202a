// The bit per byte behind reads of memory that was never written.
#include "sandbox/ptx/written_map.h"

#include <algorithm>
#include <bit>
#include <new>

namespace sandbox::ptx {
namespace {

constexpr std::uint64_t kAll = ~std::uint64_t{0};

std::uint64_t bits_between(std::size_t first, std::size_t last) {  // [first, last) of one word
  const std::uint64_t upper = last == 64 ? kAll : (std::uint64_t{1} << last) - 1;
  return upper & ~((std::uint64_t{1} << first) - 1);
}

/// Calls visit(word, bits) for each word that [offset, offset + bytes) touches, until it returns false.
template <class Visit>
bool for_each_word(std::size_t offset, std::size_t bytes, Visit visit) {
  const std::size_t end = offset + bytes;
  while (offset < end) {
    const std::size_t word = offset / 64;
    const std::size_t stop = std::min(end, (word + 1) * 64);
    if (!visit(word, bits_between(offset % 64, stop - word * 64))) return false;
    offset = stop;
  }
  return true;
}

}  // namespace

void WrittenMap::track(std::size_t bytes) {
  bytes_ = bytes;
  words_ = (bytes + 63) / 64;
  chunks_ = (words_ + kWordsPerChunk - 1) / kWordsPerChunk;
  // calloc: large maps are committed by the system only where they are touched.
  bits_.reset(static_cast<Word*>(std::calloc(chunks_ * kWordsPerChunk, sizeof(Word))));
  full_words_.reset(static_cast<std::atomic<std::uint8_t>*>(std::calloc(chunks_, 1)));
  if (!bits_ || !full_words_) throw std::bad_alloc();
  full_chunks_ = 0;
  complete_bits_ = true;
  fully_written_ = false;
  // Bytes behind the end count as written, so that the last word and chunk can become full.
  if (bytes % 64 != 0) set_bits(words_ - 1, bits_between(bytes % 64, 64));
  for (std::size_t word = words_; word < chunks_ * kWordsPerChunk; ++word) set_bits(word, kAll);
}

void WrittenMap::forget() {
  fully_written_ = true;
  complete_bits_ = false;
  bits_.reset();
  full_words_.reset();
  bytes_ = 0;
}

void WrittenMap::set_bits(std::size_t word, std::uint64_t bits) {
  Word& target = bits_[word];
  if ((target.load(std::memory_order_relaxed) & bits) == bits) return;
  const std::uint64_t before = target.fetch_or(bits, std::memory_order_relaxed);
  // Exactly one writer sees the step to "all ones".
  if (before == kAll || (before | bits) != kAll) return;
  if (full_words_[word / kWordsPerChunk].fetch_add(1, std::memory_order_relaxed) + 1 != kWordsPerChunk)
    return;
  if (full_chunks_.fetch_add(1, std::memory_order_relaxed) + 1 == chunks_) fully_written_ = true;
}

void WrittenMap::clear_bits(std::size_t word, std::uint64_t bits) {
  const std::uint64_t before = bits_[word].fetch_and(~bits, std::memory_order_relaxed);
  if (before != kAll || bits == 0) return;
  if (full_words_[word / kWordsPerChunk].fetch_sub(1, std::memory_order_relaxed) == kWordsPerChunk)
    full_chunks_.fetch_sub(1, std::memory_order_relaxed);
}

void WrittenMap::set(std::size_t offset, std::size_t bytes) {
  if (!bits_) return;
  if (offset == 0 && bytes >= bytes_) {
    complete_bits_ = false;
    fully_written_ = true;
    return;
  }
  for_each_word(offset, bytes, [&](std::size_t word, std::uint64_t bits) {
    set_bits(word, bits);
    return true;
  });
}

void WrittenMap::materialize() {
  for (std::size_t word = 0; word < chunks_ * kWordsPerChunk; ++word) bits_[word].store(kAll);
  for (std::size_t chunk = 0; chunk < chunks_; ++chunk) full_words_[chunk].store(kWordsPerChunk);
  full_chunks_ = chunks_;
  complete_bits_ = true;
}

void WrittenMap::clear(std::size_t offset, std::size_t bytes) {
  if (!bits_) return;
  if (fully_written() && !complete_bits_) materialize();
  for_each_word(offset, bytes, [&](std::size_t word, std::uint64_t bits) {
    clear_bits(word, bits);
    return true;
  });
  fully_written_ = full_chunks_ == chunks_;
}

bool WrittenMap::search(std::size_t offset, std::size_t bytes) const {
  if (!bits_) return true;
  const std::size_t end = offset + bytes;
  while (offset < end) {
    const std::size_t chunk = offset / (64 * kWordsPerChunk);
    const std::size_t stop = std::min(end, (chunk + 1) * 64 * kWordsPerChunk);
    if (full_words_[chunk].load(std::memory_order_relaxed) != kWordsPerChunk) {
      const bool all = for_each_word(offset, stop - offset, [&](std::size_t word, std::uint64_t bits) {
        return (bits_[word].load(std::memory_order_relaxed) & bits) == bits;
      });
      if (!all) return false;
    }
    offset = stop;
  }
  return true;
}

std::size_t WrittenMap::find(std::size_t offset, std::size_t bytes, bool written) const {
  std::size_t found = offset + bytes;
  if (!bits_ || fully_written()) return written ? offset : found;
  for_each_word(offset, bytes, [&](std::size_t word, std::uint64_t bits) {
    const std::uint64_t state = bits_[word].load(std::memory_order_relaxed);
    const std::uint64_t hits = (written ? state : ~state) & bits;
    if (hits == 0) return true;
    found = word * 64 + static_cast<std::size_t>(std::countr_zero(hits));
    return false;
  });
  return found;
}

}  // namespace sandbox::ptx
