// Rings between processes and the waiting of one rank.
#include "sandbox/nccl/transport.h"

#include <sched.h>

#include <algorithm>
#include <cstring>

namespace sandbox::nccl {
namespace {

constexpr unsigned kSpins = 64;
constexpr unsigned kYields = 16;
constexpr int kSleepMilliseconds = 5;
constexpr std::chrono::milliseconds kLookAtProcesses{50};
constexpr std::chrono::duration<double> kPatienceWithTheGone{
    2};  // an abort of all ranks is never simultaneous

// Copies between flat memory and a ring, in at most two pieces.
template <class Copy>
void for_pieces(uint64_t position, uint64_t ring_bytes, size_t bytes, Copy&& copy) {
  const size_t offset = position % ring_bytes;
  const size_t first = std::min<size_t>(bytes, ring_bytes - offset);
  copy(offset, size_t{0}, first);
  if (first < bytes) copy(size_t{0}, first, bytes - first);
}

std::string occupation(const Activity& activity) {
  switch (activity.state) {
    case Activity::State::connecting:
      return "which waits in the first use of " + describe(activity.signature);
    case Activity::State::executing:
      return "which is in " + describe(activity.signature);
    case Activity::State::idle:
      break;
  }
  if (activity.signature.function == Function::none) return "which issued nothing yet";
  return "which issued nothing after " + describe(activity.signature);
}

}  // namespace

Endpoint::Endpoint(std::shared_ptr<Segment> segment, int rank, std::string name)
    : segment_(std::move(segment)), rank_(rank), name_(std::move(name)) {}

std::string Endpoint::label() const {
  return "comm " + name_ + text(" rank %d", rank_);
}

void Endpoint::check() {
  if (aborted()) throw Aborted{};
  if (!segment_->failed()) return;
  const SegmentHeader& header = segment_->header();
  throw Failure{static_cast<ncclResult_t>(header.failure_code), header.failure_text};
}

void Endpoint::fail(const Failure& failure) {
  if (segment_->fail(failure.code, failure.text)) complain(failure.text);
}

void Endpoint::abort() {
  aborted_.store(true, std::memory_order_release);
  record().presence.store(Presence::aborted, std::memory_order_seq_cst);
  segment_->wake_all();
}

void Endpoint::wait_for_readers() {
  while (record().readers.load(std::memory_order_seq_cst) != 0) sched_yield();
}

size_t Endpoint::write(int peer, const std::byte* source, size_t bytes) {
  Channel& channel = segment_->channel(rank_, peer);
  const uint64_t written = channel.bytes_written.load(std::memory_order_relaxed);
  const uint64_t room =
      segment_->ring_bytes() - (written - channel.bytes_read.load(std::memory_order_acquire));
  const size_t now = std::min<size_t>(bytes, room);
  if (now == 0) return 0;
  std::byte* ring = segment_->ring(rank_, peer);
  for_pieces(written, segment_->ring_bytes(), now,
             [&](size_t at, size_t from, size_t n) { std::memcpy(ring + at, source + from, n); });
  channel.bytes_written.store(written + now, std::memory_order_release);
  segment_->wake(peer);
  return now;
}

size_t Endpoint::readable(int peer) {
  const Channel& channel = segment_->channel(peer, rank_);
  return channel.bytes_written.load(std::memory_order_acquire) -
         channel.bytes_read.load(std::memory_order_relaxed);
}

size_t Endpoint::read(int peer, std::byte* destination, size_t bytes) {
  const size_t now = std::min(bytes, readable(peer));
  if (now == 0) return 0;
  Channel& channel = segment_->channel(peer, rank_);
  const uint64_t position = channel.bytes_read.load(std::memory_order_relaxed);
  const std::byte* ring = segment_->ring(peer, rank_);
  for_pieces(position, segment_->ring_bytes(), now,
             [&](size_t at, size_t to, size_t n) { std::memcpy(destination + to, ring + at, n); });
  channel.bytes_read.store(position + now, std::memory_order_release);
  segment_->wake(peer);
  return now;
}

Waiter::Waiter(Endpoint& endpoint, const Signature& doing, double seconds)
    : endpoint_(endpoint),
      doing_(doing),
      limit_(seconds),
      since_(Clock::now()),
      next_look_(since_ + kLookAtProcesses) {}

void Waiter::progressed() {
  idle_ = 0;
  seen_dead_ = false;
  since_ = Clock::now();
}

void Waiter::pause(uint32_t seen, int missing) {
  endpoint_.check();
  ++idle_;
  if (idle_ <= kSpins) {
    __builtin_ia32_pause();
    return;
  }
  if (idle_ <= kSpins + kYields) {
    sched_yield();
    return;
  }
  sleep_until_bell(endpoint_.record(), seen, kSleepMilliseconds);
  const Clock::time_point now = Clock::now();
  const auto waited = std::chrono::duration<double>(now - since_);
  const Presence presence = endpoint_.segment().rank(missing).presence.load(std::memory_order_acquire);
  if (presence == Presence::aborted && waited > std::min(limit_, kPatienceWithTheGone)) {
    give_up(missing, "which aborted the communicator", ncclRemoteError);
  }
  if (presence == Presence::gone && waited > std::min(limit_, kPatienceWithTheGone)) {
    give_up(missing, "which left the communicator", ncclRemoteError);
  }
  if (now >= next_look_) {
    next_look_ = now + kLookAtProcesses;
    // Who is arriving has not yet written which process it is: under load it may stop in the middle of that.
    if (presence >= Presence::present && !endpoint_.segment().alive(missing)) {
      // What it did before it ended may have been all that is waited for: look once more.
      if (seen_dead_) give_up(missing, "whose process ended", ncclRemoteError);
      seen_dead_ = true;
    }
  }
  if (waited > limit_) {
    give_up(missing,
            occupation(endpoint_.segment().rank(missing).activity.load()) +
                text("; gave up after %g s", limit_.count()),
            ncclRemoteError);
  }
}

void Waiter::give_up(int missing, const std::string& reason, ncclResult_t code) const {
  const std::string doing =
      doing_.function == Function::none ? "the creation of the communicator" : describe(doing_);
  throw Failure{code,
                endpoint_.label() + ": " + doing + text(" was never met by rank %d, ", missing) + reason};
}

}  // namespace sandbox::nccl
