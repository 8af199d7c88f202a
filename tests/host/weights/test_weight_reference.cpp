// What a weight's way promises, on the definition itself: sender and holder stay equal, and every element
// stays near.
#include "kernels/reference_weight.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "catch.h"
#include "kernels/codec.h"
#include "kernels/reference_codec.h"
#include "kernels/weight_header.h"

using namespace sdp4bit;

namespace {

/// One sender and one holder of a class with one rank's entries.
struct Pair {
  WeightChunk chunk;
  std::uint32_t slots = 2;
  std::vector<std::byte> sender_ledger, holder_ledger, shard, receive, replica, message;
  std::vector<GroupMaxima> maxima;
  WeightSums sums{};
  std::uint32_t error = 0;
  std::uint32_t sender = 0, place = 0;

  Pair(ElementType type, std::size_t count, std::uint32_t group = 2048, std::uint32_t bits = 4)
      : Pair(type, count,
             Codec{.bits = bits, .group_size = group, .coding = Coding::nearest, .hadamard = false}) {}
  Pair(ElementType type, std::size_t count, const Codec& codec) {
    chunk = {.type = type,
             .codec = codec,
             .shard = count,
             .count = count,
             .class_number = 3,
             .class_call = 17,
             .slots = slots};
    const std::size_t bytes = count * element_bytes(type);
    sender_ledger.resize(slots * entry_bytes(count, type));
    holder_ledger.resize(slots * entry_bytes(count, type));
    shard.resize(bytes);
    receive.resize(bytes);
    replica.resize(bytes);
    message.resize(message_bytes(count, 1, chunk.codec));
    maxima.resize(group_count(count, chunk.codec));
  }
  void set(std::size_t i, double value) {
    reference::store_element(chunk.type, shard.data(), i, static_cast<float>(value));
  }
  [[nodiscard]] double weight(std::size_t i) const {
    return reference::load_element(chunk.type, shard.data(), i);
  }
  [[nodiscard]] double received(std::size_t i) const {
    return reference::load_element(chunk.type, receive.data(), i);
  }
  [[nodiscard]] double scale(std::size_t i) const {
    const ElementType type =
        chunk.codec.scale == ScaleType::float32 ? ElementType::float32 : ElementType::bfloat16;
    return reference::load_element(type, message.data() + sizeof(MessageHeader), i / chunk.codec.group_size);
  }
  [[nodiscard]] MessageHeader& header() { return *reinterpret_cast<MessageHeader*>(message.data()); }

  void encode(std::uint32_t slot) {
    sums = {};
    reference::encode_difference({.chunk = chunk,
                                  .shard = shard.data(),
                                  .entry = sender_ledger.data() + slot * entry_bytes(chunk.shard, chunk.type),
                                  .message = message.data(),
                                  .maxima = maxima.data(),
                                  .replica = replica.data()});
    reference::seal_difference({.chunk = chunk,
                                .maxima = maxima.data(),
                                .sums = &sums,
                                .slot = slot,
                                .sender = sender,
                                .message = message.data()});
  }
  void add() {
    reference::add_difference({.chunk = chunk,
                               .messages = {message.data(), message.size()},
                               .message_count = 1,
                               .senders = &sender,
                               .places = &place,
                               .ledger = holder_ledger.data(),
                               .receive = receive.data(),
                               .error = &error});
  }
  void gather(std::uint32_t slot) {
    encode(slot);
    add();
  }
  [[nodiscard]] bool equal() const {
    return sender_ledger == holder_ledger && std::memcmp(receive.data(), replica.data(), receive.size()) == 0;
  }
};

constexpr Codec kCompanded{.bits = 4,
                           .group_size = 1024,
                           .scale = ScaleType::bfloat16,
                           .coding = Coding::companded,
                           .hadamard = false};

/// The largest error of one code, in steps of the scale: half of the widest gap between levels, or what lies
/// beyond the outermost one.
double largest_code_error(const Codec& codec) {
  if (codec.coding == Coding::nearest) return 0.5;
  double largest = 0;
  for (float scale = 1.0f; scale < 2.0f; scale += 1.0f / 128) {
    for (int i = -1000; i <= 1000; ++i) {
      const float x = compandable(static_cast<float>(i) * 1e-3f * scale);
      const float decoded = decode_companded(encode_companded(x, scale), scale);
      largest = std::max(largest, std::abs(double{decoded} - double{x}) / double{scale});
    }
  }
  return largest + 1e-3 + 0x1p-8;  // between the values tried; a difference is rounded to 8 bits
}

/// Squared error over squared difference when a shard is sent from an empty ledger.
double first_error(const Codec& codec, unsigned seed) {
  Pair pair(ElementType::float32, 1 << 17, codec);
  std::mt19937 random(seed);
  std::normal_distribution<double> normal;
  for (std::size_t i = 0; i < pair.chunk.shard; ++i) pair.set(i, normal(random));
  pair.gather(0);
  double error = 0, power = 0;
  for (std::size_t i = 0; i < pair.chunk.shard; ++i) {
    error += std::pow(pair.received(i) - pair.weight(i), 2);
    power += std::pow(pair.weight(i), 2);
  }
  return error / power;
}

double half_ulp(ElementType type, double value) {
  const int bits = type == ElementType::bfloat16 ? 8 : type == ElementType::float16 ? 11 : 24;
  const int smallest = type == ElementType::float16 ? -14 : -126;
  int exponent = 0;
  (void)std::frexp(value, &exponent);
  return std::ldexp(0.5, std::max(exponent - 1, smallest) - (bits - 1));
}

}  // namespace

