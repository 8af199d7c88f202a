// Whatever a peer sends, kernels stay inside of their memory: headers are checked, no size in them is
// believed. Every buffer is of exactly the size that it needs, so the emulated GPU sees each access beyond
// it.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>

#include "../gradient_data.h"
#include "catch.h"
#include "kernels/header.h"
#include "kernels/launch_checksum.h"
#include "kernels/launch_health.h"
#include "kernels/launch_weight.h"
#include "kernels/record_header.h"
#include "kernels/weight_header.h"

using namespace sdp4bit;
using namespace sdp4bit::test;

namespace {

struct Figures {
  std::uint64_t launches = 0, refused = 0;  // refused: the error word was set
};

class Hostile {
 public:
  explicit Hostile(unsigned seed) : random_(seed) {}

  void gradients(Figures& figures);
  void differences(Figures& figures);
  void records(Figures& figures);
  void health(Figures& figures);
  void checksums(Figures& figures);

 private:
  std::uint64_t below(std::uint64_t limit) { return random_() % limit; }
  template <typename T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(values.size())];
  }

  Bytes noise(std::size_t bytes) {
    Bytes content(bytes);
    for (std::size_t i = 0; i < bytes; i += 8) {
      const std::uint64_t word = random_();
      std::memcpy(content.data() + i, &word, std::min<std::size_t>(8, bytes - i));
    }
    return content;
  }

  /// Some of a header's bytes are others than they should be; often only the value of one field.
  void spoil(MessageHeader& header) {
    const auto extreme = [&] {
      return one_of<std::uint64_t>({0, 1, 255, 256, 0x7fffffff, 0x80000000, 0xffffffff, ~std::uint64_t{0},
                                    std::uint64_t{1} << 47, random_()});
    };
    switch (below(10)) {
      case 0:
        break;
      case 1: {
        const Bytes bytes = noise(sizeof header);
        std::memcpy(&header, bytes.data(), sizeof header);
        break;
      }
      case 2:
        header.slot = static_cast<std::uint32_t>(extreme());
        break;
      case 3:
        header.count = extreme();
        break;
      case 4:
        header.flags = static_cast<std::uint32_t>(extreme());
        break;
      case 5:
        header.slot_count = static_cast<std::uint32_t>(extreme());
        break;
      case 6:
        header.call_or_key = extreme();
        header.draw = extreme();
        break;
      case 7:
        header.chunk = static_cast<std::uint32_t>(extreme());
        break;
      case 8:
        header.sender = static_cast<std::uint32_t>(extreme());
        header.class_number = static_cast<std::uint32_t>(extreme());
        break;
      default: {
        auto* const bytes = reinterpret_cast<unsigned char*>(&header);
        bytes[below(sizeof header)] ^= static_cast<unsigned char>(1u << below(8));
      }
    }
  }

  /// Messages with the headers that `header_of(message, column)` says, spoiled, and anything behind.
  template <typename HeaderOf>
  Bytes messages(std::size_t count, std::size_t stride, std::size_t headers, const HeaderOf& header_of) {
    Bytes content = noise(count * stride);
    for (std::size_t m = 0; m < count; ++m) {
      for (std::size_t h = 0; h < headers; ++h) {
        MessageHeader header = header_of(m, h);
        spoil(header);
        std::memcpy(content.data() + m * stride + h * sizeof header, &header, sizeof header);
      }
    }
    return content;
  }

  void finish(Figures& figures, const DeviceBytes& error, std::uint64_t launches) {
    require_success(cudaDeviceSynchronize());  // an access beyond a buffer fails here
    figures.launches += launches;
    std::uint32_t said;
    std::memcpy(&said, error.download().data(), sizeof said);
    figures.refused += said != 0;
  }

  ElementType type() { return kTypes[below(std::size(kTypes))]; }
  std::size_t count() { return kCounts[below(std::size(kCounts))]; }
  Codec gradient_codec(std::uint32_t bits) {
    return {.bits = bits,
            .group_size = kGroups[below(std::size(kGroups))],
            .scale = one_of({ScaleType::float32, ScaleType::bfloat16}),
            .coding = one_of({Coding::nearest, Coding::stochastic, Coding::dithered}),
            .hadamard = below(2) == 0};
  }

  std::mt19937_64 random_;
};

