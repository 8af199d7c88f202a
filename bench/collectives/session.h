// One rank's device, stream and communicator, and what the ranks tell each other beside the measured calls.
#pragma once

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "launch.h"

namespace collectives {

// Device memory that is freed with its owner.
class DeviceBuffer {
 public:
  explicit DeviceBuffer(std::size_t bytes);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t size() const { return size_; }

 private:
  void* data_ = nullptr;
  std::size_t size_;
};

// Bytes that this process's ranks have sent so far.
struct Traffic {
  std::uint64_t in_node;
  std::uint64_t between_nodes;
};

// Known only where NCCL counts them, which the sandbox's does.
std::optional<Traffic> traffic_so_far();

class Session {
 public:
  Session(const std::string& id_file, const RankIdentity& identity);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  int rank() const { return identity_.rank; }
  int ranks() const { return identity_.ranks; }
  // Told apart as NCCL does: by NCCL_HOSTID, else by host name and boot id.
  int nodes() const { return nodes_; }
  ncclComm_t communicator() const { return communicator_; }
  cudaStream_t stream() const { return stream_; }

  void synchronize() const;
  void upload(std::byte* device, std::span<const std::byte> host) const;
  void download(std::span<std::byte> host, const std::byte* device) const;

  // Each replaces the values on every rank by their sum or maximum over all ranks; all ranks must call it.
  void sum(std::span<double> values) const { reduce(values, ncclSum); }
  void maximum(std::span<double> values) const { reduce(values, ncclMax); }
  void barrier() const;
  bool equal_everywhere(std::uint64_t value) const;

 private:
  void reduce(std::span<double> values, ncclRedOp_t operation) const;
  int count_nodes() const;

  RankIdentity identity_;
  cudaStream_t stream_ = nullptr;
  ncclComm_t communicator_ = nullptr;
  int nodes_ = 1;
};

}  // namespace collectives
