// Each phase of a gradient run twice on the same arguments: by its kernel on device memory, by the reference
// on host memory. Buffers are filled with different bytes before, so what either leaves unwritten shows as a
// difference.
#pragma once

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "gradient_data.h"
#include "kernels/launch.h"

namespace sdp4bit::test {

/// What a phase has in common with the others.
struct PhaseCase {
  ElementType type = ElementType::float32;
  Codec codec{};  // of the messages written, or read by the last phase
  std::size_t count = 1;
  std::size_t offset = 0;        // of the chunk
  std::size_t misalignment = 0;  // bytes
  Content content = Content::gaussian;
  float factor = 1.0f;
  bool factor_on_device = false;
  unsigned seed = 1;
};

struct QuantizeCase : PhaseCase {
  std::vector<std::uint32_t> table{1, 0};
  std::uint32_t segments_per_message = 1;
};
struct ReduceRequantizeCase : PhaseCase {
  Codec received_codec{.bits = 8};
  std::uint32_t peers = 1;
  std::uint32_t own_position = 0;
  std::uint32_t nodes = 2;
  std::uint32_t own_node = 0;
  std::size_t bad_header_byte = sizeof(MessageHeader);  // byte of peer 0's header that is wrong; none
};
struct ReduceFinishCase : PhaseCase {
  std::uint32_t messages = 1;
  std::uint32_t own_position = 0;
  bool from_partial = false;
  bool in_place = false;
  float out_factor = 1.0f;
  std::size_t output_misalignment = 0;
  std::size_t bad_header_byte = sizeof(MessageHeader);
};

/// One case for each type, codec and count, with a group size and contents that change from case to case.
template <typename Take>
void for_each_sample(Take take) {
  unsigned seed = 0;
  for (const ElementType type : kTypes) {
    for (const Codec& any_group : codecs(128)) {
      for (const std::size_t count : kCounts) {
        ++seed;
        PhaseCase sample{.type = type, .codec = any_group, .count = count, .seed = seed};
        sample.codec.group_size = kGroups[seed % std::size(kGroups)];
        sample.content = kContents[seed % 3 == 0 ? 2 : seed % 4];
        take(sample);
      }
    }
  }
}

/// The full product of group sizes, types, codecs and counts.
template <typename Take>
void for_each_case(Take take) {
  unsigned seed = 0;
  for (const std::uint32_t group : kGroups) {
    for (const ElementType type : kTypes) {
      for (const Codec& codec : codecs(group)) {
        for (const std::size_t count : kCounts) {
          ++seed;
          take(PhaseCase{.type = type,
                         .codec = codec,
                         .count = count,
                         .misalignment = seed % 5 == 0 ? element_bytes(type) : 0,
                         .content = kContents[seed % 4],
                         .seed = seed});
        }
      }
    }
  }
}

/// Both run their phase and return the first difference, empty where there is none.
std::string compare_quantize(const QuantizeCase& test);
std::string compare_reduce_requantize(const ReduceRequantizeCase& test);
std::string compare_reduce_finish(const ReduceFinishCase& test);

}  // namespace sdp4bit::test
