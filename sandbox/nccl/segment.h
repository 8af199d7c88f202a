// The memory that all ranks of one communicator share: its layout, and this process's mapping of it.
//
// The segment is an anonymous file (memfd) of the process that made the unique id; the id names that process
// and its descriptor, and others open it through /proc. Nothing has a name in a file system, so nothing stays
// behind after a crash. A process maps a segment once, however many of its ranks use it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "sandbox/nccl/signature.h"

namespace sandbox::nccl {

// A small value that one side replaces while others may read it; a reader that meets a change reads again.
template <class T>
class Published {
 public:
  void store(const T& value) {
    uint64_t image[kWords] = {};
    __builtin_memcpy(image, &value, sizeof value);
    version_.fetch_add(1, std::memory_order_acq_rel);
    for (size_t i = 0; i < kWords; ++i) words_[i].store(image[i], std::memory_order_release);
    version_.fetch_add(1, std::memory_order_acq_rel);
  }
  [[nodiscard]] T load() const {
    uint64_t image[kWords];
    for (int attempt = 0; attempt < 100; ++attempt) {
      const uint64_t before = version_.load(std::memory_order_acquire);
      for (size_t i = 0; i < kWords; ++i) image[i] = words_[i].load(std::memory_order_acquire);
      if (before % 2 == 0 && version_.load(std::memory_order_acquire) == before) break;
    }
    T value;
    __builtin_memcpy(&value, image, sizeof value);
    return value;
  }

 private:
  static constexpr size_t kWords = (sizeof(T) + 7) / 8;
  std::atomic<uint64_t> version_;
  std::atomic<uint64_t> words_[kWords];
};

// What a rank is busy with, for the text of other ranks' errors.
struct Activity {
  enum class State : uint32_t { idle, connecting, executing } state = State::idle;
  uint32_t unused = 0;
  Signature signature;
};

// What a rank brings to the collective it stands in.
struct Post {
  Signature signature;
  uint64_t number = 0;
  const std::byte* send = nullptr;  // valid in the rank's own process
  std::byte* receive = nullptr;
  uint64_t factor = 0;  // bits of the pre-multiplication of this rank
};

// What a rank brings to a split of the communicator.
struct SplitOffer {
  int32_t color = 0;
  int32_t key = 0;
  int32_t segment_process = 0;  // set by the lowest rank of the new communicator
  int32_t segment_descriptor = -1;
  uint64_t segment_token = 0;
};

enum class Presence : uint32_t { absent, arriving, present, aborted, gone };

struct alignas(64) RankRecord {
  std::atomic<Presence> presence;
  int32_t process;
  int32_t device;
  uint64_t process_start;  // from /proc: tells a process from a later one with the same number
  uint64_t host;           // ranks with equal values share a node
  alignas(64) std::atomic<uint32_t> bell;  // rung by whoever did something this rank may wait for
  std::atomic<uint32_t> sleepers;
  std::atomic<uint32_t> readers;  // threads of this process that read this rank's buffers at the moment
  std::atomic<uint32_t> came_to_collective;
  alignas(64) std::atomic<uint64_t> stage;  // how far this rank is in its collectives, see collective.cpp
  Post post;                                // valid while the stage says so
  Published<Activity> activity;
  alignas(64) std::atomic<uint64_t> split_stage;
  SplitOffer split_offer;
};

struct Message {
  Signature signature;
  uint64_t bytes;
  const std::byte* source;  // valid in the sender's process
};

// One ordered pair of ranks.
struct alignas(64) Channel {
  static constexpr uint64_t kMessages = 16;
  std::atomic<uint64_t> messages_sent;
  std::atomic<uint64_t> bytes_written;  // into the ring
  alignas(64) std::atomic<uint64_t> messages_taken;
  std::atomic<uint64_t> bytes_read;
  alignas(64) std::atomic<uint32_t> sender_came;  // first use, strict mode
  std::atomic<uint32_t> receiver_came;
  std::atomic<uint64_t> traffic;  // counted bytes
  Message messages[kMessages];
};

struct alignas(64) SegmentHeader {
  std::atomic<uint32_t> layout;  // 0 not laid out, 1 being, 2 laid out
  int32_t ranks;
  uint64_t ring_bytes;
  uint64_t total_bytes;
  std::atomic<uint32_t> attached;
  std::atomic<uint32_t> failed;  // 0 no, 1 being written, 2 yes
  int32_t failure_code;
  char failure_text[1000];
};

// Where a segment can be found.
struct SegmentAddress {
  int32_t process = 0;
  int32_t descriptor = -1;
  uint64_t token = 0;
};

class Segment {
 public:
  // A new segment of this process; kept open until the last rank came.
  static SegmentAddress create();
  // Maps the segment, or returns this process's mapping of it. Throws Failure.
  static std::shared_ptr<Segment> attach(const SegmentAddress& address, int ranks);

  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  [[nodiscard]] int ranks() const { return ranks_; }
  [[nodiscard]] uint64_t token() const { return address_.token; }
  [[nodiscard]] SegmentHeader& header() { return *header_; }
  [[nodiscard]] RankRecord& rank(int index) { return records_[index]; }
  [[nodiscard]] Channel& channel(int sender, int receiver) { return channels_[sender * ranks_ + receiver]; }
  [[nodiscard]] std::byte* ring(int sender, int receiver) {
    return rings_ + static_cast<size_t>(sender * ranks_ + receiver) * ring_bytes_;
  }
  [[nodiscard]] uint64_t ring_bytes() const { return ring_bytes_; }
  [[nodiscard]] bool same_process(int rank) { return records_[rank].process == process_; }

  // Wakes a rank that waits. Cheap where nobody sleeps.
  void wake(int rank);
  void wake_all();
  // All ranks came: the descriptor is no longer needed.
  void everyone_is_here();
  // The first error of the communicator wins; returns whether this one did.
  bool fail(ncclResult_t code, const std::string& text);
  [[nodiscard]] bool failed() { return header_->failed.load(std::memory_order_acquire) == 2; }
  // Whether the process of a rank still runs.
  [[nodiscard]] bool alive(int rank);

 private:
  Segment(const SegmentAddress& address, int ranks);

  SegmentAddress address_;
  int ranks_ = 0;
  int process_ = 0;
  uint64_t ring_bytes_ = 0;
  size_t total_bytes_ = 0;
  SegmentHeader* header_ = nullptr;
  RankRecord* records_ = nullptr;
  Channel* channels_ = nullptr;
  std::byte* rings_ = nullptr;
};

// Sleeps until the bell of `record` is no longer `seen`, at most `milliseconds`.
void sleep_until_bell(RankRecord& record, uint32_t seen, int milliseconds);
// When the process began, in clock ticks since boot; 0: it is gone (or only a zombie).
[[nodiscard]] uint64_t process_start(int process);

}  // namespace sandbox::nccl
