// What the plugin calls to move a gradient: pointers, counts, a stream; no templates, no NCCL.
//
// Every launcher enqueues on `stream` and returns the launch's error. Counts are elements, strides of
// messages are bytes. Weights have launch_weight.h.
//
// The phases also take several calls at a time, which then share launches (batch.h): as many as have one
// type, and the same tables, peers, codecs and key.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "kernels/device_counters.h"
#include "kernels/wire_format.h"

namespace sdp4bit {

struct PhiloxSchedule;  // random.h

/// Who draws the noise: equal for a run with equal SDP4BIT_SEED, different for each rank and communicator.
struct NoiseKey {
  std::uint64_t seed = 0;
  std::uint32_t rank = 0;          // job-wide
  std::uint32_t communicator = 0;  // the communicator's number in the process

  friend bool operator==(const NoiseKey&, const NoiseKey&) = default;
};

/// Which draw: *counter + offset, read on the device, so that a replayed graph draws anew.
struct Draw {
  const std::uint64_t* counter = nullptr;
  std::uint32_t offset = 0;
};

/// `segments` arrays of `count` elements one behind the other, seen through one chunk of each.
struct Segments {
  const void* data = nullptr;
  ElementType type = ElementType::float32;
  std::size_t stride = 0;  // elements from one segment's start to the next's
  std::size_t offset = 0;  // first element of the chunk; a multiple of kBlock and of the codecs' groups
  std::size_t count = 0;   // elements of the chunk, > 0
  float factor = 1.0f;     // multiplies each element in fp32 at entry (PreMulSum) ...
  const void* device_factor =
      nullptr;  // ... or one element of `type` in device memory, read when the kernel runs
};

/// Messages of equal size, one behind the other.
struct Messages {
  std::byte* data = nullptr;  // 16-byte aligned
  std::size_t stride = 0;     // bytes, a multiple of 16
};

/// Phase 1 of a gradient's way (README.md). Message m carries the chunk of input segments
/// table[m * segments_per_message ...].
struct QuantizeArgs {
  Segments input;
  const std::uint32_t* table = nullptr;  // device: input segment of each travelling segment
  std::uint32_t message_count = 0;
  std::uint32_t segments_per_message = 0;
  Messages messages;
  Codec codec;
  NoiseKey key;
  Draw draw;
  MessageKind kind = MessageKind::gradient_in_node;  // also separates the noise of the phases
  std::uint32_t sender = 0;                          // rank in the communicator, for the header
  std::uint32_t chunk = 0;
  NonFiniteGroups* nonfinite = nullptr;  // device words that count, or nullptr
};
/// `schedule`: of the calls' key, where the caller has it ready.
cudaError_t quantize_batch(std::span<const QuantizeArgs> calls, cudaStream_t stream,
                           const PhiloxSchedule* schedule = nullptr);
inline cudaError_t quantize(const QuantizeArgs& args, cudaStream_t stream) {
  return quantize_batch({&args, 1}, stream);
}

/// Phase 3. Partial sum of node n = input segment own_table[n] (transformed, never quantized) + segment n of
/// each peer's message, added in rank order: peers' messages lie in rank order and own_position says how many
/// come first.
struct ReduceRequantizeArgs {
  Segments input;
  const std::uint32_t* own_table =
      nullptr;        // device: input segment of (node, own local rank), node_count entries
  Messages received;  // peer_count messages of node_count segments
  std::uint32_t peer_count = 0;
  std::uint32_t own_position = 0;
  Codec received_codec;
  std::uint32_t node_count = 0;
  std::uint32_t own_node = 0;
  Messages messages;  // node_count - 1 messages of one segment, in node order without own_node
  float* own_partial =
      nullptr;  // 16-byte aligned, padded_count(count) floats: the own node's sum, still transformed
  Codec codec;
  NoiseKey key;
  Draw draw;
  std::uint32_t sender = 0;
  std::uint32_t chunk = 0;
  std::uint32_t* error =
      nullptr;  // the host reads it; set to 1 when a received header cannot be; may be nullptr
  NonFiniteGroups* nonfinite = nullptr;
};
cudaError_t reduce_requantize_batch(std::span<const ReduceRequantizeArgs> calls, cudaStream_t stream,
                                    const PhiloxSchedule* schedule = nullptr);
inline cudaError_t reduce_requantize(const ReduceRequantizeArgs& args, cudaStream_t stream) {
  return reduce_requantize_batch({&args, 1}, stream);
}

/// What the last kernel of a group's gradients does besides: *counter += by, after all draws are made; then
/// copies what kernels counted.
struct DrawAdvance {
  std::uint64_t* counter = nullptr;  // nullptr: nothing of this
  std::uint32_t by = 0;
  CounterMirror mirror = {};
  std::uint32_t* finished_blocks = nullptr;  // device: a word that is 0 between launches
};

/// Phase 5. output = round(out_factor * inverse transform(own + received in rank order)).
/// Own is `own_partial` where given (already transformed), else input segment own_segment.
struct ReduceFinishArgs {
  Segments input;  // type, offset and count also describe the output
  const float* own_partial = nullptr;
  std::uint32_t own_segment = 0;  // of the input: the rank, which also keys the senders' noise
  Messages received;              // message_count messages of one segment
  std::uint32_t message_count = 0;
  std::uint32_t own_position = 0;
  Codec codec;
  float out_factor = 1.0f;  // 1/W for Avg
  void* output = nullptr;   // first element of the *shard*; the chunk is written at input.offset
  std::uint32_t chunk = 0;
  MessageKind kind = MessageKind::gradient_between_nodes;
  std::uint32_t* error = nullptr;
  NonFiniteGroups* nonfinite = nullptr;
};
cudaError_t reduce_finish_batch(std::span<const ReduceFinishArgs> calls, cudaStream_t stream,
                                const DrawAdvance& advance = {});
inline cudaError_t reduce_finish(const ReduceFinishArgs& args, cudaStream_t stream,
                                 const DrawAdvance& advance = {}) {
  return reduce_finish_batch({&args, 1}, stream, advance);
}

/// Loads every kernel on the current device, so that no later launch has to.
cudaError_t load_kernels();

}  // namespace sdp4bit
