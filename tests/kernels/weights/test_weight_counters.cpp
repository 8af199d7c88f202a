// What the kernels of companded differences move: at most a fiftieth more than they must, side by side.
#include <algorithm>
#include <cstring>
#include <vector>

#include "catch.h"
#include "kernels/weight_header.h"
#include "sandbox/cudart/extension.h"
#include "weight_phases.h"

using namespace sdp4bit;
using namespace sdp4bit::test;

namespace {

constexpr std::size_t kCount = std::size_t{1} << 16;
constexpr Codec kCompanded{.bits = 4,
                           .group_size = 1024,
                           .scale = ScaleType::bfloat16,
                           .coding = Coding::companded,
                           .hadamard = false};

/// Of the one kernel that ran since the counters were reset: bytes over the least, and sectors touched over
/// those that the bytes fill.
struct Moved {
  double bytes = 0, sectors = 0;
};
Moved moved(const char* kernel, std::size_t least_bytes) {
  require_success(cudaDeviceSynchronize());
  std::vector<sandboxKernelCounters> counters(256);
  counters.resize(std::min(counters.size(), sandboxGetKernelCounters(counters.data(), counters.size())));
  for (const sandboxKernelCounters& c : counters) {
    if (c.launches == 0 || std::strstr(c.kernel, kernel) == nullptr) continue;
    const auto bytes = static_cast<double>(c.global_bytes_loaded + c.global_bytes_stored);
    return {bytes / static_cast<double>(least_bytes), 32.0 * static_cast<double>(c.global_sectors) / bytes};
  }
  return {};
}

}  // namespace

TEST_CASE("WeightCounters.EncodeAndAddMoveLittleMoreThanTheyMust") {
  const WeightChunk chunk{.codec = kCompanded, .shard = kCount, .count = kCount, .class_call = 9, .slots = 1};
  const std::size_t shard_bytes = kCount * 2, coded_bytes = segment_bytes(kCount, kCompanded);
  const DeviceBytes shard(make_elements(ElementType::bfloat16, kCount, Content::gaussian, 1));
  const DeviceBytes entry(make_elements(ElementType::bfloat16, kCount, Content::gaussian, 2));
  const std::size_t stride = message_bytes(kCount, 1, kCompanded);
  const DeviceBytes message(stride, std::byte{0}), receive(shard_bytes, std::byte{0});
  const DeviceBytes staging(staged_message_bytes(1, kCount, ElementType::bfloat16), std::byte{0});
  const DeviceBytes maxima(group_count(kCount, kCompanded) * sizeof(GroupMaxima), std::byte{0});
  sandboxResetKernelCounters();
  require_success(encode_difference({.chunk = chunk,
                                     .shard = shard.data(),
                                     .entry = entry.data(),
                                     .message = message.data(),
                                     .maxima = maxima.as<GroupMaxima>(),
                                     .staged = staging.data() + sizeof(MessageHeader)},
                                    nullptr));
  const Moved encoded = moved("encode_companded_kernel", 4 * shard_bytes + coded_bytes);
  CHECK(encoded.bytes >= 1.0);
  CHECK(encoded.bytes <= 1.02);
  CHECK(encoded.sectors <= 1.05);

  const MessageHeader header = weight_header(MessageKind::weight_difference, chunk, 0, 0, 0);
  require_success(cudaMemcpy(message.data(), &header, sizeof header, cudaMemcpyHostToDevice));
  const DeviceBytes zero(std::vector<std::uint32_t>{0});
  sandboxResetKernelCounters();
  require_success(add_difference({.chunk = chunk,
                                  .messages = {message.data(), stride},
                                  .message_count = 1,
                                  .senders = zero.as<std::uint32_t>(),
                                  .places = zero.as<std::uint32_t>(),
                                  .ledger = entry.data(),
                                  .receive = receive.data(),
                                  .staging = staging.data(),
                                  .staged_senders = 1,
                                  .error = zero.as<std::uint32_t>()},
                                 nullptr));
  const Moved added = moved("add_companded_kernel", 4 * shard_bytes + coded_bytes);
  CHECK(added.bytes >= 1.0);
  CHECK(added.bytes <= 1.02);
  CHECK(added.sectors <= 1.05);
}
