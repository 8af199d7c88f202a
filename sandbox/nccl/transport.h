// One rank's end of a communicator's shared memory: moving bytes, waiting for peers, and ending.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "sandbox/nccl/failure.h"
#include "sandbox/nccl/segment.h"
#include "sandbox/nccl/signature.h"

namespace sandbox::nccl {

class Endpoint {
 public:
  Endpoint(std::shared_ptr<Segment> segment, int rank, std::string name);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int ranks() const { return segment_->ranks(); }
  [[nodiscard]] Segment& segment() { return *segment_; }
  [[nodiscard]] RankRecord& record() { return segment_->rank(rank_); }
  [[nodiscard]] bool same_process(int peer) { return segment_->same_process(peer); }
  [[nodiscard]] const std::string& name() const { return name_; }
  // "comm X rank 0"
  [[nodiscard]] std::string label() const;

  // Throws Aborted or the communicator's Failure if it ended.
  void check();
  // Makes every rank's waits end with this error; the first one of a communicator is kept and printed.
  void fail(const Failure& failure);
  // Ends this rank's waits without an error.
  void abort();
  [[nodiscard]] bool aborted() const { return aborted_.load(std::memory_order_acquire); }
  // After an error: returns when no peer reads this rank's buffers any more.
  void wait_for_readers();

  // As many bytes as the ring to (from) a peer of another process takes (holds) now.
  size_t write(int peer, const std::byte* source, size_t bytes);
  size_t read(int peer, std::byte* destination, size_t bytes);
  [[nodiscard]] size_t readable(int peer);

  // Runs `use` while a peer of this process keeps its buffers alive; false: the peer's part is over.
  template <class Use>
  bool with_memory_of(int peer, Use&& use) {
    RankRecord& owner = segment_->rank(peer);
    owner.readers.fetch_add(1, std::memory_order_seq_cst);
    const bool there =
        owner.presence.load(std::memory_order_seq_cst) == Presence::present && !segment_->failed();
    if (there) use();
    owner.readers.fetch_sub(1, std::memory_order_seq_cst);
    return there;
  }

  void say(Activity::State state, const Signature& signature) {
    record().activity.store(Activity{state, 0, signature});
  }

 private:
  std::shared_ptr<Segment> segment_;
  int rank_;
  std::string name_;
  std::atomic<bool> aborted_{false};
};

// Bounded waiting. Use:
//   Waiter waiter(endpoint, signature, seconds);
//   while (true) { const uint32_t bell = waiter.bell(); if (look()) break; waiter.pause(bell, missing_rank);
//   }
class Waiter {
 public:
  Waiter(Endpoint& endpoint, const Signature& doing, double seconds);

  [[nodiscard]] uint32_t bell() const { return endpoint_.record().bell.load(std::memory_order_seq_cst); }
  // Something moved: patience begins anew.
  void progressed();
  // Spins, then yields, then sleeps. Throws Aborted, the communicator's Failure, or a new one that names the
  // rank that is missing: its process ended, it left the communicator, or patience is over.
  void pause(uint32_t seen, int missing);

 private:
  using Clock = std::chrono::steady_clock;
  [[noreturn]] void give_up(int missing, const std::string& reason, ncclResult_t code) const;

  Endpoint& endpoint_;
  Signature doing_;
  std::chrono::duration<double> limit_;
  Clock::time_point since_;
  Clock::time_point next_look_;
  unsigned idle_ = 0;
  bool seen_dead_ = false;
};

}  // namespace sandbox::nccl