DeviceBytes zeroed(std::size_t bytes) {
  return DeviceBytes(bytes, std::byte{0});
}

void Hostile::gradients(Figures& figures) {
  const std::size_t elements = count();
  const ElementType kind = type();
  const auto peers = static_cast<std::uint32_t>(1 + below(3)),
             nodes = static_cast<std::uint32_t>(2 + below(2));
  Codec received = gradient_codec(8), sent = gradient_codec(4);
  sent.hadamard = received.hadamard;
  const auto header = [&](MessageKind of) {
    return [&, of](std::size_t m, std::size_t) {
      return gradient_header(of, random_(), static_cast<std::uint32_t>(m), 0, elements,
                             {static_cast<std::uint32_t>(random_()), 1});
    };
  };
  const std::size_t stride = message_bytes(elements, nodes, received),
                    second_stride = message_bytes(elements, 1, sent);
  const DeviceBytes first(messages(peers, stride, 1, header(MessageKind::gradient_in_node))),
      second(messages(nodes - 1, second_stride, 1, header(MessageKind::gradient_between_nodes))),
      input(make_elements(kind, elements * nodes, Content::gaussian, 1)),
      output = zeroed(elements * element_bytes(kind)),
      partial = zeroed(padded_count(elements) * sizeof(float)), sending = zeroed(second_stride * (nodes - 1)),
      counter = zeroed(8), error = zeroed(4), nonfinite = zeroed(sizeof(NonFiniteGroups));
  std::vector<std::uint32_t> own(nodes);
  for (std::uint32_t node = 0; node < nodes; ++node) own[node] = node;
  const DeviceBytes table(own);
  const Segments segments{.data = input.data(), .type = kind, .stride = elements, .count = elements};
  require_success(reduce_requantize({.input = segments,
                                     .own_table = table.as<std::uint32_t>(),
                                     .received = {first.data(), stride},
                                     .peer_count = peers,
                                     .own_position = static_cast<std::uint32_t>(below(peers + 1)),
                                     .received_codec = received,
                                     .node_count = nodes,
                                     .own_node = static_cast<std::uint32_t>(below(nodes)),
                                     .messages = {sending.data(), second_stride},
                                     .own_partial = partial.as<float>(),
                                     .codec = sent,
                                     .key = {},
                                     .draw = {.counter = counter.as<std::uint64_t>()},
                                     .error = error.as<std::uint32_t>(),
                                     .nonfinite = nonfinite.as<NonFiniteGroups>()},
                                    nullptr));
  require_success(reduce_finish({.input = segments,
                                 .own_partial = partial.as<float>(),
                                 .received = {second.data(), second_stride},
                                 .message_count = nodes - 1,
                                 .codec = sent,
                                 .output = output.data(),
                                 .error = error.as<std::uint32_t>(),
                                 .nonfinite = nonfinite.as<NonFiniteGroups>()},
                                nullptr));
  finish(figures, error, 2);
}

