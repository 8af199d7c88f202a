// Words of calls; see call_words.h.
#include "plugin/call_words.h"

#include "plugin/agreed_words.h"
#include "plugin/error.h"

namespace sdp4bit {
namespace {

bool is_written(const CallWords& words, std::uint64_t call) {
  return __atomic_load_n(&words.number, __ATOMIC_ACQUIRE) == call + 1;
}

}  // namespace

CallWords* WordsPool::take() {
  constexpr std::size_t kBlockOfWords = 64;
  if (free_.empty()) {
    blocks_.emplace_back(kBlockOfWords * sizeof(CallWords));
    for (std::size_t i = kBlockOfWords; i-- > 0;) free_.push_back(blocks_.back().as<CallWords>() + i);
  }
  CallWords* const words = free_.back();
  free_.pop_back();
  *words = {};
  return words;
}

std::uint64_t WordsPool::bytes() const {
  std::uint64_t bytes = 0;
  for (const PinnedBuffer& block : blocks_) bytes += block.bytes();
  return bytes;
}

CallWords* CallQueue::add(std::uint64_t call) {
  reuse_skipped();
  if (!entries_.empty() && entries_.back().call + 1 != call) {
    throw Error(ncclInternalError, "calls of a weight class are not numbered one by one");
  }
  entries_.push_back({call, pool_.take()});
  return entries_.back().words;
}

void CallQueue::skip_to(std::uint64_t call) {
  while (!entries_.empty() && entries_.front().call < call) {
    skipped_.push_back(entries_.front());
    entries_.pop_front();
  }
  reuse_skipped();
}

const CallQueue::Entry& CallQueue::entry(std::uint64_t call) const {
  if (entries_.empty() || call < entries_.front().call || call > entries_.back().call) {
    throw Error(ncclInternalError, "no words are kept for a call of a weight class");
  }
  return entries_[call - entries_.front().call];
}

bool CallQueue::arrived(std::uint64_t call) const {
  return is_written(*entry(call).words, call);
}

AgreedWords CallQueue::read(std::uint64_t call) const {
  return agreed_words(*entry(call).words);
}

void CallQueue::reuse_skipped() {
  while (!skipped_.empty() && is_written(*skipped_.front().words, skipped_.front().call)) {
    pool_.give_back(skipped_.front().words);
    skipped_.pop_front();
  }
}

}  // namespace sdp4bit
