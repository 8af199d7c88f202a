// Each operation on weights run twice on the same arguments: by its kernel on device memory, by the reference
// on host memory. Outputs are filled with different bytes before, so what either leaves unwritten shows as a
// difference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "../device_bytes.h"
#include "../gradient_data.h"
#include "kernels/launch_probe.h"
#include "kernels/launch_weight.h"

namespace sdp4bit::test {

/// A buffer on the host and the same one on the device.
class Both {
 public:
  /// Holds the same content.
  explicit Both(const Bytes& content, std::size_t misalignment = 0)
      : host_(content.size() + misalignment), misalignment_(misalignment), device_(content, misalignment) {
    std::copy(content.begin(), content.end(), host());
  }
  /// An output that must be written in full.
  explicit Both(std::size_t bytes, std::size_t misalignment = 0)
      : host_(bytes + misalignment, std::byte{0x11}),
        misalignment_(misalignment),
        device_(bytes, std::byte{0xee}, misalignment) {}

  [[nodiscard]] std::byte* host() { return host_.data() + misalignment_; }
  [[nodiscard]] std::byte* device() const { return device_.data(); }
  [[nodiscard]] Bytes content() { return {host(), host_.data() + host_.size()}; }
  [[nodiscard]] std::string difference(const char* name) {
    const std::string first = first_difference(device_.download(), content());
    return first.empty() ? first : std::string(name) + ": " + first + "; ";
  }

 private:
  Bytes host_;
  std::size_t misalignment_;
  DeviceBytes device_;
};

struct WeightCase {
  ElementType type = ElementType::bfloat16;
  Codec codec{.bits = 4, .group_size = 2048, .coding = Coding::nearest, .hadamard = false};
  std::size_t count = 1;   // of the chunk
  std::size_t offset = 0;  // of the chunk; the shard ends `behind` elements after it
  std::size_t behind = 0;
  std::size_t misalignment = 0;  // bytes, of the shard and the receive buffer
  Content content = Content::gaussian;
  bool has_entry = true;
  bool in_place = true;
  bool staged = true;
  unsigned seed = 1;

  [[nodiscard]] WeightChunk chunk() const;
};

/// All run their operation on both and return what differs, empty where nothing does.
std::string compare_encode_and_seal(const WeightCase& test);
/// `bad_byte`: byte of one header that is wrong; sizeof(MessageHeader): none.
std::string compare_add_and_scatter(const WeightCase& test, std::uint32_t senders, std::uint32_t skipped,
                                    std::size_t bad_byte);
std::string compare_sample_and_record(const WeightCase& test, bool known, float step);
std::string compare_set_entries(const WeightCase& test, std::uint32_t ranks, std::uint32_t not_ready,
                                std::size_t bad_byte);
/// A step is chosen and applied, the shard does what `program` says (`kept` of the step, then its own
/// `movement`), and the answer is taken.
struct ProbeProgram {
  float kept = 1.0f;
  float movement = 0.0f;
  bool starts_again = true;
  bool moved = false;    // asked for in a buffer that is new
  bool jumps = false;    // when the step is chosen
  bool has_nan = false;  // the first element, which nobody may touch
};
std::string compare_probe(const WeightCase& test, const ProbeProgram& program);
std::string compare_publish(std::uint32_t rows, std::uint32_t columns, unsigned seed);

}  // namespace sdp4bit::test
