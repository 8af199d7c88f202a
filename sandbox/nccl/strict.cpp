// Agreement, order and first use.
#include "sandbox/nccl/strict.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "sandbox/nccl/communicator.h"
#include "sandbox/nccl/settings.h"

namespace sandbox::nccl {
namespace {

// What must be equal on all ranks of a collective.
Signature comparable(Signature signature) {
  if (!settings().strict) signature.group_size = signature.group_index = signature.captured = 0;
  return signature;
}

bool equal_but_for_the_group(Signature a, const Signature& b) {
  a.group_size = b.group_size;
  a.group_index = b.group_index;
  a.captured = b.captured;
  return a == b;
}

// Both flags of one operation's first use: what this rank sets and what it waits for. Null where there are
// none.
struct FirstUse {
  std::atomic<uint32_t>* mine = nullptr;
  std::atomic<uint32_t>* theirs = nullptr;
};

FirstUse first_use(Endpoint& endpoint, const Signature& signature) {
  Segment& segment = endpoint.segment();
  if (signature.peer == endpoint.rank()) return {};
  if (signature.function == Function::send) {
    Channel& channel = segment.channel(endpoint.rank(), signature.peer);
    return {&channel.sender_came, &channel.receiver_came};
  }
  Channel& channel = segment.channel(signature.peer, endpoint.rank());
  return {&channel.receiver_came, &channel.sender_came};
}

// The first rank that has not come, or -1.
int missing_rank(Endpoint& endpoint, const Signature& signature) {
  if (is_point_to_point(signature.function)) {
    const FirstUse use = first_use(endpoint, signature);
    return use.theirs == nullptr || use.theirs->load(std::memory_order_acquire) != 0 ? -1 : signature.peer;
  }
  for (int rank = 0; rank < endpoint.ranks(); ++rank) {
    if (endpoint.segment().rank(rank).came_to_collective.load(std::memory_order_acquire) == 0) return rank;
  }
  return -1;
}

}  // namespace

void require_agreement(Endpoint& endpoint) {
  const Signature first = endpoint.segment().rank(0).post.signature;
  for (int rank = 1; rank < endpoint.ranks(); ++rank) {
    const Signature other = endpoint.segment().rank(rank).post.signature;
    if (comparable(first) == comparable(other)) continue;
    const bool whole = equal_but_for_the_group(first, other);
    throw Failure{ncclInvalidUsage, "comm " + endpoint.name() + " rank 0: " + describe(first, whole) +
                                        text(" met rank %d: ", rank) + describe(other, whole)};
  }
}

std::vector<size_t> execution_order(size_t count, uint64_t first) {
  std::vector<size_t> order(count);
  std::iota(order.begin(), order.end(), size_t{0});
  if (!settings().strict || count < 2) return order;
  uint64_t state = first * 0x9e3779b97f4a7c15ull + count;
  for (size_t last = count - 1; last > 0; --last) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    std::swap(order[last], order[(state >> 33) % (last + 1)]);
  }
  if (std::is_sorted(order.begin(), order.end())) std::rotate(order.begin(), order.begin() + 1, order.end());
  return order;
}

void announce_first_use(Communicator& communicator, const std::vector<Operation>& operations) {
  if (!settings().strict) return;
  Endpoint& endpoint = communicator.endpoint();
  for (const Operation& operation : operations) {
    if (is_point_to_point(operation.signature.function)) {
      const FirstUse use = first_use(endpoint, operation.signature);
      if (use.mine == nullptr || use.mine->exchange(1) != 0) continue;
      endpoint.segment().wake(operation.signature.peer);
    } else if (endpoint.record().came_to_collective.exchange(1) == 0) {
      endpoint.segment().wake_all();
    }
  }
}

void await_first_use(Communicator& communicator, const std::vector<Operation>& operations) {
  if (!settings().strict) return;
  Endpoint& endpoint = communicator.endpoint();
  for (const Operation& operation : operations) {
    const Signature& signature = operation.signature;
    if (missing_rank(endpoint, signature) < 0) continue;
    const Activity before = endpoint.record().activity.load();
    endpoint.say(Activity::State::connecting, signature);
    Waiter waiter(endpoint, signature, settings().timeout);
    while (true) {
      const uint32_t bell = waiter.bell();
      const int missing = missing_rank(endpoint, signature);
      if (missing < 0) break;
      waiter.pause(bell, missing);
    }
    endpoint.record().activity.store(before);
  }
}

}  // namespace sandbox::nccl
