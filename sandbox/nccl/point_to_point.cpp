// Sends and receives of one group: all of them make progress together, those of one ordered pair in order.
//
// A send is complete when its receiver has taken everything (rendezvous), so no program can rely on
// buffering. Between ranks of one process the receiver copies from the sender's buffer; between processes the
// data go through the ring.
#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "sandbox/cudart/extension.h"
#include "sandbox/nccl/communicator.h"
#include "sandbox/nccl/damage.h"
#include "sandbox/nccl/settings.h"
#include "sandbox/nccl/traffic.h"

namespace sandbox::nccl {
namespace {

constexpr size_t kCopyChunk = 256u << 10;

// The sends to one peer. Headers go ahead as far as the channel has room; data follow in order.
class Outgoing {
 public:
  Outgoing(Endpoint& endpoint, int peer)
      : endpoint_(endpoint),
        channel_(endpoint.segment().channel(endpoint.rank(), peer)),
        peer_(peer),
        direct_(endpoint.same_process(peer)),
        first_(channel_.messages_taken.load(std::memory_order_acquire)) {}

  void add(const Operation& operation) { operations_.push_back(&operation); }
  [[nodiscard]] bool done() const {
    return channel_.messages_taken.load(std::memory_order_acquire) == first_ + operations_.size();
  }
  [[nodiscard]] int peer() const { return peer_; }

  // Returns whether anything moved.
  bool advance() {
    bool moved = false;
    while (announced_ < operations_.size() &&
           first_ + announced_ - channel_.messages_taken.load(std::memory_order_acquire) <
               Channel::kMessages) {
      const Operation& operation = *operations_[announced_];
      channel_.messages[(first_ + announced_) % Channel::kMessages] =
          Message{operation.signature, operation.part_bytes(), operation.send};
      ++announced_;
      channel_.messages_sent.store(first_ + announced_, std::memory_order_release);
      moved = true;
    }
    if (moved) endpoint_.segment().wake(peer_);
    if (!direct_) moved = write_data() || moved;
    return moved;
  }

 private:
  bool write_data() {
    bool moved = false;
    while (written_ < announced_) {
      const Operation& operation = *operations_[written_];
      const size_t now = endpoint_.write(peer_, operation.send + offset_, operation.part_bytes() - offset_);
      offset_ += now;
      moved = moved || now > 0;
      if (offset_ < operation.part_bytes()) break;
      offset_ = 0;
      ++written_;
    }
    return moved;
  }

  Endpoint& endpoint_;
  Channel& channel_;
  const int peer_;
  const bool direct_;
  const uint64_t first_;
  std::vector<const Operation*> operations_;
  size_t announced_ = 0;
  size_t written_ = 0;
  size_t offset_ = 0;
};

// The receives from one peer, one after the other.
class Incoming {
 public:
  Incoming(Endpoint& endpoint, int peer)
      : endpoint_(endpoint),
        channel_(endpoint.segment().channel(peer, endpoint.rank())),
        peer_(peer),
        direct_(endpoint.same_process(peer)) {}

  void add(const Operation& operation) { operations_.push_back(&operation); }
  [[nodiscard]] bool done() const { return taken_ == operations_.size(); }
  [[nodiscard]] int peer() const { return peer_; }

  bool advance() {
    bool moved = false;
    while (!done()) {
      const uint64_t position = channel_.messages_taken.load(std::memory_order_relaxed);
      if (channel_.messages_sent.load(std::memory_order_acquire) == position) break;
      const Message& message = channel_.messages[position % Channel::kMessages];
      const Operation& operation = *operations_[taken_];
      require_equal_size(message, operation);
      const size_t now = take(message, operation);
      offset_ += now;
      moved = moved || now > 0;
      if (offset_ < operation.part_bytes()) {
        if (now == 0) break;
        continue;
      }
      offset_ = 0;
      ++taken_;
      channel_.messages_taken.store(position + 1, std::memory_order_release);
      endpoint_.segment().wake(peer_);
      moved = true;
    }
    return moved;
  }

