// The counter of draws lives on the device and moves with every execution.
#include "catch.h"
#include "device_bytes.h"
#include "gradient_phases.h"
#include "kernels/launch.h"
#include "kernels/tuning.h"

using namespace sdp4bit;
using namespace sdp4bit::test;

namespace {

std::uint64_t value_of(const DeviceBytes& counter) {
  std::uint64_t value;
  require_success(cudaMemcpy(&value, counter.data(), sizeof(value), cudaMemcpyDeviceToHost));
  return value;
}

/// A group's last kernel, over several thread blocks, of a call without peers.
void advance(const DeviceBytes& counter, std::uint32_t by) {
  constexpr std::size_t kCount = 3 * kTile + 1;
  const DeviceBytes input(make_elements(ElementType::float32, kCount, Content::gaussian, 1));
  const DeviceBytes output(kCount * sizeof(float), std::byte{0});
  const DeviceBytes finished(std::vector<std::uint32_t>{0});
  require_success(reduce_finish({.input = {.data = input.data(), .stride = kCount, .count = kCount},
                                 .received = {},
                                 .codec = {},
                                 .output = output.data()},
                                nullptr,
                                {.counter = counter.as<std::uint64_t>(),
                                 .by = by,
                                 .mirror = {},
                                 .finished_blocks = finished.as<std::uint32_t>()}));
  require_success(cudaDeviceSynchronize());
  std::uint32_t left = 1;
  require_success(cudaMemcpy(&left, finished.data(), sizeof(left), cudaMemcpyDeviceToHost));
  CHECK(left == 0);  // ready for the next launch
}

}  // namespace

TEST_CASE("Draw.AdvancesOnceAGroupAndBeyond32Bits") {
  const DeviceBytes counter(std::vector<std::uint64_t>{0xffffffffu});
  advance(counter, 3);
  CHECK(value_of(counter) == std::uint64_t{0xffffffffu} + 3);
}

TEST_CASE("Draw.TwoExecutionsOfOneLaunchDrawAnewAndARerunDrawsTheSame") {
  const Bytes input = make_elements(ElementType::float32, 4096, Content::gaussian, 1);
  const DeviceBytes device_input(input);
  const DeviceBytes table(std::vector<std::uint32_t>{0});
  const auto two_executions = [&] {
    const DeviceBytes counter(std::vector<std::uint64_t>{17});
    std::vector<Bytes> messages;
    for (int execution = 0; execution < 2; ++execution) {
      const std::size_t stride = message_bytes(4096, 1, Codec{});
      const DeviceBytes message(stride, std::byte{0});
      require_success(quantize({.input = {.data = device_input.data(), .stride = 4096, .count = 4096},
                                .table = table.as<std::uint32_t>(),
                                .message_count = 1,
                                .segments_per_message = 1,
                                .messages = {message.data(), stride},
                                .codec = {},
                                .key = {},
                                .draw = {.counter = counter.as<std::uint64_t>()}},
                               nullptr));
      advance(counter, 1);
      messages.push_back(message.download());
    }
    return messages;
  };
  const std::vector<Bytes> first = two_executions();
  CHECK(first[0] != first[1]);
  CHECK(first == two_executions());
}
