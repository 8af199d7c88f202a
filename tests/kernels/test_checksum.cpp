// Checksums: the kernels give the reference's sums, any flipped bit changes them, and other damage passes as
// seldom as chance says.
#include "kernels/checksum.h"

#include <cstddef>
#include <cstring>
#include <map>
#include <random>

#include "catch.h"
#include "gradient_data.h"
#include "kernels/launch_checksum.h"
#include "kernels/reference_checksum.h"

using namespace sdp4bit;
using namespace sdp4bit::test;

namespace {

Bytes random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

template <typename T>
T value_at(const Bytes& bytes, std::size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <typename T>
void set_value(Bytes& bytes, std::size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

Bytes zeros(std::size_t count) {
  return Bytes(count, std::byte{0});
}

/// All that a verification reads and writes, in device memory and beside it as the reference has it.
struct Verification {
  explicit Verification(const Bytes& content, std::uint32_t count)
      : messages(content),
        expected(content),
        sums(zeros(count * sizeof(ChecksumSum))),
        state(zeros(sizeof(ChecksumState))),
        failure(zeros(sizeof(ChecksumFailure))),
        counts(zeros(2 * sizeof(ChecksumCounts))),
        error(zeros(sizeof(std::uint32_t))) {}

  VerifyChecksumsArgs on_device(VerifyChecksumsArgs args) const {
    args.parts.data = args.parts.headers = messages.data();
    args.sums = sums.as<ChecksumSum>();
    args.state = state.as<ChecksumState>();
    args.failure = failure.as<ChecksumFailure>();
    args.error = error.as<std::uint32_t>();
    args.counts = counts.as<ChecksumCounts>();
    args.host_counts = args.counts + 1;
    return args;
  }
  VerifyChecksumsArgs on_host(VerifyChecksumsArgs args) {
    args.parts.data = args.parts.headers = expected.data();
    args.state = &expected_state;
    args.failure = &expected_failure;
    args.error = &expected_error;
    args.counts = expected_counts;
    args.host_counts = expected_counts + 1;
    return args;
  }
  void run(const VerifyChecksumsArgs& args) {
    require_success(verify_checksums(on_device(args), nullptr));
    require_success(cudaDeviceSynchronize());
    reference::verify_checksums(on_host(args));
  }
  template <typename T>
  static Bytes bytes_of(const T& value) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(&value);
    return Bytes(bytes, bytes + sizeof value);
  }
  void require_equal() const {
    REQUIRE((messages.download() == expected));
    REQUIRE((sums.download() == zeros(sums.download().size())));
    REQUIRE((state.download() == bytes_of(expected_state)));
    REQUIRE((failure.download() == bytes_of(expected_failure)));
    REQUIRE((counts.download() == bytes_of(expected_counts)));
    REQUIRE((error.download() == bytes_of(expected_error)));
  }

  DeviceBytes messages;
  Bytes expected;
  DeviceBytes sums, state, failure, counts, error;
  ChecksumState expected_state{};
  ChecksumFailure expected_failure{};
  std::uint32_t expected_error = 0;
  ChecksumCounts expected_counts[2]{};
};

VerifyChecksumsArgs verification(std::size_t stride, std::size_t bytes, std::uint32_t count) {
  return {.parts = checksummed_messages(nullptr, stride, bytes, count),
          .use = 7,
          .exchange = 3,
          .chunk = 2,
          .call = 11,
          .class_number = 5};
}

}  // namespace

TEST_CASE("Checksum.SealsAndVerdictsEqualTheReference") {
  for (const std::size_t bytes : {64u, 80u, 1008u, 4096u, 32768u, 32784u, 300016u}) {
    for (const std::uint32_t count : {1u, 3u}) {
      const std::size_t stride = bytes + 32;
      const Bytes content = random_bytes(stride * count, 1);
      const DeviceBytes messages(content), sums(zeros(count * sizeof(ChecksumSum)));
      for (int execution = 0; execution < 2; ++execution) {  // the sums are left as they were
        require_success(seal_checksums(checksummed_messages(messages.data(), stride, bytes, count),
                                       sums.as<ChecksumSum>(), nullptr));
      }
      require_success(cudaDeviceSynchronize());
      Bytes expected = content;
      reference::seal_checksums(checksummed_messages(expected.data(), stride, bytes, count));
      REQUIRE((messages.download() == expected));

      Verification whole(expected, count);
      const VerifyChecksumsArgs args = verification(stride, bytes, count);
      whole.run(args);
      whole.require_equal();
      CHECK(whole.expected_counts[0].verified == count);
      CHECK(whole.expected_counts[0].failed == 0);
      CHECK((whole.expected == expected));

      // The last bit of the last message; a message that comes later counts as damaged whatever it is.
      Bytes damaged = expected;
      damaged[stride * (count - 1) + bytes - 1] ^= std::byte{0x80};
      Verification broken(damaged, count);
      broken.run(args);
      broken.require_equal();
      CHECK(broken.expected_failure.part == count - 1);
      CHECK(broken.expected_failure.call == 11);
      CHECK(value_at<std::uint32_t>(broken.expected, stride * (count - 1)) == kDamagedMagic);
      if (count > 1) CHECK(value_at<std::uint32_t>(broken.expected, 0) != kDamagedMagic);
      VerifyChecksumsArgs later = args;
      later.use = 8;
      broken.run(later);
      broken.require_equal();
      CHECK(value_at<std::uint32_t>(broken.expected, 0) == kDamagedMagic);
    }
  }
}

TEST_CASE("Checksum.SumsOfShardsAtAnyAddressEqualTheReference") {
  for (const std::size_t misalignment : {0u, 1u, 2u, 4u, 8u, 13u}) {
    for (const std::size_t bytes : {2u, 6u, 16u, 30u, 4098u, 70002u}) {
      constexpr std::uint32_t kCount = 2, kRanks = 4;
      const Bytes content = random_bytes(bytes * kRanks, 2);
      Bytes records = random_bytes(kRanks * sizeof(MessageHeader), 3);
      const DeviceBytes shards(content, misalignment), device_records(records),
          places(std::vector<std::uint32_t>{3, 1}), sums(zeros(kCount * sizeof(ChecksumSum)));
      ChecksummedParts parts{.data = shards.data(),
                             .stride = bytes,
                             .bytes = bytes,
                             .count = kCount,
                             .places = places.as<std::uint32_t>(),
                             .headers = device_records.data(),
                             .header_stride = sizeof(MessageHeader),
                             .checksum_offset = offsetof(MessageHeader, draw),
                             .is_inside = false};
      require_success(seal_checksums(parts, sums.as<ChecksumSum>(), nullptr));
      require_success(cudaDeviceSynchronize());
      const std::uint32_t host_places[] = {3, 1};
      parts.data = content.data();
      parts.headers = records.data();
      parts.places = host_places;
      reference::seal_checksums(parts);
      REQUIRE((device_records.download() == records));
    }
  }
}

TEST_CASE("Checksum.ShardsOfMarkedRecordsBecomeNanAndNoOthers") {
  for (const ElementType type : kTypes) {
    const std::size_t count = 4099, bytes = count * element_bytes(type);
    Bytes content = random_bytes(bytes * 3, 4), records = zeros(3 * sizeof(MessageHeader));
    set_value(records, 2 * sizeof(MessageHeader), kDamagedMagic);
    const DeviceBytes receive(content, element_bytes(type)), device_records(records),
        senders(std::vector<std::uint32_t>{0, 2});
    FillDamagedArgs args{.type = type,
                         .count = count,
                         .senders = senders.as<std::uint32_t>(),
                         .sender_count = 2,
                         .records = device_records.data(),
                         .receive = receive.data()};
    require_success(fill_damaged(args, nullptr));
    require_success(cudaDeviceSynchronize());
    const std::uint32_t host_senders[] = {0, 2};
    args.senders = host_senders;
    args.records = records.data();
    args.receive = content.data();
    reference::fill_damaged(args);
    REQUIRE((receive.download() == content));
  }
}

TEST_CASE("Checksum.AHeaderThatWasMarkedOnItsWayIsReportedByThoseWhoGetItPassedOn") {
  const std::size_t bytes = 3 * sizeof(MessageHeader) + 160;
  Bytes content = random_bytes(2 * bytes, 5);
  set_value(content, bytes + sizeof(MessageHeader), kDamagedMagic);
  reference::seal_checksums(checksummed_messages(content.data(), bytes, bytes, 2));
  Verification passed_on(content, 2);
  VerifyChecksumsArgs args = verification(bytes, bytes, 2);
  args.headers_per_part = 3;
  args.passed_on = 9;
  passed_on.run(args);
  passed_on.require_equal();
  CHECK(passed_on.expected_failure.exchange == 9);
  CHECK(passed_on.expected_failure.part == 4);
  CHECK((passed_on.expected == content));  // the others of the message are taken for what they are
}

TEST_CASE("Checksum.RecordsThatLackAFlagAreNotLookedAt") {
  Bytes content = random_bytes(2 * sizeof(MessageHeader), 6);
  set_value<std::uint32_t>(content, offsetof(MessageHeader, flags), kSeen);
  set_value<std::uint32_t>(content, sizeof(MessageHeader) + offsetof(MessageHeader, flags), kReady | kSeen);
  Verification ready(content, 2);
  VerifyChecksumsArgs args = verification(sizeof(MessageHeader), sizeof(MessageHeader), 2);
  args.flags = kReady;
  ready.run(args);
  ready.require_equal();
  CHECK(ready.expected_counts[0].failed == 1);
  CHECK(ready.expected_failure.part == 1);
}

TEST_CASE("Checksum.EveryFlippedBitChangesIt") {
  for (const std::size_t bytes : {64u, 200u}) {
    Bytes message = random_bytes(bytes, 7);
    const std::size_t hole = offsetof(MessageHeader, checksum);
    const auto sum = [&] { return checksum_of(message.data(), bytes, hole); };
    const std::uint64_t before = sum();
    for (std::size_t bit = 0; bit < 8 * bytes; ++bit) {
      message[bit / 8] ^= std::byte{1} << bit % 8;
      const bool in_hole = bit / 64 * 8 == hole;
      CHECK((sum() == before) == in_hole);
      message[bit / 8] ^= std::byte{1} << bit % 8;
    }
  }
}

/// Damage that other sums take for nothing: two flips of a word's highest bit, the same change added and
/// taken away, words that changed places. If sums met by chance alone, their low 16 bits would in one of
/// 65,536 tries.
TEST_CASE("Checksum.DamageOfSeveralWordsPassesAsSeldomAsChanceSays") {
  constexpr std::size_t kWords = 512, kTries = 400000;
  std::mt19937_64 random(8);
  std::vector<std::uint64_t> terms(kWords), words(kWords);
  for (const bool is_sparse : {false, true}) {
    for (std::size_t i = 0; i < kWords; ++i) {
      words[i] = is_sparse ? i % 3 : random();
      terms[i] = checksum_term(words[i], i);
    }
    const auto change = [&](std::size_t i, std::uint64_t word) { return checksum_term(word, i) - terms[i]; };
    std::map<std::string, std::size_t> whole, low;
    const auto note = [&](const char* kind, std::uint64_t difference) {
      whole[kind] += difference == 0;
      low[kind] += (difference & 0xffff) == 0;
    };
    for (std::size_t i = 0; i < kTries; ++i) {
      const std::size_t a = random() % kWords, b = (a + 1 + random() % (kWords - 1)) % kWords;
      const std::uint64_t bit = std::uint64_t{1} << random() % 64, top = std::uint64_t{1} << 63;
      note("top bits", change(a, words[a] ^ top) + change(b, words[b] ^ top));
      note("the same bit", change(a, words[a] ^ bit) + change(b, words[b] ^ bit));
      note("moved", change(a, words[a] + bit) + change(b, words[b] - bit));
      if (words[a] != words[b]) note("exchanged", change(a, words[b]) + change(b, words[a]));
      note("neighbours", change(a, words[a] ^ bit) + change((a + 1) % kWords, ~words[(a + 1) % kWords]));
    }
    for (const auto& [kind, count] : whole) {
      INFO(kind);
      CHECK(count == 0);
      CHECK(low[kind] < 25);  // 6.1 expected; above 25 once in 10^8
    }
  }
}