 private:
  void require_equal_size(const Message& message, const Operation& operation) const {
    if (message.bytes == operation.part_bytes()) return;
    throw Failure{ncclInvalidUsage, "comm " + endpoint_.name() + text(" rank %d: ", peer_) +
                                        describe(message.signature) + " met " +
                                        text("rank %d: ", endpoint_.rank()) + describe(operation.signature)};
  }

  size_t take(const Message& message, const Operation& operation) {
    std::byte* const destination = operation.receive + offset_;
    const size_t left = operation.part_bytes() - offset_;
    if (!direct_) {
      const size_t now = endpoint_.read(peer_, destination, left);
      if (now > 0) sandboxMarkWritten(destination, now);
      return now;
    }
    const size_t now = std::min(left, kCopyChunk);
    const std::byte* const source = message.source + offset_;
    const bool there = endpoint_.with_memory_of(peer_, [&] {
      if (now == 0 || source == destination) return;
      std::memmove(destination, source, now);
      sandboxCopyWritten(destination, source, now);
    });
    return there ? now : 0;
  }

  Endpoint& endpoint_;
  Channel& channel_;
  const int peer_;
  const bool direct_;
  std::vector<const Operation*> operations_;
  size_t taken_ = 0;
  size_t offset_ = 0;
};

void check_buffer(Communicator& communicator, const Operation& operation) {
  const bool sends = operation.signature.function == Function::send;
  const void* address = sends ? operation.send : operation.receive;
  const std::string who = communicator.endpoint().label() + ": " + describe(operation.signature);
  // A send moves bytes; whether they were ever written is not its business, as in a memory copy.
  const cudaError_t error =
      sandboxCheckWrite(communicator.device(), address, operation.part_bytes(), who.c_str());
  if (error != cudaSuccess)
    throw Failure{ncclUnhandledCudaError, who + " may not use its buffer: " + cudaGetErrorString(error),
                  error};
}

template <class Side>
Side& side_of(std::map<int, Side>& sides, Endpoint& endpoint, int peer) {
  return sides.try_emplace(peer, endpoint, peer).first->second;
}

}  // namespace

void run_point_to_point(Communicator& communicator, const std::vector<Operation>& operations) {
  Endpoint& endpoint = communicator.endpoint();
  std::map<int, Outgoing> outgoing;
  std::map<int, Incoming> incoming;
  const Signature* first = nullptr;
  for (const Operation& operation : operations) {
    if (!is_point_to_point(operation.signature.function)) continue;
    if (first == nullptr) first = &operation.signature;
    check_buffer(communicator, operation);
    if (operation.signature.function == Function::send) {
      side_of(outgoing, endpoint, operation.signature.peer).add(operation);
    } else {
      side_of(incoming, endpoint, operation.signature.peer).add(operation);
    }
  }
  if (first == nullptr) return;
  endpoint.say(Activity::State::executing, *first);
  Waiter waiter(endpoint, *first, settings().timeout);
  while (true) {
    const uint32_t bell = waiter.bell();
    bool moved = false;
    int missing = -1;
    for (auto& [peer, side] : outgoing) {
      moved = side.advance() || moved;
      if (!side.done()) missing = peer;
    }
    for (auto& [peer, side] : incoming) {
      moved = side.advance() || moved;
      if (!side.done()) missing = peer;
    }
    if (missing < 0) break;
    if (moved) {
      waiter.progressed();
    } else {
      waiter.pause(bell, missing);
    }
  }
  for (const Operation& operation : operations) {
    if (operation.signature.function == Function::send) count_send(communicator, operation.signature);
    if (operation.signature.function == Function::recv) {
      count_receive(operation.signature);
      damage(operation.receive, operation.part_bytes());
      pass_transfer(communicator, operation.signature.peer, operation.receive, operation.part_bytes(), false);
    }
  }
}

}  // namespace sandbox::nccl
