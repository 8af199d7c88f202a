// The counter of draws lives on the device and moves with every execution.
#include "catch.h"
#include "device_bytes.h"
#include "gradient_phases.h"
#include "kernels/launch.h"

using namespace sdp4bit;
using namespace sdp4bit::test;

namespace {

std::uint64_t value_of(const DeviceBytes& counter) {
  std::uint64_t value;
  require_success(cudaMemcpy(&value, counter.data(), sizeof(value), cudaMemcpyDeviceToHost));
  return value;
}

}  // namespace

TEST_CASE("Draw.AdvancesBeyond32Bits") {
  const DeviceBytes counter(std::vector<std::uint64_t>{0xffffffffu});
  require_success(advance_draw(counter.as<std::uint64_t>(), 3, nullptr));
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
      require_success(advance_draw(counter.as<std::uint64_t>(), 1, nullptr));
      messages.push_back(message.download());
    }
    return messages;
  };
  const std::vector<Bytes> first = two_executions();
  CHECK(first[0] != first[1]);
  CHECK(first == two_executions());
}