void Hostile::differences(Figures& figures) {
  WeightChunk chunk{.type = type(), .class_number = 3, .class_call = 41};
  chunk.codec.group_size = kGroups[below(std::size(kGroups))];
  chunk.codec.bits = one_of<std::uint32_t>({4, 8});
  chunk.codec.coding = chunk.codec.bits == 4 ? one_of({Coding::nearest, Coding::companded}) : Coding::nearest;
  chunk.shard = chunk.count = count();
  chunk.slots = static_cast<std::uint32_t>(below(4));  // 0: stateless
  constexpr std::uint32_t kRanks = 4, kNodes = 2;      // this is rank 0 of node 0; its column is 0 and 2
  const std::size_t element = element_bytes(chunk.type), stride = message_bytes(chunk.count, 1, chunk.codec),
                    staged_bytes = staged_message_bytes(kNodes, chunk.count, chunk.type);
  const auto header_of = [&](std::uint32_t sender) {
    return weight_header(MessageKind::weight_difference, chunk, sender,
                         static_cast<std::uint32_t>(below(std::max(chunk.slots, 1u))), kReady);
  };
  const DeviceBytes received(messages(1, stride, 1, [&](std::size_t, std::size_t) { return header_of(2); })),
      arriving(messages(
          1, staged_bytes, kNodes,
          [&](std::size_t, std::size_t h) { return header_of(static_cast<std::uint32_t>(1 + 2 * h)); })),
      ledger(noise(std::max<std::size_t>(16, kNodes * chunk.slots * entry_bytes(chunk.shard, chunk.type)))),
      receive = zeroed(kRanks * chunk.shard * element), staging = zeroed(staged_bytes), error = zeroed(4),
      nonfinite = zeroed(sizeof(NonFiniteGroups)), words = zeroed(sizeof(CallWords)),
      finished = zeroed(kFinishedWords * sizeof(std::uint32_t)), senders(std::vector<std::uint32_t>{2}),
      places(std::vector<std::uint32_t>{1}), staged_senders(std::vector<std::uint32_t>{1, 3});
  require_success(add_difference({.chunk = chunk,
                                  .messages = {received.data(), stride},
                                  .message_count = 1,
                                  .senders = senders.as<std::uint32_t>(),
                                  .places = places.as<std::uint32_t>(),
                                  .ledger = chunk.slots != 0 ? ledger.data() : nullptr,
                                  .receive = receive.data(),
                                  .staging = staging.data(),
                                  .staged_senders = kNodes,
                                  .error = error.as<std::uint32_t>(),
                                  .nonfinite = nonfinite.as<NonFiniteGroups>()},
                                 nullptr));
  PublishArgs publish{.tables = {}, .class_call = chunk.class_call, .words = words.as<CallWords>()};
  publish.tables[0] = {.data = received.data(), .row_stride = stride, .rows = 1};
  publish.tables[1] = {.data = arriving.data(), .row_stride = staged_bytes, .rows = 1, .columns = kNodes};
  const ScatterShards scatter{{.chunk = chunk,
                               .messages = {arriving.data(), staged_bytes},
                               .message_count = 1,
                               .senders_per_message = kNodes,
                               .senders = staged_senders.as<std::uint32_t>(),
                               .receive = receive.data(),
                               .error = error.as<std::uint32_t>()},
                              publish};
  require_success(scatter_shards_batch({&scatter, 1}, finished.as<std::uint32_t>(), nullptr));
  finish(figures, error, 3);
}

void Hostile::records(Figures& figures) {
  WeightChunk chunk{.type = type(), .class_number = 1, .class_call = 9};
  chunk.shard = chunk.count = count();
  chunk.slots = static_cast<std::uint32_t>(1 + below(3));
  constexpr std::uint32_t kRanks = 3;
  const std::uint32_t flags = below(4) == 0 ? kSeen : kSeen | kReady;
  const DeviceBytes all(messages(kRanks, sizeof(MessageHeader), 1,
                                 [&](std::size_t m, std::size_t) {
                                   MessageHeader record = weight_header(
                                       MessageKind::weight_record, chunk, static_cast<std::uint32_t>(m),
                                       static_cast<std::uint32_t>(below(chunk.slots)), flags);
                                   record.slot_count = chunk.slots;
                                   return record;
                                 })),
      receive(noise(kRanks * chunk.shard * element_bytes(chunk.type))),
      ledger(noise(kRanks * chunk.slots * entry_bytes(chunk.shard, chunk.type))),
      error = zeroed(4), all_ready = zeroed(4), words = zeroed(sizeof(CallWords)),
      senders(std::vector<std::uint32_t>{0, 1, 2});
  require_success(fill_damaged({.type = chunk.type,
                                .count = chunk.shard,
                                .senders = senders.as<std::uint32_t>(),
                                .sender_count = kRanks,
                                .records = all.data(),
                                .receive = receive.data()},
                               nullptr));
  require_success(set_entries({.chunk = chunk,
                               .records = all.data(),
                               .ranks = kRanks,
                               .all_ready = all_ready.as<std::uint32_t>(),
                               .senders = senders.as<std::uint32_t>(),
                               .sender_count = kRanks,
                               .receive = receive.data(),
                               .ledger = ledger.data(),
                               .words = words.as<CallWords>(),
                               .error = error.as<std::uint32_t>()},
                              nullptr));
  finish(figures, error, 3);
  CallWords said;
  std::memcpy(&said, words.download().data(), sizeof said);
  REQUIRE(said.number == chunk.class_call + 1);
  REQUIRE(said.max_slots <= kMostSlots);  // memory is asked for as many
}

