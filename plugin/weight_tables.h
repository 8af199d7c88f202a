// The device's copy of who sends and who holds: rank tables of one path, uploaded once.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <vector>

#include "plugin/cuda_raii.h"
#include "plugin/topology.h"
#include "plugin/weight_layout.h"

namespace sdp4bit {

class WeightTables {
 public:
  WeightTables(WeightPath path, const Topology& topology);

  const WeightPath path;
  const std::uint32_t own_place;
  const std::vector<std::uint32_t> holdings;         // ranks by place
  const std::vector<std::uint32_t> message_senders;  // ranks by message of the first exchange
  const std::vector<std::uint32_t> local_peers;      // ranks by message of the exchange in the node

  /// Enqueues the upload before the first kernel that reads the tables; later ones do nothing.
  void upload(cudaStream_t stream);
  [[nodiscard]] const std::uint32_t* device_holdings() const { return device_; }
  [[nodiscard]] const std::uint32_t* device_senders() const { return device_holdings() + holdings.size(); }
  [[nodiscard]] const std::uint32_t* device_places() const {
    return device_senders() + message_senders.size();
  }
  /// `holdings.size()` ranks for each local peer.
  [[nodiscard]] const std::uint32_t* device_staged() const {
    return device_places() + message_senders.size();
  }

 private:
  PinnedBuffer source_;
  DeviceBuffer memory_;
  const std::uint32_t* device_ = nullptr;
  bool uploaded_ = false;
};

}  // namespace sdp4bit
