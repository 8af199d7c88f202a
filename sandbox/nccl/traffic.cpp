// The counters and their rules.
#include "sandbox/nccl/traffic.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

#include "sandbox/nccl/api.h"
#include "sandbox/nccl/communicator.h"
#include "sandbox/nccl/extension.h"
#include "sandbox/nccl/settings.h"
#include "sandbox/nccl/types.h"

namespace sandbox::nccl {
namespace {

struct Ledger {
  std::mutex mutex;
  sandboxNcclTraffic total{};
  std::map<std::string, sandboxNcclCall> calls;
  std::map<std::string, std::vector<uint64_t>> left;  // rows of communicators that left, by their label
};

Ledger& ledger() {
  static Ledger* const one = [] {
    if (settings().print_traffic) std::atexit(sandboxNcclPrintTraffic);
    return new Ledger;  // used by atexit and by threads that may outlive main
  }();
  return *one;
}

// What one rank sends in one operation, by receiver.
class Row {
 public:
  explicit Row(Communicator& communicator)
      : communicator_(communicator), topology_(communicator.topology()), me_(communicator.rank()) {}

  void send(int receiver, uint64_t bytes) {
    if (receiver == me_ || bytes == 0) return;
    communicator_.endpoint()
        .segment()
        .channel(me_, receiver)
        .traffic.fetch_add(bytes, std::memory_order_acq_rel);
    (topology_.node_of(receiver) == topology_.node_of(me_) ? in_node_ : between_) += bytes;
  }

  // One shard on its way from its owner to all ranks: across once per node, then spread there.
  void spread(int owner, uint64_t bytes) {
    const int here = topology_.node_of(me_);
    if (owner == me_) {
      for (int node = 0; node < topology_.nodes(); ++node) {
        if (node != here) send(topology_.partner(me_, node), bytes);
      }
    }
    const int source = topology_.node_of(owner) == here ? owner : topology_.partner(owner, here);
    if (source != me_) return;
    for (const int peer : topology_.members(here)) send(peer, bytes);
  }

  // One segment on its way from all ranks to its owner: reduced in each node, then across.
  void collect(int owner, uint64_t bytes) {
    const int here = topology_.node_of(me_);
    const int gatherer = topology_.node_of(owner) == here ? owner : topology_.partner(owner, here);
    send(gatherer != me_ ? gatherer : owner, bytes);
  }

  void record(const Signature& signature) const {
    Signature kind = signature;
    if (is_point_to_point(kind.function)) kind.peer = -1;
    std::string call = describe(kind);
    if (is_point_to_point(kind.function)) call.resize(call.find(')') + 1);
    const std::lock_guard lock(ledger().mutex);
    ledger().total.bytes_in_node += in_node_;
    ledger().total.bytes_between_nodes += between_;
    ++ledger().total.operations;
    sandboxNcclCall& row = ledger().calls[call];
    std::snprintf(row.call, sizeof row.call, "%s", call.c_str());
    ++row.calls;
    row.bytes_in_node += in_node_;
    row.bytes_between_nodes += between_;
  }

 private:
  Communicator& communicator_;
  const Topology& topology_;
  const int me_;
  uint64_t in_node_ = 0;
  uint64_t between_ = 0;
};

void print_pairs(const std::string& label, const std::vector<uint64_t>& row) {
  std::printf("sandbox nccl traffic: %s sent", label.c_str());
  for (size_t receiver = 0; receiver < row.size(); ++receiver) {
    if (row[receiver] > 0)
      std::printf(" %llu to rank %zu,", static_cast<unsigned long long>(row[receiver]), receiver);
  }
  std::printf(" %llu bytes in all\n", [&] {
    unsigned long long sum = 0;
    for (const uint64_t bytes : row) sum += bytes;
    return sum;
  }());
}

std::vector<uint64_t> row_of(Communicator& communicator) {
  std::vector<uint64_t> row;
  for (int receiver = 0; receiver < communicator.ranks(); ++receiver) {
    row.push_back(communicator.endpoint().segment().channel(communicator.rank(), receiver).traffic.load());
  }
  return row;
}

}  // namespace

void count_launch() {
  const std::lock_guard lock(ledger().mutex);
  ++ledger().total.launches;
}

void count_collective(Communicator& communicator, const Signature& signature) {
  Row row(communicator);
  const int ranks = communicator.ranks();
  const uint64_t element = size_of(static_cast<ncclDataType_t>(signature.type));
  const uint64_t part = signature.count * element;
  const auto segment = [&](int rank) {
    const uint64_t count = signature.count;
    const uint64_t n = static_cast<uint64_t>(ranks);
    return (count / n + (static_cast<uint64_t>(rank) < count % n ? 1 : 0)) * element;
  };
  const bool at_root = signature.peer == communicator.rank();
  switch (signature.function) {
    case Function::all_gather:
      for (int owner = 0; owner < ranks; ++owner) row.spread(owner, part);
      break;
    case Function::reduce_scatter:
      for (int owner = 0; owner < ranks; ++owner) row.collect(owner, part);
      break;
    case Function::all_reduce:
      for (int owner = 0; owner < ranks; ++owner) {
        row.collect(owner, segment(owner));
        row.spread(owner, segment(owner));
      }
      break;
    case Function::broadcast:
      row.spread(signature.peer, part);
      break;
    case Function::reduce:
      row.collect(signature.peer, part);
      break;
    case Function::gather:
      row.send(signature.peer, part);
      break;
    case Function::scatter:
    case Function::all_to_all:
      for (int peer = 0; peer < ranks; ++peer) {
        if (at_root || signature.function == Function::all_to_all) row.send(peer, part);
      }
      break;
    default:
      break;
  }
  row.record(signature);
}

void count_send(Communicator& communicator, const Signature& signature) {
  Row row(communicator);
  row.send(signature.peer, signature.count * size_of(static_cast<ncclDataType_t>(signature.type)));
  row.record(signature);
}

void count_receive(const Signature&) {
  const std::lock_guard lock(ledger().mutex);
  ++ledger().total.operations;
}

void keep_traffic_of(Communicator& communicator) {
  if (!settings().print_traffic) return;
  const std::vector<uint64_t> row = row_of(communicator);
  const std::lock_guard lock(ledger().mutex);
  std::vector<uint64_t>& kept = ledger().left[communicator.endpoint().label()];
  kept.resize(std::max(kept.size(), row.size()));
  for (size_t receiver = 0; receiver < row.size(); ++receiver) kept[receiver] += row[receiver];
}

}  // namespace sandbox::nccl

