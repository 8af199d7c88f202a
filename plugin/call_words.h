// What earlier calls said, on its way from the device: words in pinned memory, handed out call by call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/launch_weight.h"
#include "plugin/cuda_raii.h"
#include "plugin/ring.h"
#include "plugin/weight_class.h"

namespace sdp4bit {

/// Words of all classes of a communicator. Memory grows with the most calls under way and is kept.
class WordsPool {
 public:
  /// Zeroed.
  [[nodiscard]] CallWords* take();
  /// Only words whose number was written: no kernel touches them any more.
  void give_back(CallWords* words) { free_.push_back(words); }
  [[nodiscard]] std::uint64_t bytes() const;

 private:
  std::vector<PinnedBuffer> blocks_;
  std::vector<CallWords*> free_;
};

/// Words of one class, in call order.
class CallQueue {
 public:
  explicit CallQueue(WordsPool& pool) : pool_(pool) {}

  /// Words for the next call of the class.
  [[nodiscard]] CallWords* add(std::uint64_t call);
  /// Calls before `call` will not be asked for.
  void skip_to(std::uint64_t call);
  [[nodiscard]] bool arrived(std::uint64_t call) const;
  /// Words of an arrived call.
  [[nodiscard]] AgreedWords read(std::uint64_t call) const;

 private:
  struct Entry {
    std::uint64_t call = 0;
    CallWords* words = nullptr;
  };
  [[nodiscard]] const Entry& entry(std::uint64_t call) const;
  void reuse_skipped();

  WordsPool& pool_;
  Ring<Entry> entries_;  // neighbours in call number
  Ring<Entry> skipped_;  // possibly still under way
};

}  // namespace sdp4bit