TEST_CASE("WeightReference.CompandedDifferencesLoseLessThanSixTenthsAtTheSameBits") {
  const Codec paper{.bits = 4, .group_size = 2048, .coding = Coding::nearest, .hadamard = false};
  REQUIRE(segment_bytes(1 << 20, kCompanded) <= segment_bytes(1 << 20, paper));
  CHECK(first_error(kCompanded, 1) <= 0.60 * first_error(paper, 1));
}

TEST_CASE("WeightReference.CompandedCodesKeepZeroAndSignAndOrder") {
  CHECK(encode_companded(0.0f, 1.0f) == 0);
  CHECK(bits_of(decode_companded(0, 1.0f)) == 0);
  for (int code = -8; code <= 7; ++code) {
    const float level = decode_companded(code, 1.0f);
    CHECK(encode_companded(level, 1.0f) == code);
    if (code > -8) CHECK(decode_companded(code - 1, 1.0f) < level);
  }
  int last = -8;
  for (int i = -1000; i <= 1000; ++i) {
    const int code = encode_companded(compandable(static_cast<float>(i) * 1e-3f), 1.0f);
    CHECK(code >= last);
    last = code;
  }
  CHECK(last == 7);
}

TEST_CASE(
    "Over 300 steps of a random walk sender and holder stay equal, and every element within the bound") {
  for (const ElementType type : {ElementType::bfloat16, ElementType::float16, ElementType::float32}) {
    for (const std::size_t count : {1u, 33u, 2047u, 4099u, 4100u}) {
      const bool companded = count == 4100;
      Pair pair = companded ? Pair(type, count, kCompanded) : Pair(type, count);
      const double code_error = largest_code_error(pair.chunk.codec);
      std::mt19937 random(static_cast<unsigned>(count));
      std::normal_distribution<double> normal;
      std::vector<double> master(2 * count);
      for (double& m : master) m = 0.02 * normal(random);
      double worst = 0;
      for (std::uint32_t step = 0; step < 300; ++step) {
        const std::uint32_t slot = step % 2;
        for (std::size_t i = 0; i < count; ++i) {
          double& m = master[slot * count + i];
          m += 1e-3 * normal(random);
          pair.set(i, m);
        }
        pair.gather(slot);
        REQUIRE(pair.equal());
        for (std::size_t i = 0; i < count; ++i) {
          // The bound, and the rounding of three operations in fp32.
          const double bound = pair.scale(i) * code_error + half_ulp(type, pair.received(i)) +
                               (std::abs(pair.weight(i)) + 8 * pair.scale(i)) * 0x1p-22;
          worst = std::max(worst, std::abs(pair.weight(i) - pair.received(i)) / bound);
        }
      }
      CHECK(worst <= 1.0);
    }
  }
}

TEST_CASE("A header that cannot be leaves the entry alone and fills the shard with NaN") {
  const auto broken = [](auto change) {
    Pair pair(ElementType::bfloat16, 100);
    for (std::size_t i = 0; i < 100; ++i) pair.set(i, 1.0 + static_cast<double>(i));
    pair.encode(1);
    change(pair.header());
    pair.add();
    CHECK(pair.error == 1);
    for (std::size_t i = 0; i < 100; ++i) CHECK(std::isnan(pair.received(i)));
    CHECK(pair.holder_ledger == std::vector<std::byte>(pair.holder_ledger.size()));
  };
  broken([](MessageHeader& header) { header.slot = 2; });
  broken([](MessageHeader& header) { header.call_or_key += 1; });
  broken([](MessageHeader& header) { header.class_number += 1; });
  broken([](MessageHeader& header) { header.count -= 1; });
  broken([](MessageHeader& header) { header.chunk = 1; });
  broken([](MessageHeader& header) { header.sender = 1; });
  broken([](MessageHeader& header) { header.magic ^= 1; });
  broken([](MessageHeader& header) { header.wire_version += 1; });
  broken([](MessageHeader& header) { header.kind = MessageKind::weight_record; });
}

