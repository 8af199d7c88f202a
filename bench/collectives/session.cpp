// One rank's device, stream and communicator, and what the ranks tell each other beside the measured calls.
#include "session.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <stdexcept>
#include <vector>

#include "check.h"
#include "sandbox/nccl/extension.h"

namespace collectives {

namespace {

// Of this rank's host; a whole number that a double holds exactly.
double host_number() {
  std::string text;
  if (const char* id = std::getenv("NCCL_HOSTID")) {
    text = id;
  } else {
    std::array<char, 256> name{};
    (void)gethostname(name.data(), name.size() - 1);
    std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), text);
    text += name.data();
  }
  return static_cast<double>(std::hash<std::string>{}(text) >> 12);
}

}  // namespace

DeviceBuffer::DeviceBuffer(std::size_t bytes) : size_(bytes) {
  // One byte where none is asked for, so that an empty buffer has an address too.
  check(cudaMalloc(&data_, bytes ? bytes : 1));
}

DeviceBuffer::~DeviceBuffer() {
  (void)cudaFree(data_);
}

std::optional<Traffic> traffic_so_far() {
  static const auto get =
      reinterpret_cast<decltype(&sandboxNcclGetTraffic)>(dlsym(RTLD_DEFAULT, "sandboxNcclGetTraffic"));
  if (!get) return std::nullopt;
  sandboxNcclTraffic total{};
  get(&total);
  return Traffic{total.bytes_in_node, total.bytes_between_nodes};
}

Session::Session(const std::string& id_file, const RankIdentity& identity) : identity_(identity) {
  int devices = 0;
  check(cudaGetDeviceCount(&devices));
  // NCCL can be told that ranks share devices, from 2.30 on.
  const char* const shares = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  const bool shared = shares != nullptr && std::string(shares) == "1" && devices > 0;
  if (!shared && identity.local_rank >= devices) {
    throw std::runtime_error("this machine has " + std::to_string(devices) +
                             " devices, too few for local rank " + std::to_string(identity.local_rank));
  }
  check(cudaSetDevice(shared ? identity.local_rank % devices : identity.local_rank));
  const ncclUniqueId id = share_unique_id(id_file, identity);
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  check(ncclCommInitRank(&communicator_, identity.ranks, id, identity.rank));
  if (identity.rank == 0)
    std::filesystem::remove(id_file);  // all have read it, or there were no communicator
  nodes_ = count_nodes();
}

Session::~Session() {
  if (communicator_) (void)ncclCommDestroy(communicator_);
  if (stream_) (void)cudaStreamDestroy(stream_);
}

void Session::synchronize() const {
  check(cudaStreamSynchronize(stream_));
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(communicator_, &state));
  check(state);
}

void Session::upload(std::byte* device, std::span<const std::byte> host) const {
  check(cudaMemcpyAsync(device, host.data(), host.size(), cudaMemcpyHostToDevice, stream_));
  check(cudaStreamSynchronize(stream_));
}

void Session::download(std::span<std::byte> host, const std::byte* device) const {
  check(cudaMemcpyAsync(host.data(), device, host.size(), cudaMemcpyDeviceToHost, stream_));
  check(cudaStreamSynchronize(stream_));
}

void Session::reduce(std::span<double> values, ncclRedOp_t operation) const {
  const DeviceBuffer buffer(values.size_bytes());
  upload(buffer.data(), std::as_bytes(values));
  check(ncclAllReduce(buffer.data(), buffer.data(), values.size(), ncclFloat64, operation, communicator_,
                      stream_));
  download(std::as_writable_bytes(values), buffer.data());
}

int Session::count_nodes() const {
  std::vector<double> hosts(static_cast<std::size_t>(ranks()));
  hosts[static_cast<std::size_t>(rank())] = host_number();
  sum(hosts);
  return static_cast<int>(std::set<double>(hosts.begin(), hosts.end()).size());
}

void Session::barrier() const {
  std::array<double, 1> nothing{};
  sum(nothing);
}

bool Session::equal_everywhere(std::uint64_t value) const {
  // Halves of 32 bits are exact in a double; the maximum of a value and of its negative bound it from both
  // sides.
  const double high = static_cast<double>(value >> 32), low = static_cast<double>(value & 0xffffffffu);
  std::array<double, 4> bounds{high, -high, low, -low};
  maximum(bounds);
  return bounds[0] == -bounds[1] && bounds[2] == -bounds[3];
}

}  // namespace collectives
