// The kernels of a weight's way, with the codecs of differences.
#include "cases.h"
#include "kernels/launch_weight.h"
#include "kernels/weight_header.h"

namespace sdp4bit::bench {
namespace {

constexpr Codec kInt4{.bits = 4, .group_size = 2048, .coding = Coding::nearest, .hadamard = false};
constexpr Codec kCompand4{.bits = 4,
                          .group_size = 1024,
                          .scale = ScaleType::bfloat16,
                          .coding = Coding::companded,
                          .hadamard = false};

WeightChunk whole_shard(std::size_t count, const Codec& codec) {
  return {.codec = codec, .shard = count, .count = count, .class_call = 9, .slots = 1};
}

/// `staged`: the chunk is also laid out for the node's other ranks.
EncodeDifferenceArgs difference(DeviceMemory& memory, std::size_t count, const Codec& codec, bool staged) {
  const std::byte* const shard = memory.gaussian_bfloat16(count, 1);
  return {
      .chunk = whole_shard(count, codec),
      .shard = shard,
      .entry = memory.gaussian_bfloat16(count, 2, 0.9f),
      .message = memory.zeros(message_bytes(count, 1, codec)),
      .maxima = reinterpret_cast<GroupMaxima*>(memory.zeros(group_count(count, codec) * sizeof(GroupMaxima))),
      .staged = staged ? memory.zeros(staged_chunk_bytes(count, ElementType::bfloat16)) : nullptr};
}

std::unique_ptr<PreparedCase> prepare_difference(std::size_t count, const Codec& codec, bool staged) {
  auto made = std::make_unique<PreparedCase>();
  const EncodeDifferenceArgs args = difference(made->memory, count, codec, staged);
  made->elements = count;
  made->read_bytes = 2 * count * 2;
  made->written_bytes = (staged ? 2 : 1) * count * 2 + segment_bytes(count, codec);
  made->launch = [args](cudaStream_t stream) { return encode_difference(args, stream); };
  return made;
}

/// The header that seal_difference would write, in front of codes that encode_difference wrote.
Messages sealed_message(DeviceMemory& memory, std::size_t count, const Codec& codec) {
  DeviceMemory scratch;
  EncodeDifferenceArgs args = difference(scratch, count, codec, false);
  const std::size_t stride = message_bytes(count, 1, codec);
  args.message = memory.zeros(stride);
  check(encode_difference(args, nullptr));
  const MessageHeader header = weight_header(MessageKind::weight_difference, args.chunk, 0, 0, 0);
  check(cudaMemcpy(args.message, &header, sizeof header, cudaMemcpyHostToDevice));
  check(cudaDeviceSynchronize());
  return {args.message, stride};
}

std::unique_ptr<PreparedCase> prepare_apply(std::size_t count, const Codec& codec, bool staged) {
  auto made = std::make_unique<PreparedCase>();
  DeviceMemory& memory = made->memory;
  const std::vector<std::uint32_t> zero{0};
  const AddDifferenceArgs args{
      .chunk = whole_shard(count, codec),
      .messages = sealed_message(memory, count, codec),
      .message_count = 1,
      .senders = memory.copy_of(zero),
      .places = memory.copy_of(zero),
      .ledger = memory.gaussian_bfloat16(count, 2),
      .receive = memory.zeros(count * 2),
      .staging = staged ? memory.zeros(staged_message_bytes(1, count, ElementType::bfloat16)) : nullptr,
      .staged_senders = 1,
      .error = memory.copy_of(zero)};
  made->elements = count;
  made->read_bytes = count * 2 + segment_bytes(count, codec);
  made->written_bytes = (staged ? 3 : 2) * count * 2;
  made->launch = [args](cudaStream_t stream) { return add_difference(args, stream); };
  return made;
}

std::unique_ptr<PreparedCase> prepare_scatter(std::size_t count) {
  auto made = std::make_unique<PreparedCase>();
  DeviceMemory& memory = made->memory;
  const WeightChunk chunk = whole_shard(count, kInt4);
  const std::size_t bytes = staged_message_bytes(1, count, ElementType::bfloat16);
  std::byte* const message = memory.zeros(bytes);
  const MessageHeader header = weight_header(MessageKind::weight_difference, chunk, 0, 0, 0);
  check(cudaMemcpy(message, &header, sizeof header, cudaMemcpyHostToDevice));
  const std::vector<std::uint32_t> zero{0};
  const ScatterShardsArgs args{.chunk = chunk,
                               .messages = {message, bytes},
                               .message_count = 1,
                               .senders_per_message = 1,
                               .senders = memory.copy_of(zero),
                               .receive = memory.zeros(count * 2),
                               .error = memory.copy_of(zero)};
  made->elements = count;
  made->read_bytes = count * 2;
  made->written_bytes = count * 2;
  made->launch = [args](cudaStream_t stream) { return scatter_shards(args, stream); };
  return made;
}

}  // namespace

std::vector<Case> weight_cases() {
  std::vector<Case> cases;
  for (const Codec& codec : {kInt4, kCompand4}) {
    for (const bool staged : {false, true}) {
      const std::string suffix = describe(codec) + (staged ? ", staged" : "");
      cases.push_back({"difference bf16 -> " + suffix,
                       codec == kCompand4 ? "encode_companded_kernel" : "encode_difference_kernel",
                       [=](std::size_t count) { return prepare_difference(count, codec, staged); }});
    }
  }
  for (const Codec& codec : {kInt4, kCompand4}) {
    for (const bool staged : {false, true}) {
      const std::string suffix = describe(codec) + " -> bf16" + (staged ? ", staged" : "");
      cases.push_back({"apply " + suffix,
                       codec == kCompand4 ? "add_companded_kernel" : "add_difference_kernel",
                       [=](std::size_t count) { return prepare_apply(count, codec, staged); }});
    }
  }
  cases.push_back({"scatter bf16", "scatter_shards_kernel", prepare_scatter});
  return cases;
}

}  // namespace sdp4bit::bench