TEST_CASE("A NaN weight is NaN everywhere, and heals with the next differences") {
  Pair pair(ElementType::bfloat16, 5000);
  for (std::size_t i = 0; i < 5000; ++i) pair.set(i, 0.5);
  for (int i = 0; i < 4; ++i) pair.gather(0);
  pair.set(2100, std::numeric_limits<double>::quiet_NaN());
  pair.gather(0);
  CHECK(pair.equal());
  CHECK(std::isnan(pair.received(2100)));
  CHECK(pair.received(0) == 0.5);
  CHECK((pair.header().flags & kJump) != 0);
  pair.set(2100, 0.25);
  for (int i = 0; i < 8; ++i) pair.gather(0);
  CHECK(pair.equal());
  CHECK(pair.received(2100) == Approx(0.25).epsilon(0.01));
  CHECK((pair.header().flags & kSmall) != 0);
}

TEST_CASE("Small is at most a sixteenth of the weights, a jump more than a quarter") {
  const auto flags = [](double before, double now) {
    Pair pair(ElementType::float32, 64);
    for (std::size_t i = 0; i < 64; ++i) pair.set(i, before);
    for (int i = 0; i < 40; ++i) pair.gather(0);  // the entry is now exact
    for (std::size_t i = 0; i < 64; ++i) pair.set(i, now);
    pair.encode(0);
    return pair.header().flags;
  };
  CHECK(flags(16.0, 16.0) == kSmall);
  CHECK(flags(0.0, 0.0) == kSmall);
  CHECK(flags(15.0, 16.0) == kSmall);
  CHECK(flags(14.96875, 16.0) == 0);
  CHECK(flags(12.0, 16.0) == 0);
  CHECK(flags(11.875, 16.0) == kJump);
  CHECK(flags(1.0, 0.0) == kJump);
}

TEST_CASE("Only the last chunk's header speaks for the whole shard") {
  Pair pair(ElementType::bfloat16, 4096);
  for (std::size_t i = 0; i < 4096; ++i) pair.set(i, i < 2048 ? 1.0 : 0.0);
  std::vector<std::byte> entry(entry_bytes(4096, ElementType::bfloat16));
  WeightSums sums{};
  for (std::uint32_t c = 0; c < 2; ++c) {
    WeightChunk chunk = pair.chunk;
    chunk.chunk = c;
    chunk.offset = c * 2048;
    chunk.count = 2048;
    reference::encode_difference({.chunk = chunk,
                                  .shard = pair.shard.data(),
                                  .entry = entry.data(),
                                  .message = pair.message.data(),
                                  .maxima = pair.maxima.data()});
    reference::seal_difference(
        {.chunk = chunk, .maxima = pair.maxima.data(), .sums = &sums, .message = pair.message.data()});
    CHECK(pair.header().flags == (c == 0 ? 0u : std::uint32_t{kJump}));
  }
  CHECK(sums.weight == 1.0);
  CHECK(sums.difference == 1.0);
}

TEST_CASE("Entries are set only when every record says ready") {
  constexpr std::size_t kCount = 40;
  for (const bool all : {true, false}) {
    std::vector<MessageHeader> records;
    WeightChunk shard{
        .type = ElementType::bfloat16, .shard = kCount, .count = kCount, .class_call = 5, .slots = 2};
    for (std::uint32_t rank = 0; rank < 4; ++rank) {
      const std::uint32_t ready = all || rank != 2 ? std::uint32_t{kReady} : 0u;
      records.push_back(weight_header(MessageKind::weight_record, shard, rank, rank % 2, ready | kSeen));
      records.back().slot_count = rank + 1;
    }
    std::vector<std::uint16_t> receive(4 * kCount);
    for (std::size_t i = 0; i < receive.size(); ++i) receive[i] = static_cast<std::uint16_t>(0x3f80 + i);
    const std::size_t entry = entry_bytes(kCount, shard.type);
    std::vector<std::byte> ledger(2 * 2 * entry);
    const std::uint32_t senders[] = {1, 3};
    std::uint32_t all_ready = 7, error = 0;
    CallWords words{};
    reference::set_entries({.chunk = shard,
                            .records = reinterpret_cast<const std::byte*>(records.data()),
                            .ranks = 4,
                            .all_ready = &all_ready,
                            .senders = senders,
                            .sender_count = 2,
                            .receive = receive.data(),
                            .ledger = ledger.data(),
                            .words = &words,
                            .error = &error});
    CHECK(error == 0);
    CHECK(words.number == 6);
    CHECK(words.max_slots == 4);
    CHECK((words.all_flags & kReady) == (all ? kReady : 0u));
    CHECK((words.all_flags & kSeen) == kSeen);
    for (std::size_t place = 0; place < 2; ++place) {
      const std::byte* first = ledger.data() + (place * 2 + 1) * entry;  // both name slot 1
      const bool set = std::memcmp(first, receive.data() + senders[place] * kCount, kCount * 2) == 0;
      CHECK(set == all);
    }
  }
}
