// Upload of rank tables; see weight_tables.h.
#include "plugin/weight_tables.h"

#include <algorithm>

namespace sdp4bit {

WeightTables::WeightTables(WeightPath weight_path, const Topology& topology)
    : path(weight_path),
      own_place(sdp4bit::own_place(weight_path, topology)),
      holdings(weight_holdings(weight_path, topology)),
      message_senders(sdp4bit::message_senders(weight_path, topology)),
      local_peers(sdp4bit::local_peers(weight_path, topology)) {
  if (path == WeightPath::none) return;
  std::vector<std::uint32_t> table = holdings;
  const auto append = [&](const std::vector<std::uint32_t>& part) {
    table.insert(table.end(), part.begin(), part.end());
  };
  append(message_senders);
  append(message_places(path, topology));
  append(staged_senders(path, topology));
  const std::size_t bytes = table.size() * sizeof(std::uint32_t);
  source_ = PinnedBuffer(bytes);
  memory_ = DeviceBuffer(bytes);
  device_ = memory_.as<std::uint32_t>();
  std::copy(table.begin(), table.end(), source_.as<std::uint32_t>());
}

void WeightTables::upload(cudaStream_t stream) {
  if (uploaded_) return;
  check(cudaMemcpyAsync(memory_.data(), source_.data(), source_.bytes(), cudaMemcpyHostToDevice, stream));
  uploaded_ = true;
}

}  // namespace sdp4bit
