// The collectives: who reads what from whom, in phases between barriers.
//
// Ranks of one process read each other's buffers directly; to a rank of another process the owner writes its
// part into the ring of the pair. A collective has three points that every rank reaches: "entered" (its post
// can be read), for all-reduce "reduced" (its segment is complete), and "left" (nobody needs its buffers any
// more).
#include <algorithm>
#include <cstring>
#include <vector>

#include "sandbox/cudart/extension.h"
#include "sandbox/nccl/communicator.h"
#include "sandbox/nccl/damage.h"
#include "sandbox/nccl/settings.h"
#include "sandbox/nccl/strict.h"
#include "sandbox/nccl/traffic.h"

namespace sandbox::nccl {
namespace {

constexpr size_t kCopyChunk = 256u << 10;
constexpr size_t kReduceChunk = 16u << 10;  // no larger than the smallest ring: a whole chunk must fit in one

enum Point : uint64_t { kEntered = 1, kReduced = 2, kLeft = 3 };
constexpr uint64_t kPointsPerCollective = 4;

// A part of an own buffer for a rank of another process.
struct Push {
  int peer;
  const std::byte* source;
  size_t bytes;
};

// A part of a peer's buffer.
struct Pull {
  int peer;
  const std::byte* source;  // in the memory of this process, or null: it comes through the ring
  std::byte* destination;
  size_t bytes;
};

class Collective {
 public:
  Collective(Communicator& communicator, const Operation& operation, uint64_t number)
      : communicator_(communicator),
        endpoint_(communicator.endpoint()),
        segment_(endpoint_.segment()),
        operation_(operation),
        number_(number),
        me_(endpoint_.rank()),
        ranks_(endpoint_.ranks()),
        element_(operation.element_bytes()),
        part_(operation.part_bytes()),
        waiter_(endpoint_, operation.signature, settings().timeout) {}

  void run() {
    check_buffers();
    enter();
    switch (operation_.signature.function) {
      case Function::all_gather:
        all_gather();
        break;
      case Function::reduce_scatter:
        reduce_scatter();
        break;
      case Function::all_reduce:
        all_reduce();
        break;
      case Function::broadcast:
        broadcast();
        break;
      case Function::reduce:
        reduce();
        break;
      case Function::all_to_all:
        all_to_all();
        break;
      case Function::gather:
        gather();
        break;
      case Function::scatter:
        scatter();
        break;
      default:
        throw Failure{ncclInternalError, "not a collective"};
    }
    count_collective(communicator_, operation_.signature);
    reach(kLeft);
    damage_received();  // peers of this process read its buffers until the last barrier
  }

 private:
  [[nodiscard]] int root() const { return operation_.signature.peer; }
  [[nodiscard]] bool is_root() const { return root() == me_; }
  [[nodiscard]] const Post& post(int rank) { return segment_.rank(rank).post; }
  [[nodiscard]] size_t at(int rank) const { return static_cast<size_t>(rank) * part_; }
  // The other ranks, beginning after this one so that not all read from the same peer at once.
  [[nodiscard]] int nth_peer(int n) const { return (me_ + n) % ranks_; }

  void check_buffers();
  void damage_received();
  void enter();
  void reach(Point point);
  void copy(std::vector<Push> pushes, std::vector<Pull> pulls);
  void reduce_into(std::byte* destination, size_t bytes, size_t source_offset, std::vector<Push> pushes);
  bool advance(Push& push);
  bool advance(Pull& pull);
  bool advance_all(std::vector<Push>& pushes);
  void fetch(int peer, const std::byte* source, std::byte* scratch, size_t bytes, std::vector<Push>& pushes);

  // A part of every other process's rank's interest; `offset_of` tells where it lies in `base`.
  template <class OffsetOf>
  std::vector<Push> push_to_all(const std::byte* base, OffsetOf&& offset_of, size_t bytes) {
    std::vector<Push> pushes;
    for (int n = 1; n < ranks_; ++n) {
      const int peer = nth_peer(n);
      if (!endpoint_.same_process(peer)) pushes.push_back({peer, base + offset_of(peer), bytes});
    }
    return pushes;
  }
  // Pulls from a peer: `base` is the peer's buffer if it is in this process.
  Pull pull_from(int peer, const std::byte* base, size_t offset, std::byte* destination, size_t bytes) {
    return {peer, endpoint_.same_process(peer) ? base + offset : nullptr, destination, bytes};
  }