void Hostile::health(Figures& figures) {
  constexpr std::uint32_t kRanks = 3;
  const std::size_t stride = one_of<std::size_t>({sizeof(HealthRecord), 2 * sizeof(HealthRecord)});
  const DeviceBytes all(noise(kRanks * stride)), words = zeroed(sizeof(HealthWords)), error = zeroed(4);
  require_success(publish_health({.records = all.data(),
                                  .stride = stride,
                                  .ranks = kRanks,
                                  .number = 1,
                                  .words = words.as<HealthWords>()},
                                 nullptr));
  finish(figures, error, 1);
  HealthWords said;
  std::memcpy(&said, words.download().data(), sizeof said);
  REQUIRE(said.unhealthy_ranks <= kRanks);
  REQUIRE(said.first_rank < kRanks);
}

void Hostile::checksums(Figures& figures) {
  const auto parts = static_cast<std::uint32_t>(1 + below(3)),
             headers = static_cast<std::uint32_t>(1 + below(3));
  const std::size_t bytes = headers * sizeof(MessageHeader) + 16 * below(3000);
  const DeviceBytes all(
      messages(parts, bytes, headers, [&](std::size_t, std::size_t) { return MessageHeader{}; })),
      sums = zeroed(parts * sizeof(ChecksumSum)), state = zeroed(sizeof(ChecksumState)),
      failure = zeroed(sizeof(ChecksumFailure)), counts = zeroed(2 * sizeof(ChecksumCounts));
  require_success(verify_checksums({.parts = checksummed_messages(all.data(), bytes, bytes, parts),
                                    .headers_per_part = headers,
                                    .flags = one_of<std::uint32_t>({0, kReady}),
                                    .sums = sums.as<ChecksumSum>(),
                                    .state = state.as<ChecksumState>(),
                                    .exchange = 1,
                                    .passed_on = 2,
                                    .failure = failure.as<ChecksumFailure>(),
                                    .error = &failure.as<ChecksumFailure>()->padding,
                                    .counts = counts.as<ChecksumCounts>(),
                                    .host_counts = counts.as<ChecksumCounts>() + 1},
                                   nullptr));
  finish(figures, failure, 1);
  ChecksumFailure said;
  std::memcpy(&said, failure.download().data(), sizeof said);
  REQUIRE((said.found == 0 || said.part < parts * headers));
}

void run_for(std::chrono::seconds time, unsigned seed) {
  Figures figures;
  std::uint64_t rounds = 0;
  const auto end = std::chrono::steady_clock::now() + time;
  while (rounds < 20 || std::chrono::steady_clock::now() < end) {
    INFO("seed " << seed + rounds);
    Hostile hostile(seed + static_cast<unsigned>(rounds));
    hostile.gradients(figures);
    hostile.differences(figures);
    hostile.records(figures);
    hostile.health(figures);
    hostile.checksums(figures);
    ++rounds;
  }
  CHECK(figures.refused > rounds);  // of five a round
  // For scripts/reliability.sh.
  std::printf(R"({"fuzz": "kernels: messages and records", "seconds": %lld, "inputs": %llu, "findings": 0})"
              "\n",
              static_cast<long long>(time.count()), static_cast<unsigned long long>(figures.launches));
  std::fflush(stdout);
}

}  // namespace

TEST_CASE("HostileMessages.NoKernelLeavesItsMemory") {
  run_for(std::chrono::seconds(4), 1);
}

TEST_CASE("HostileMessages.NoKernelLeavesItsMemoryInTenMinutes", "[.slow]") {
  run_for(std::chrono::minutes(10), 1000000);
}