using namespace sandbox::nccl;

extern "C" {

SANDBOX_NCCL_EXPORT void sandboxNcclGetTraffic(sandboxNcclTraffic* total) {
  const std::lock_guard lock(ledger().mutex);
  *total = ledger().total;
}

SANDBOX_NCCL_EXPORT void sandboxNcclResetTraffic() {
  for (const std::shared_ptr<Communicator>& communicator : all_communicators()) {
    if (!communicator->joined()) continue;
    for (int receiver = 0; receiver < communicator->ranks(); ++receiver) {
      communicator->endpoint().segment().channel(communicator->rank(), receiver).traffic.store(0);
    }
  }
  const std::lock_guard lock(ledger().mutex);
  ledger().total = {};
  ledger().calls.clear();
  ledger().left.clear();
}

SANDBOX_NCCL_EXPORT uint64_t sandboxNcclPairBytes(ncclComm_t comm, int sender, int receiver) {
  const std::shared_ptr<Communicator> communicator = find_communicator(comm);
  if (communicator == nullptr || !communicator->joined()) return 0;
  const int ranks = communicator->ranks();
  if (sender < 0 || sender >= ranks || receiver < 0 || receiver >= ranks) return 0;
  return communicator->endpoint().segment().channel(sender, receiver).traffic.load(std::memory_order_acquire);
}

SANDBOX_NCCL_EXPORT size_t sandboxNcclGetCalls(sandboxNcclCall* records, size_t capacity) {
  const std::lock_guard lock(ledger().mutex);
  size_t index = 0;
  for (const auto& [name, call] : ledger().calls) {
    if (index < capacity) records[index] = call;
    ++index;
  }
  return index;
}

SANDBOX_NCCL_EXPORT int sandboxNcclNode(ncclComm_t comm, int rank) {
  const std::shared_ptr<Communicator> communicator = find_communicator(comm);
  if (communicator == nullptr || !communicator->joined() || rank < 0 || rank >= communicator->ranks())
    return -1;
  return communicator->topology().node_of(rank);
}

SANDBOX_NCCL_EXPORT void sandboxNcclPrintTraffic() {
  const std::vector<std::shared_ptr<Communicator>> alive = all_communicators();
  const std::lock_guard lock(ledger().mutex);
  const sandboxNcclTraffic& total = ledger().total;
  std::printf(
      "sandbox nccl traffic: process %d sent %llu bytes in its nodes and %llu between nodes in %llu "
      "operations\n",
      static_cast<int>(getpid()), static_cast<unsigned long long>(total.bytes_in_node),
      static_cast<unsigned long long>(total.bytes_between_nodes),
      static_cast<unsigned long long>(total.operations));
  for (const auto& [label, row] : ledger().left) print_pairs(label, row);
  for (const std::shared_ptr<Communicator>& communicator : alive) {
    if (communicator->joined()) print_pairs(communicator->endpoint().label(), row_of(*communicator));
  }
  for (const auto& [name, call] : ledger().calls) {
    std::printf("sandbox nccl traffic: %8llu x %s: %llu bytes in the node, %llu between nodes\n",
                static_cast<unsigned long long>(call.calls), call.call,
                static_cast<unsigned long long>(call.bytes_in_node),
                static_cast<unsigned long long>(call.bytes_between_nodes));
  }
  std::fflush(stdout);
}

}  // extern "C"
