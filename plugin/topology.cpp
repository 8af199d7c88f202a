// Nodes from host hashes, and what a launcher says about this process.
#include "plugin/topology.h"

#include <unistd.h>

#include <algorithm>
#include <array>

#include "plugin/options.h"
#include "plugin/text_file.h"

namespace sdp4bit {

std::uint64_t hash_text(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325u;  // FNV-1a
  for (const char character : text) hash = (hash ^ static_cast<unsigned char>(character)) * 0x100000001b3u;
  return hash;
}

std::uint64_t host_hash() {
  const std::string host_id = environment_text("NCCL_HOSTID");
  if (!host_id.empty()) return hash_text(host_id);
  const std::string boot_id = read_text_file("/proc/sys/kernel/random/boot_id");
  return hash_text(host_name() + boot_id.substr(0, boot_id.find('\n')));
}

std::string host_name() {
  std::array<char, 256> name{};
  (void)::gethostname(name.data(), name.size() - 1);
  return name.data();
}

Topology make_topology(std::span<const std::uint64_t> host_hashes, std::uint32_t rank,
                       std::uint32_t local_size) {
  Topology topology;
  topology.ranks = static_cast<std::uint32_t>(host_hashes.size());
  topology.rank = rank;
  std::vector<std::uint64_t> seen;  // hash of each node, in the order of lowest ranks
  for (std::uint32_t r = 0; r < topology.ranks; ++r) {
    const std::uint64_t host = local_size > 0 ? r / local_size : host_hashes[r];
    const auto found = std::find(seen.begin(), seen.end(), host);
    const auto node = static_cast<std::uint32_t>(found - seen.begin());
    if (found == seen.end()) {
      seen.push_back(host);
      topology.members.emplace_back();
    }
    if (r == rank) {
      topology.node = node;
      topology.local_rank = static_cast<std::uint32_t>(topology.members[node].size());
    }
    topology.node_of.push_back(node);
    topology.members[node].push_back(r);
  }
  topology.node_count = static_cast<std::uint32_t>(seen.size());
  topology.local_size = static_cast<std::uint32_t>(topology.members.front().size());
  topology.equal_nodes = std::all_of(topology.members.begin(), topology.members.end(),
                                     [&](const auto& node) { return node.size() == topology.local_size; });
  return topology;
}

std::int64_t job_rank() {
  constexpr std::array kNames{"RANK",     "OMPI_COMM_WORLD_RANK", "PMIX_RANK",
                              "PMI_RANK", "MV2_COMM_WORLD_RANK",  "SLURM_PROCID"};
  return environment_number(kNames);
}

std::int64_t job_size() {
  constexpr std::array kNames{"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "MV2_COMM_WORLD_SIZE",
                              "SLURM_NTASKS"};
  return environment_number(kNames);
}

}  // namespace sdp4bit