  void all_gather();
  void reduce_scatter();
  void all_reduce();
  void broadcast();
  void reduce();
  void all_to_all();
  void gather();
  void scatter();

  Communicator& communicator_;
  Endpoint& endpoint_;
  Segment& segment_;
  const Operation& operation_;
  const uint64_t number_;
  const int me_;
  const int ranks_;
  const size_t element_;
  const size_t part_;
  uint64_t factor_ = 0;
  Waiter waiter_;
};

// Parts of the send and the receive buffer that a function uses, in units of `count`.
struct Extent {
  size_t send;
  size_t receive;
};

Extent extent(Function function, bool is_root, size_t ranks) {
  switch (function) {
    case Function::all_gather:
      return {1, ranks};
    case Function::reduce_scatter:
      return {ranks, 1};
    case Function::all_reduce:
      return {1, 1};
    case Function::broadcast:
      return {is_root ? 1u : 0u, 1};
    case Function::reduce:
      return {1, is_root ? 1u : 0u};
    case Function::all_to_all:
      return {ranks, ranks};
    case Function::gather:
      return {1, is_root ? ranks : 0u};
    case Function::scatter:
      return {is_root ? ranks : 0u, 1};
    default:
      return {0, 0};
  }
}

void require_access(cudaError_t error, const Endpoint& endpoint, const Signature& signature,
                    const char* buffer) {
  if (error == cudaSuccess) return;
  throw Failure{ncclUnhandledCudaError,
                endpoint.label() + ": " + describe(signature) + " may not use its " + buffer + ": " +
                    cudaGetErrorString(error),
                error};
}

void Collective::check_buffers() {
  const Signature& signature = operation_.signature;
  const Extent extents = extent(signature.function, is_root(), static_cast<size_t>(ranks_));
  const std::string who = endpoint_.label() + ": " + describe(signature);
  const int device = communicator_.device();
  // Data that is only moved may be unwritten, as in a memory copy; data that is computed with may not.
  const auto readable = signature.op >= 0 ? sandboxCheckRead : sandboxCheckWrite;
  if (extents.send > 0) {
    require_access(readable(device, operation_.send, extents.send * part_, who.c_str()), endpoint_, signature,
                   "send buffer");
  }
  if (extents.receive > 0) {
    require_access(sandboxCheckWrite(device, operation_.receive, extents.receive * part_, who.c_str()),
                   endpoint_, signature, "receive buffer");
  }
  factor_ = operation_.factor;
  if (operation_.factor_address != nullptr) {
    require_access(sandboxCheckRead(device, operation_.factor_address, element_, who.c_str()), endpoint_,
                   signature, "scalar");
    std::memcpy(&factor_, operation_.factor_address, element_);
  }
}

void Collective::damage_received() {
  const Signature& signature = operation_.signature;
  if (signature.op >= 0) return;
  const Extent extents = extent(signature.function, is_root(), static_cast<size_t>(ranks_));
  damage(operation_.receive, extents.receive * part_);
  if (extents.receive == 0) return;
  if (signature.function == Function::broadcast || signature.function == Function::scatter)
    return pass_transfer(communicator_, root(), operation_.receive, part_, true);
  for (int sender = 0; sender < ranks_; ++sender)
    pass_transfer(communicator_, sender, operation_.receive + at(sender), part_, true);
}

void Collective::enter() {
  RankRecord& record = endpoint_.record();
  record.post = Post{operation_.signature, number_, operation_.send, operation_.receive, factor_};
  reach(kEntered);
  require_agreement(endpoint_);
}

// A barrier of all ranks.
void Collective::reach(Point point) {
  const uint64_t stage = number_ * kPointsPerCollective + point;
  endpoint_.record().stage.store(stage, std::memory_order_release);
  for (int n = 1; n < ranks_; ++n) segment_.wake(nth_peer(n));
  waiter_.progressed();
  for (int n = 1; n < ranks_; ++n) {
    const int peer = nth_peer(n);
    while (true) {
      const uint32_t bell = waiter_.bell();
      if (segment_.rank(peer).stage.load(std::memory_order_acquire) >= stage) break;
      waiter_.pause(bell, peer);
    }
  }
}

bool Collective::advance(Push& push) {
  const size_t moved = push.bytes == 0 ? 0 : endpoint_.write(push.peer, push.source, push.bytes);
  push.source += moved;
  push.bytes -= moved;
  return moved > 0;
}

bool Collective::advance_all(std::vector<Push>& pushes) {
  bool moved = false;
  for (Push& push : pushes) moved = advance(push) || moved;
  return moved;
}

bool Collective::advance(Pull& pull) {
  size_t moved = 0;
  if (pull.bytes == 0) return false;
  if (pull.source == nullptr) {
    moved = endpoint_.read(pull.peer, pull.destination, pull.bytes);
    if (moved > 0) sandboxMarkWritten(pull.destination, moved);
  } else {
    const size_t wanted = std::min(pull.bytes, kCopyChunk);
    const bool there = endpoint_.with_memory_of(pull.peer, [&] {
      std::memmove(pull.destination, pull.source, wanted);
      sandboxCopyWritten(pull.destination, pull.source, wanted);
    });
    moved = there ? wanted : 0;
    pull.source += moved;
  }
  pull.destination += moved;
  pull.bytes -= moved;
  return moved > 0;
}

void Collective::copy(std::vector<Push> pushes, std::vector<Pull> pulls) {
  std::erase_if(pulls, [](const Pull& pull) { return pull.source == pull.destination; });  // in place
  waiter_.progressed();
  while (true) {
    const uint32_t bell = waiter_.bell();
    bool moved = advance_all(pushes);
    for (Pull& pull : pulls) moved = advance(pull) || moved;
    std::erase_if(pushes, [](const Push& push) { return push.bytes == 0; });
    std::erase_if(pulls, [](const Pull& pull) { return pull.bytes == 0; });
    if (pushes.empty() && pulls.empty()) return;
    if (moved) {
      waiter_.progressed();
    } else {
      waiter_.pause(bell, pulls.empty() ? pushes.front().peer : pulls.front().peer);
    }
  }
}

// Brings the next chunk of a peer into `scratch`; meanwhile own parts move on, so that two ranks never wait
// for each other.
void Collective::fetch(int peer, const std::byte* source, std::byte* scratch, size_t bytes,
                       std::vector<Push>& pushes) {
  waiter_.progressed();
  while (true) {
    const uint32_t bell = waiter_.bell();
    bool moved = advance_all(pushes);
    if (source != nullptr) {
      if (endpoint_.with_memory_of(peer, [&] { std::memcpy(scratch, source, bytes); })) return;
    } else if (endpoint_.readable(peer) >= bytes) {
      endpoint_.read(peer, scratch, bytes);
      return;
    }
    if (moved) {
      waiter_.progressed();
    } else {
      waiter_.pause(bell, peer);
    }
  }
}

// destination = reduction over all ranks, in rank order, of their send buffers from `source_offset` on.
void Collective::reduce_into(std::byte* destination, size_t bytes, size_t source_offset,
                             std::vector<Push> pushes) {
  const auto type = static_cast<ncclDataType_t>(operation_.signature.type);
  std::vector<std::byte> contribution(kReduceChunk);
  std::vector<std::byte> sum(kReduceChunk);
  for (size_t done = 0; done < bytes;) {
    const size_t now = std::min(kReduceChunk, bytes - done);
    const size_t count = now / element_;
    for (int rank = 0; rank < ranks_; ++rank) {
      const std::byte* source =
          endpoint_.same_process(rank) ? post(rank).send + source_offset + done : nullptr;
      fetch(rank, source, contribution.data(), now, pushes);
      const auto step = rank == 0 ? reduce_first : reduce_next;
      step(type, operation_.kind, sum.data(), contribution.data(), count, post(rank).factor);
    }
    reduce_finish(type, operation_.kind, sum.data(), count, ranks_);
    std::memcpy(destination + done, sum.data(), now);
    done += now;
  }
  if (bytes > 0) sandboxMarkWritten(destination, bytes);
  copy(std::move(pushes), {});
}

void Collective::all_gather() {
  std::vector<Pull> pulls;
  for (int n = 0; n < ranks_; ++n) {
    const int peer = nth_peer(n);
    pulls.push_back(pull_from(peer, post(peer).send, 0, operation_.receive + at(peer), part_));
  }
  copy(push_to_all(
           operation_.send, [](int) { return size_t{0}; }, part_),
       std::move(pulls));
}

void Collective::reduce_scatter() {
  reduce_into(operation_.receive, part_, at(me_),
              push_to_all(
                  operation_.send, [this](int peer) { return at(peer); }, part_));
}

// A reduce-scatter of uneven segments, then an all-gather of them.
void Collective::all_reduce() {
  const auto begin = [this](int rank) {
    const size_t count = operation_.signature.count;
    const size_t ranks = static_cast<size_t>(ranks_);
    const size_t index = static_cast<size_t>(rank);
    return (count / ranks * index + std::min(index, count % ranks)) * element_;
  };
  const auto bytes_of = [&](int rank) { return begin(rank + 1) - begin(rank); };
  std::vector<Push> pushes = push_to_all(operation_.send, begin, 0);
  for (Push& push : pushes) push.bytes = bytes_of(push.peer);
  reduce_into(operation_.receive + begin(me_), bytes_of(me_), begin(me_), std::move(pushes));
  reach(kReduced);
  std::vector<Pull> pulls;
  for (int n = 1; n < ranks_; ++n) {
    const int peer = nth_peer(n);
    pulls.push_back(
        pull_from(peer, post(peer).receive, begin(peer), operation_.receive + begin(peer), bytes_of(peer)));
  }
  copy(push_to_all(
           operation_.receive + begin(me_), [](int) { return size_t{0}; }, bytes_of(me_)),
       std::move(pulls));
}

void Collective::broadcast() {
  copy(is_root() ? push_to_all(
                       operation_.send, [](int) { return size_t{0}; }, part_)
                 : std::vector<Push>{},
       {pull_from(root(), post(root()).send, 0, operation_.receive, part_)});
}

void Collective::reduce() {
  if (is_root()) {
    reduce_into(operation_.receive, part_, 0, {});
  } else if (!endpoint_.same_process(root())) {
    copy({{root(), operation_.send, part_}}, {});
  }
}

void Collective::all_to_all() {
  std::vector<Pull> pulls;
  for (int n = 0; n < ranks_; ++n) {
    const int peer = nth_peer(n);
    pulls.push_back(pull_from(peer, post(peer).send, at(me_), operation_.receive + at(peer), part_));
  }
  copy(push_to_all(
           operation_.send, [this](int peer) { return at(peer); }, part_),
       std::move(pulls));
}

void Collective::gather() {
  std::vector<Pull> pulls;
  for (int peer = 0; is_root() && peer < ranks_; ++peer) {
    pulls.push_back(pull_from(peer, post(peer).send, 0, operation_.receive + at(peer), part_));
  }
  std::vector<Push> pushes;
  if (!endpoint_.same_process(root())) pushes.push_back({root(), operation_.send, part_});
  copy(std::move(pushes), std::move(pulls));
}

void Collective::scatter() {
  copy(is_root() ? push_to_all(
                       operation_.send, [this](int peer) { return at(peer); }, part_)
                 : std::vector<Push>{},
       {pull_from(root(), post(root()).send, at(me_), operation_.receive, part_)});
}

}  // namespace

size_t received_bytes(const Operation& operation, int rank, int ranks) {
  const Signature& signature = operation.signature;
  if (signature.function == Function::recv) return operation.part_bytes();
  const Extent extents = extent(signature.function, signature.peer == rank, static_cast<size_t>(ranks));
  return extents.receive * operation.part_bytes();
}

void run_collective(Communicator& communicator, const Operation& operation, uint64_t number) {
  Collective(communicator, operation, number).run();
}

}  // namespace sandbox::nccl
