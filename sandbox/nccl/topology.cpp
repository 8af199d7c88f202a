// Host identity and the grouping of ranks into nodes.
#include "sandbox/nccl/topology.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <fstream>
#include <map>

#include "sandbox/nccl/failure.h"
#include "sandbox/nccl/settings.h"

namespace sandbox::nccl {
namespace {

uint64_t hash(const std::string& value) {
  uint64_t result = 1469598103934665603ull;  // FNV-1a
  for (const char c : value) result = (result ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return result;
}

std::string host_identity() {
  if (!settings().host_id.empty()) return settings().host_id;
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return std::string(name) + boot;
}

std::vector<int> numbers(const std::string& list, const std::string& whole) {
  std::vector<int> result;
  const char* at = list.data();
  const char* const end = at + list.size();
  while (true) {
    int value = 0;
    const auto [rest, error] = std::from_chars(at, end, value);
    require(error == std::errc() && value >= 0, ncclInvalidUsage,
            "SANDBOX_NODES=" + whole + " is not understood");
    result.push_back(value);
    if (rest == end) return result;
    require(*rest == ',', ncclInvalidUsage, "SANDBOX_NODES=" + whole + " is not understood");
    at = rest + 1;
  }
}

}  // namespace

Topology::Topology(const std::vector<uint64_t>& hosts) {
  std::map<uint64_t, int> known;
  for (size_t rank = 0; rank < hosts.size(); ++rank) {
    const auto [entry, added] = known.try_emplace(hosts[rank], static_cast<int>(members_.size()));
    if (added) members_.emplace_back();
    std::vector<int>& members = members_[static_cast<size_t>(entry->second)];
    node_of_.push_back(entry->second);
    local_.push_back(static_cast<int>(members.size()));
    members.push_back(static_cast<int>(rank));
  }
}

int Topology::partner(int rank, int node) const {
  const std::vector<int>& there = members(node);
  return there[static_cast<size_t>(local_rank(rank)) % there.size()];
}

int node_of_device(const std::string& nodes, int device, int devices) {
  if (nodes.empty()) return 0;
  if (nodes.rfind("map:", 0) == 0) {
    const std::vector<int> map = numbers(nodes.substr(4), nodes);
    return map[std::min(static_cast<size_t>(device), map.size() - 1)];
  }
  const std::vector<int> sizes = numbers(nodes, nodes);
  if (sizes.size() == 1) {
    require(sizes[0] > 0, ncclInvalidUsage, "SANDBOX_NODES=" + nodes + " is not a number of nodes");
    const int block = std::max(1, (devices + sizes[0] - 1) / sizes[0]);
    return std::min(device / block, sizes[0] - 1);
  }
  int first = 0;
  for (size_t node = 0; node < sizes.size(); ++node) {
    first += sizes[node];
    if (device < first) return static_cast<int>(node);
  }
  return static_cast<int>(sizes.size()) - 1;
}

uint64_t host_of_device(int device, int devices) {
  static const std::string identity = host_identity();
  return hash(identity + text("/%d", node_of_device(settings().nodes, device, devices)));
}

}  // namespace sandbox::nccl
